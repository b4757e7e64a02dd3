"""Titles of panels, in lines that these have room for."""

import textwrap
from typing import Any

from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from gnomon.plot._ticks import width

MOST = 34
"""Characters of a line, also where there is room for more."""


class Wrapping(ConstrainedLayoutEngine):
    """A constrained layout that wraps titles when it has found how wide the axes are, which ticks and labels narrow."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - matplotlib's own
        super().__init__(**settings)
        self.titles: dict[Text, tuple[str, str]] = {}

    def execute(self, fig: Any) -> None:  # noqa: ANN401 - as matplotlib has it
        """Lays the figure out, and again if a title has then other lines."""
        super().execute(fig)
        before = {text: text.get_text() for text in self.titles}
        for text, (name, written) in [*self.titles.items()]:
            if before[text] == written:  # it is still ours
                self.wrap(text, name)
        if any(text.get_text() != words for text, words in before.items()):
            super().execute(fig)

    def wrap(self, text: Text, name: str) -> None:
        """Writes the name in lines as wide as the axes are now."""
        text.set_text(wrapped(name, text))
        self.titles[text] = name, text.get_text()


def wrapped(name: str, text: Text) -> str:
    """The name in lines as wide as the axes of this text, parted at spaces and after a slash or a dot if possible."""
    axes: Any = text.axes
    room, font = 72 * axes.bbox.width / axes.figure.dpi, text.get_fontproperties()
    parted = name.replace("/", "/\0 ").replace(".", ".\0 ")
    for most in range(MOST, 1, -1):
        lines = textwrap.fill(parted, most).replace("\0 ", "").replace("\0", "")
        if all(width(line, font) <= room for line in lines.split("\n")):
            return lines
    return name
