"""Writes what follows from the sources: what `gnomon.measure` and `gnomon` export, and the page's table of experiments.

A file `FAMILY/_NAME.py` gives its function NAME, and the classes that it defines, and `_moments.py` the class that many
families look at. The table also gets what `gnomon.steer` imports. The page has a row for each `Entry`. `make exports`
runs this; `--check` only says whether that is due. A test asks it.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from gnomon_lab.papers import EXPERIMENTS

ROOT = Path(__file__).parents[1]
WIDTH = 120
DOCSTRING = '''"""One quantity per file: pure functions of tensors, whose argument names say what they look at.

Made by `make exports`: what is public follows from the files.
"""'''


def exported(path: Path) -> list[str]:
    """The function of the file's name, and the public classes."""
    definitions = ast.parse(path.read_text(encoding="utf-8")).body
    functions = {node.name for node in definitions if isinstance(node, ast.FunctionDef)}
    classes = [node.name for node in definitions if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    names = ordered([*classes, *(functions & {path.stem.removeprefix("_")})])
    if not names:
        sys.exit(
            f"{path}: expected a function {path.stem.removeprefix('_')} or a class, got neither. Rename one of them."
        )
    return names


def imports_of(source: str) -> list[str]:
    """The names that a module imports from others."""
    return [name.name for node in ast.parse(source).body if isinstance(node, ast.ImportFrom) for name in node.names]


def ordered(names: Iterable[str]) -> list[str]:
    """Constants, classes, functions, as the linter sorts them."""
    return sorted(names, key=lambda name: (0 if name.isupper() else 1 if name[0].isupper() else 2, name))


def imported(module: str, names: list[str]) -> str:
    """One import, in several lines if it is long."""
    line = f"from {module} import {', '.join(names)}"
    return line if len(line) <= WIDTH else f"from {module} import (\n{lines(names)})"


def lines(names: Iterable[str], quote: str = "") -> str:
    """One name a line."""
    return "".join(f"    {quote}{name}{quote},\n" for name in names)


def tables() -> Iterator[tuple[Path, str]]:
    """The files that are made, in part or whole, each with what it has to hold."""
    package = ROOT / "src" / "gnomon"
    # Not the metrics: torchmetrics imports transformers where that is installed, which takes seconds.
    files = (path for path in package.glob("measure/[!_]*/_[!_]*.py") if path.parent.name != "metrics")
    files = [package / "measure" / "_moments.py", *sorted(files, key=lambda path: (path.parent.name, path.stem))]
    found = {".".join(path.relative_to(package.parent).with_suffix("").parts): exported(path) for path in files}
    imports = "\n".join(imported(module, names) for module, names in found.items())
    public = ordered(name for names in found.values() for name in names)
    yield package / "measure" / "__init__.py", f"{DOCSTRING}\n\n{imports}\n\n__all__ = [\n{lines(public, chr(34))}]\n"

    stub = package / "__init__.pyi"
    text = stub.read_text(encoding="utf-8")
    for part, names in (("measure", public), ("steer", imports_of((package / "steer" / "__init__.py").read_text()))):
        text = replaced(rf"from \.{part} import \([^)]*\)", f"from .{part} import (\n{lines(ordered(names))})", text)
    every = imports_of(text)
    yield stub, replaced(r"__all__ = \[[^]]*\]", f"__all__ = [\n{lines(ordered(every), chr(34))}]", text)

    page = ROOT / "docs" / "experiments.md"
    rows = "".join(
        f"| [{name}](experiments/{name}.md) | {entry.shows} | {entry.source} |\n" for name, entry in EXPERIMENTS.items()
    )
    text = page.read_text(encoding="utf-8")
    yield page, replaced(r"(?m)(?<=^\| --- \| --- \| --- \|\n)(\|.*\n)*", rows, text)


def replaced(pattern: str, by: str, text: str) -> str:
    """The text with the only part that matches replaced; raises unless there is just one."""
    found, count = re.subn(pattern, lambda _: by, text)
    if count != 1:
        raise SystemExit(f"exports: expected one part that matches {pattern!r}, got {count}.")
    return found


def main(arguments: list[str]) -> int:
    """Writes them, or with --check says which are stale."""
    stale = {path: text for path, text in tables() if path.read_text(encoding="utf-8") != text}
    for path, text in stale.items():
        print(f"{path.relative_to(ROOT)}: {'stale, run make exports' if '--check' in arguments else 'written'}")
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    return int("--check" in arguments and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
