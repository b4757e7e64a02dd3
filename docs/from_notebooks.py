"""Pages of the notebooks, made of what these hold: nothing is executed. `make notebooks` does that."""

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File
from nbconvert import MarkdownExporter

PICTURE = re.compile(r"^!\[\w+\]\((.+?)\)$", re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def notebook_pages(config: MkDocsConfig) -> Iterator[File]:
    """Of each notebook its page and its pictures; the notebook itself lies beside them."""
    for path in sorted(Path(config.docs_dir, "notebooks").glob("*.ipynb")):
        text, resources = MarkdownExporter().from_filename(str(path))
        for name, content in resources["outputs"].items():
            yield File.generated(config, f"notebooks/{path.stem}/{name}", content=content)
        title, _, rest = described(text, path.stem).strip().partition("\n")
        link = f"[The notebook]({path.name}), to open in Jupyter."
        yield File.generated(config, f"notebooks/{path.stem}.md", content=f"{title}\n\n{link}\n{rest}\n")


def described(text: str, folder: str) -> str:
    """The text with its pictures where they lie, each described by the heading above it."""

    def picture(found: re.Match[str]) -> str:
        headings = HEADING.findall(text[: found.start()])
        return f"![{headings[-1]}]({folder}/{found[1]}){{ .figure }}"

    return PICTURE.sub(picture, text)
