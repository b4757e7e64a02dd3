"""Builds the documentation strictly into a folder, `site` by default, and looks at every page.

No formula may be left as LaTeX, no function be shown as the module of its name, and nothing be asked of the network.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

WRONG = {
    "a formula that is not drawn": r"arithmatex",
    "a function shown as the module of its name": r"doc-module-name",
    "a script, image or frame from elsewhere": r"<(?:script|img|iframe)[^>]*\ssrc=\"(?:https?:)?//",
    "a style from elsewhere": r"<link[^>]*rel=\"(?:stylesheet|preconnect)\"[^>]*href=\"(?:https?:)?//",
}


def found_in(text: str) -> Iterator[str]:
    """What is wrong with a page."""
    yield from (what for what, pattern in WRONG.items() if re.search(pattern, text))
    bare = re.sub(r"<(script|style|pre|code|svg)\b.*?</\1>", "", text, flags=re.DOTALL)
    if (place := bare.find("$")) >= 0:
        yield f"a formula that is not seen: {bare[place : place + 40]}"


def main(folder: str = "site") -> int:
    """1 if something is wrong."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    built = subprocess.run(command, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=False).returncode
    pages = sorted(Path(folder).rglob("*.html"))
    wrong = [f"{page}: {what}" for page in pages for what in found_in(page.read_text(encoding="utf-8"))]
    print("\n".join(wrong) or f"{len(pages)} pages")
    return int(bool(built or wrong or not pages))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
