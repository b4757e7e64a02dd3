"""Draws the pictures of docs/plot.md, by the code that stands there: `python docs/pictures/page.py`.

The table of a notebook is a screenshot, light and dark, where there is a `chromium` on PATH.
"""

import io
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
import torch
from drawing import save
from matplotlib.figure import Figure
from PIL import Image
from playwright.sync_api import sync_playwright

from gnomon import History
from gnomon.plot import style

PAGE = Path(__file__).parents[1] / "plot.md"
FOLDER = PAGE.parent / "assets" / "plot"
ROWS = ("accuracy", "jacobian_norm", "nc1", "self_duality")
"""Of the table: a few quantities."""


def main() -> None:
    """Runs the page's code, and lets what it saves go into the folder of the pictures, small."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = style.STYLE["svg.hashsalt"]
    to_file = Figure.savefig

    def savefig(figure: Figure, target: Any, **settings: Any) -> None:  # noqa: ANN401 - matplotlib's own
        if isinstance(target, str):
            save(figure, FOLDER / target, {"Title": target, "Date": None, "Creator": "gnomon"})
        else:
            to_file(figure, target, **settings)

    Figure.savefig = savefig  # type: ignore[method-assign,assignment]
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        exec(compile(block, PAGE.name, "exec"), names)
    if chromium := shutil.which("chromium"):
        photograph(names["history"], chromium)


def photograph(history: History, chromium: str) -> None:
    """The table of a history of few rows, as a browser shows it."""
    few = History()
    few._extend(history)
    for row in few:
        own = {name: value for name, value in row.numbers.items() if name.partition("/")[2].startswith(ROWS)}
        row.numbers.clear()
        row.numbers.update(own)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        page = Path(folder) / "table.html"
        page.write_text(f"<!doctype html><meta charset=utf-8><body style='margin:0'>{few._repr_html_()}")
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            view = browser.new_page(
                color_scheme=scheme, viewport={"width": 940, "height": 100}, device_scale_factor=1.5
            )
            view.goto(page.as_uri())
            taken = Image.open(io.BytesIO(view.locator(".gnomon-table").screenshot()))
            taken.convert("RGB").quantize(48).save(FOLDER / f"table-{scheme}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
