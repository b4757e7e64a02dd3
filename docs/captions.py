"""Below each figure of an experiment's page its caption, as the report has it and the file describes itself."""

import html
import re
from pathlib import Path
from xml.etree import ElementTree

FIGURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+\.svg)\)\{ \.figure \}")
DESCRIPTION = ".//{http://purl.org/dc/elements/1.1/}description"


def with_captions(markdown: str, folder: Path) -> str:
    """The page with captions; `folder` is that in which it lies."""
    return FIGURE.sub(lambda found: found[0] + caption(folder / found[1]), markdown)


def caption(path: Path) -> str:
    """The caption as a paragraph of its own; nothing if the file has none."""
    described = ElementTree.parse(path).getroot().findtext(DESCRIPTION) or ""
    words = re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(described))
    return f'\n\n<p class="caption">{words}</p>\n' if words else ""
