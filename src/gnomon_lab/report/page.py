"""One self-contained HTML page: style, plotly.js and data are part of it, and it may load nothing else."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from gnomon.errors import EmptyError, ShapeError
from gnomon_lab.figures import Figure, ImageSlider, Space
from gnomon_lab.report.drawing import interactive
from gnomon_lab.runs.claims import Claim, reproduced
from gnomon_lab.runs.files import replace_bytes

UNJUDGED = "No claim is judged: the claims are about another setting."


@dataclass(frozen=True)
class Table:
    """A table of results.

    Attributes:
        columns: the headings; the first column names the rows.
        rows: the cells, as they are shown.
        notes: what is said of a row below its name, by that name.

    Raises:
        EmptyError: if there is no column or no row.
        ShapeError: if a row does not have one cell for each column.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.columns or not self.rows:
            size = f"{len(self.columns)} columns and {len(self.rows)} rows"
            raise EmptyError("rows", "at least one column and one row", size, "Add results.", where="Table")
        for i, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ShapeError(
                    "rows",
                    f"{len(self.columns)} cells in each row",
                    f"{len(row)} in row {i}",
                    "Give each column its cell.",
                    where="Table",
                )


@dataclass(frozen=True)
class Report:
    """What a page says. All strings are shown as they are: markup in them is escaped.

    Attributes:
        title: of the page.
        summary: the result in one or two sentences.
        introduction: what the experiment is; blank lines separate its paragraphs.
        table: the results in numbers.
        worth: whether more training is worth it, by network, under an empty name if there is only one; may be empty.
        claims: the board of claims; empty if they are about a setting other than the run's, which the page then says;
            None for what makes no claims.
        figures: in reading order; may be empty.
        details: configuration and machine, shown folded; nested mappings become sections.
        then: what to do next, the page's last line; may be empty.
    """

    title: str
    summary: str
    introduction: str
    table: Table
    worth: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Claim, ...] | None = None
    figures: tuple[Figure, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    then: str = ""


def render(report: Report) -> str:
    """Renders the page.

    Args:
        report: what it says.

    Returns:
        One HTML5 document that refers to no other file and to no network, with plotly.js in it exactly once.
    """
    pages = Environment(
        loader=PackageLoader("gnomon_lab", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters["plain"] = _plain
    pages.filters["unbroken"] = _unbroken
    here = files("gnomon_lab.report")
    flat = {key: value for key, value in report.details.items() if not isinstance(value, Mapping)}
    nested = [(key, value) for key, value in report.details.items() if isinstance(value, Mapping)]
    return pages.get_template("page.html").render(
        report=report,
        unjudged=UNJUDGED,
        missed=[claim for claim in report.claims or () if not claim.holds],
        reproduced=reproduced(report.claims or ()),
        drawings=[_drawing(figure) for figure in report.figures],
        sections=[("", flat), *nested],
        # These are our own, and go into the page as they are.
        style=Markup((here / "page.css").read_text(encoding="utf-8")),
        plotly=Markup(get_plotlyjs()),
        script=Markup((here / "page.js").read_text(encoding="utf-8")),
    )


def write(report: Report, path: Path) -> None:
    r"""Writes the page next to `path`, then renames it: a reader sees the old page or the new one.

    What is no text in the name of a file is written out, such as `\udcff`.

    Args:
        report: what it says.
        path: the file, in an existing folder.
    """
    replace_bytes(path, render(report).encode(errors="backslashreplace"))


@dataclass(frozen=True)
class _Drawing:
    """A figure as plotly draws it, what its caption adds, and whether it has frames to play."""

    figure: Figure
    data: Markup
    note: str
    plays: bool


def _drawing(figure: Figure) -> _Drawing:
    drawn = interactive(figure)
    # "<" never appears inside the data: nothing in it can end the script element.
    data = drawn.to_json().replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    note = ""
    if isinstance(figure, ImageSlider):
        note = f" {figure.how_to_read}"
    elif isinstance(figure, Space):
        note = " Drag to turn it, hold Ctrl and use the wheel to come nearer, click twice to go back."
    return _Drawing(figure, Markup(data), note, bool(drawn.layout.sliders))


def _unbroken(cell: str) -> Markup:
    """A cell whose numbers with an exponent are not broken at its minus sign."""
    return Markup(re.sub(r"\d[\d.]*e-\d+", r'<span class="number">\g<0></span>', str(escape(cell))))


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
