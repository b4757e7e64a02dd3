"""Sections of the pages that nobody wrote, since they follow from the sources."""

import re

from gnomon import measure

BEHIND = "\n## Differentiate\n"
"""In docs/quantities.md, what comes behind the quantities."""


def with_all_quantities(markdown: str) -> str:
    """The page, with those quantities at the end of their part that have no section of their own."""
    written = set(re.findall(r"^::: gnomon\.(\w+)$", markdown, re.MULTILINE))
    missing = [name for name in measure.__all__ if name not in written]
    if not missing:
        return markdown
    sections = "".join(f"\n::: gnomon.{name}\n" for name in missing)
    return markdown.replace(BEHIND, f"\n### Others\n{sections}{BEHIND}")
