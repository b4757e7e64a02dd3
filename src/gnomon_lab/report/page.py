"""One self-contained HTML page: style, plotly.js and data stand in it, and it may load nothing else."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from plotly.offline import get_plotlyjs

from gnomon.errors import EmptyError, ShapeError
from gnomon_lab.figures import Figure, ImageSlider, Space
from gnomon_lab.report.drawing import interactive
from gnomon_lab.runs.claims import Claim, reproduced
from gnomon_lab.runs.files import replace_text

UNJUDGED = "No claim is judged: the claims are about another setting."
CONTROLS = '<div class="controls"><button type="button">▶ Play</button><button type="button">Pause</button></div>\n'
CODE = re.compile("`([^`]+)`")


@dataclass(frozen=True)
class Table:
    """A table of results.

    Attributes:
        columns: the heads; the first column names the rows.
        rows: the cells, as they are to be read.

    Raises:
        EmptyError: if there is no column or no row.
        ShapeError: if a row has not one cell for each column.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

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
        introduction: what the experiment is; blank lines part its paragraphs.
        table: the results in numbers.
        claims: the board; empty where the run's setting is not the one that the claims are about, which is said.
        figures: in reading order; may be empty.
        details: configuration and machine, shown folded; nested mappings become sections.
        then: what to do next, the page's last line; may be empty.
    """

    title: str
    summary: str
    introduction: str
    table: Table
    claims: tuple[Claim, ...] = ()
    figures: tuple[Figure, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    then: str = ""


def render(report: Report) -> str:
    """Writes the page.

    Args:
        report: what it says.

    Returns:
        One HTML5 document that refers to no other file and to no network, plotly.js in it exactly once.
    """
    here = files("gnomon_lab.report")
    return Template((here / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(report.title),
        style=(here / "page.css").read_text(encoding="utf-8"),
        verdict=_verdict(report.claims),
        summary=escape(report.summary),
        introduction=_paragraphs(report.introduction),
        table=_table(report.table),
        figures=_section("figures", "Figures", map(_figure, range(len(report.figures)), report.figures)),
        claims=_section("claims", "Claims", map(_claim, report.claims)),
        details=_details(report.details),
        then=_code(report.then),
        plotly=get_plotlyjs(),
        script=(here / "page.js").read_text(encoding="utf-8"),
    )


def write(report: Report, path: Path) -> None:
    """Writes the page beside `path`, then renames it: a reader sees the old page or the new one.

    Args:
        report: what it says.
        path: the file, in a folder that is there.
    """
    replace_text(path, render(report))


def _paragraphs(text: str) -> str:
    return "\n".join(f"<p>{escape(' '.join(part.split()))}</p>" for part in text.split("\n\n") if part.strip())


def _section(name: str, heading: str, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return f'<section id="{name}">\n<h2>{heading}</h2>\n{body}\n</section>' if body else ""


def _verdict(claims: tuple[Claim, ...]) -> str:
    if not claims:
        return f'<p class="verdict">{UNJUDGED}</p>'
    missed = [claim for claim in claims if not claim.holds]
    items = "\n".join(f"<li>{escape(claim.message)}: {escape(claim.measured)}</li>" for claim in missed)
    rest = f'\n<p class="missed">Not reproduced:</p>\n<ul class="missed">\n{items}\n</ul>' if missed else ""
    kind = "fails" if missed else "holds"
    return f'<p class="verdict {kind}"><a href="#claims">{reproduced(claims)}</a></p>{rest}'


def _code(words: str) -> str:
    """A paragraph in which what stands between backticks is code."""
    return "<p>" + CODE.sub(r"<code>\1</code>", escape(words)) + "</p>" if words else ""


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + _cells(table.columns[1:], row[1:]) + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="Results"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def _cells(columns: tuple[str, ...], cells: tuple[str, ...]) -> str:
    """Each cell carries its column's head, which a narrow screen shows beside it."""
    pairs = zip(columns, cells, strict=True)
    return "".join(f'<td data-head="{escape(head)}">{escape(cell)}</td>' for head, cell in pairs)


def _claim(claim: Claim) -> str:
    kind, verdict = ("holds", "✓ reproduced") if claim.holds else ("fails", "✗ not reproduced")
    return (
        f'<article class="claim {kind}">\n<p class="badge">{verdict}</p>\n<h3>{escape(claim.message)}</h3>\n'
        f"<dl><div><dt>expected</dt><dd>{escape(claim.expected)}</dd></div>"
        f"<div><dt>measured</dt><dd>{escape(claim.measured)}</dd></div>"
        f"<div><dt>source</dt><dd>{escape(claim.source)}</dd></div></dl>\n</article>"
    )


def _figure(i: int, figure: Figure) -> str:
    drawing = interactive(figure, titled=False)
    # "<" never appears inside the data: nothing in it can end the script element.
    data = drawing.to_json().replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    note = ""
    if isinstance(figure, ImageSlider):
        note = f" {escape(figure.how_to_read)}"
    elif isinstance(figure, Space):
        note = " Drag to turn it, hold Ctrl and use the wheel to come nearer, click twice to go back."
    return (
        f'<figure id="figure-{i}" data-name="{escape(figure.name)}">\n<h3>{escape(figure.title)}</h3>\n'
        f'<div class="plot" role="group" aria-label="{escape(figure.title)}"></div>\n'
        f"{CONTROLS if drawing.layout.sliders else ''}"
        f'<script type="application/json">{data}</script>\n'
        f"<figcaption>{escape(figure.caption)}{note}</figcaption>\n</figure>"
    )


def _details(details: Mapping[str, object]) -> str:
    if not details:
        return ""
    flat = {key: value for key, value in details.items() if not isinstance(value, Mapping)}
    parts = [_pairs("", flat)] if flat else []
    parts += [_pairs(key, value) for key, value in details.items() if isinstance(value, Mapping) and value]
    body = "\n".join(parts)
    return f"<details>\n<summary>Configuration, machine and cost</summary>\n{body}\n</details>"


def _pairs(heading: str, pairs: Mapping[str, object]) -> str:
    rows = "\n".join(
        f"<div><dt>{escape(str(key))}</dt><dd>{escape(_plain(value))}</dd></div>" for key, value in pairs.items()
    )
    return (f"<h3>{escape(heading)}</h3>\n" if heading else "") + f"<dl>\n{rows}\n</dl>"


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
