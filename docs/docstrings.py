"""What griffe reads of the sources, made ready for the pages."""

import ast
import re
from pathlib import Path
from typing import Any

import griffe

SECTION = re.compile(r"(Reading|Source|Args|Attributes|Returns|Raises|Cost|Precision|Example):(?: +(.+))?")
EXPERIMENT = re.compile(
    "|".join(rf"(?<=[( ]){page.stem}(?=[,)])" for page in (Path(__file__).parent / "experiments").glob("*.md"))
)
BRACKETS = re.compile(r"\([^()]*\)")
"""Where a section Reading names experiments."""
PAGE = re.compile(r"docs/(?:experiments/)?([\w-]+)\.md")
"""A page that a docstring names."""
LISTS = ("Args", "Attributes", "Raises")


class House(griffe.Extension):
    """Sections as Markdown, shapes as they are written, and a function before the module of its name."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ANN401 (griffe's own signature)
        """Each module, class and function."""
        if obj.docstring is not None:
            obj.docstring.value = PAGE.sub(r"[\1][\1]", markdown(obj.docstring.value))

    def on_function_instance(self, *, node: ast.AST, func: griffe.Function, **kwargs: Any) -> None:  # noqa: ANN401
        """Each function: griffe takes the shape "n *d" for a product."""
        if isinstance(node, ast.FunctionDef):
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                func.parameters[argument.arg].annotation = written(argument.annotation)
            func.returns = written(node.returns)

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:  # noqa: ANN401
        """The package with all its modules: `from .centroid import centroid` hides the submodule."""
        waiting = [pkg]
        for mod in waiting:
            waiting += mod.modules.values()
            for name, member in mod.modules.items():
                if name in mod.imports and name in member.members:
                    mod.members[name] = griffe.Alias(name, member.members[name], parent=mod)


def written(annotation: ast.expr | None) -> str | None:
    """An annotation as it stands in the source."""
    return None if annotation is None else ast.unparse(annotation).replace("'", '"')


def markdown(docstring: str) -> str:
    """The docstring with its sections as Markdown."""
    lines = docstring.splitlines()
    out: list[str] = []
    at = 0
    while at < len(lines):
        found = SECTION.fullmatch(lines[at])
        at += 1
        if found is None:
            out.append(lines[at - 1])
            continue
        end = at
        while end < len(lines) and (lines[end].startswith("    ") or not lines[end]):
            end += 1
        body = [found[2]] * bool(found[2]) + [line[4:] for line in lines[at:end]]
        out += ["", *section(found[1], "\n".join(body).strip("\n")), ""]
        at = end
    return "\n".join(out)


def section(title: str, body: str) -> list[str]:
    """One section: a definition list, or its title above code."""
    if title == "Example":
        return [f"**{title}**", "", "```pycon", body, "```"]
    if title == "Reading":
        body = BRACKETS.sub(lambda named: EXPERIMENT.sub(r"[\g<0>][\g<0>]", named[0]), re.sub(r"\n +", " ", body))
        lines = (line.partition(":") for line in body.splitlines())
        return ['!!! reading ""', *(f"    **{name}.** {said[1].upper()}{said[2:]}\n" for name, _, said in lines)]
    entries = [body]
    if title in LISTS:
        parts = (part.partition(":") for part in re.split(r"\n(?! )", body))
        entries = [f"`{name.strip()}`:{rest}" for name, _, rest in parts]
    return [title, "", *(":   " + entry.replace("\n", "\n    ") for entry in entries)]
