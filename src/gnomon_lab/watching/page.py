"""The page that draws the curves: with their numbers in it, or with the address from which to request them."""

from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

SCRIPTS = ("axes", "drawing", "pointing", "page")


def page(folder: Path, content: str | None = None) -> str:
    """One HTML document that loads nothing.

    Args:
        folder: what is watched.
        content: the answer that it draws; None: it requests answers again and again, from where it came.
    """
    pages = Environment(loader=PackageLoader("gnomon_lab", "watching"), autoescape=True, undefined=StrictUndefined)
    here = files("gnomon_lab.watching")
    # "<" never appears inside the data: nothing in it can end the script element.
    data = "null" if content is None else content.replace("<", "\\u003c")
    return pages.get_template("page.html").render(
        folder=str(folder if folder.name else folder.resolve()).encode("utf-8", "backslashreplace").decode(),
        follows=content is None,
        data=Markup(data),
        style=Markup((here / "page.css").read_text(encoding="utf-8")),
        scripts=[Markup((here / f"{name}.js").read_text(encoding="utf-8")) for name in SCRIPTS],
    )
