"""Parts of the pages that nobody wrote, since they follow from the sources: the index of names, and new names."""

import inspect
import re
from operator import attrgetter
from pathlib import Path

import gnomon
from gnomon import measure

FOLDER = Path(__file__).parent / "quantities"
ENTRY = re.compile(r"^::: gnomon\.([\w.]+)$", re.MULTILINE)
PLACE = "<!-- the index -->"
"""In docs/quantities.md, where the index goes."""


def with_index(markdown: str) -> str:
    """The page, with one table per family: each name and the first sentence of its docstring."""
    titles = re.findall(r"^\| \[.+?\]\(quantities/(\w+)\.md\) ", markdown, re.MULTILINE)
    return markdown.replace(PLACE, "\n".join(map(table, titles)))


def table(family: str) -> str:
    """The names of one page."""
    page = with_new_quantities((FOLDER / f"{family}.md").read_text(encoding="utf-8"), family)
    title = page.partition("\n")[0].removeprefix("# ")
    rows = [f"| [`{name}`](quantities/{family}.md#gnomon.{name}) | {summary(name)} |" for name in ENTRY.findall(page)]
    return "\n".join([f"### {title}\n", "| name | what it is |", "| --- | --- |", *rows, ""])


def summary(name: str) -> str:
    """The first paragraph of the docstring, in one line, fit for a table."""
    first = (inspect.getdoc(attrgetter(name)(gnomon)) or "").partition("\n\n")[0]
    return " ".join(first.split()).replace("|", "&#124;")


def with_new_quantities(markdown: str, family: str) -> str:
    """The page of a family of `gnomon.measure`, with those of its names at the end that no page has a section for."""
    written = {name for page in FOLDER.glob("*.md") for name in ENTRY.findall(page.read_text(encoding="utf-8"))}
    own = f"gnomon.measure.{family}."
    missing = [name for name in measure.__all__ if getattr(measure, name).__module__.startswith(own)]
    sections = "".join(f"\n::: gnomon.{name}\n" for name in missing if name not in written)
    return f"{markdown}\n## Others\n{sections}" if sections else markdown
