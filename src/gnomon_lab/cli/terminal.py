"""The terminal for tables, bars and colours."""

from typing import IO, Any

from rich.console import Console
from rich.text import Text

from gnomon_lab.cli.say import plain


class Terminal(Console):
    """rich's console, which prints all strings as they are, those in tables too; styles are given separately."""

    def __init__(self, *, stderr: bool = False, file: IO[str] | None = None, width: int | None = None) -> None:
        super().__init__(stderr=stderr, file=file, width=width, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - rich's own
        """The text of a string, wherever rich gets one; what would control the terminal is written out."""
        return super().render_str("\n".join(map(plain, text.split("\n"))), **options)
