"""What can become of a file: flipped, cut, mixed up, replaced by something else, and its JSON with other values."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

NUMBERS = (0, 1, -1, 0.999, 40, 10**6, 2**64, -(10**22), 1e308, 5e-324)
LEAVES = (*NUMBERS, "", "x", "[/b]", "\x1b[31mred", None, True, [], {}, [[]], "../..", "\udcff")
RAW = (
    b"",
    b"[]",
    b"null",
    b"{}",
    b"0",
    b'"x"',
    b"\xff\xfe",
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b"NaN",
    b"\x00" * 4096,
)

Mutation = Callable[[Path, Random], str]
"""Changes a file, and says how."""


def mutate(path: Path, chance: Random) -> str:
    """One or two changes of a file, drawn from all that are there; the words to find them again."""
    of_text = path.suffix in (".json", ".jsonl")
    some = [*BYTES, *ENTRIES, *(4 * JSON if of_text else ())]
    words = [chance.choice(some)(path, chance)]
    if chance.random() < 0.1 and path.is_file() and not path.is_symlink():
        words.append(chance.choice(BYTES)(path, chance))
    return f"{path.name}: " + ", then ".join(words)


def names_in(done: str) -> tuple[str, ...]:
    """The files that these words of `mutate` are about: one, or two that were swapped."""
    name, _, how = done.partition(": ")
    return (name, *re.findall(r"swapped with (.+?)(?:, then|$)", how))


def flip(path: Path, chance: Random) -> str:
    """One to four bits."""
    content = bytearray(path.read_bytes())
    places = [chance.randrange(8 * len(content)) for _ in range(chance.randint(1, 4))] if content else []
    for place in places:
        content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)
    return f"flip bits {places}"


def flip_digit(path: Path, chance: Random) -> str:
    """A digit for another, which keeps text valid."""
    content = bytearray(path.read_bytes())
    places = [place for place, byte in enumerate(content[:200_000]) if 48 <= byte <= 57]
    if not places:
        return "no digit"
    place = chance.choice(places)
    content[place] = chance.choice([byte for byte in b"0123456789" if byte != content[place]])
    path.write_bytes(content)
    return f"digit at {place} becomes {chr(content[place])}"


def cut(path: Path, chance: Random) -> str:
    """Its end, or all of it."""
    size = chance.choice([0, chance.randrange(path.stat().st_size + 1)])
    os.truncate(path, size)
    return f"cut to {size} bytes"


def append(path: Path, chance: Random) -> str:
    """Something at its end."""
    content = path.read_bytes()
    more = chance.choice([b"\n", b"\x00" * 100, b"x", content, content[: len(content) // 2], b"{}\n", b"[" * 5000])
    path.write_bytes(content + more)
    return f"append {len(more)} bytes {more[:20]!r}"


def insert(path: Path, chance: Random) -> str:
    """Or take out a piece of its midst."""
    content = path.read_bytes()
    first, last = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    last = min(last, first + 50)
    more = chance.randbytes(chance.choice([0, 1, 8]))
    path.write_bytes(content[:first] + more + content[last:])
    return f"bytes {first} to {last} become {more!r}"


def replace(path: Path, chance: Random) -> str:
    """By what is no such file at all."""
    content = chance.choice([*RAW, chance.randbytes(1000)])
    path.write_bytes(content)
    return f"replaced by {content[:12]!r}, {len(content)} bytes"


def delete(path: Path, chance: Random) -> str:
    """The file."""
    path.unlink()
    return "deleted"


def swap(path: Path, chance: Random) -> str:
    """With a file beside it."""
    others = sorted(other for other in path.parent.iterdir() if other.is_file() and other != path)
    if not others:
        return "no other file"
    other, between = chance.choice(others), path.with_name("between")
    path.rename(between)
    other.rename(path)
    between.rename(other)
    return f"swapped with {other.name}"


def folder_for_file(path: Path, chance: Random) -> str:
    """A folder of its name."""
    path.unlink()
    path.mkdir()
    return "a folder instead"


def pipe(path: Path, chance: Random) -> str:
    """A named pipe, at which whoever opens it waits."""
    path.unlink()
    os.mkfifo(path)
    return "a named pipe instead"


def link(path: Path, chance: Random) -> str:
    """A link that leads nowhere, or to itself."""
    path.unlink()
    target = chance.choice([path.name, "nowhere", "/dev/null"])
    path.symlink_to(target)
    return f"a link to {target}"


def lines(path: Path, chance: Random) -> str:
    """Lines repeated, left out or exchanged."""
    found = path.read_bytes().splitlines(keepends=True)
    if len(found) < 2:
        return "one line alone"
    first, second = chance.sample(range(len(found)), 2)
    match chance.randrange(3):
        case 0:
            found.insert(second, found[first])
            words = f"line {first} once more, before {second}"
        case 1:
            del found[first]
            words = f"line {first} left out"
        case _:
            found[first], found[second] = found[second], found[first]
            words = f"lines {first} and {second} exchanged"
    path.write_bytes(b"".join(found))
    return words


def value(path: Path, chance: Random) -> str:
    """One value of its JSON for another, or a key gone or renamed."""
    content = path.read_bytes().splitlines(keepends=True) if path.suffix == ".jsonl" else [path.read_bytes()]
    place = chance.randrange(len(content))
    try:
        tree = json.loads(content[place])
    except ValueError:
        return "no JSON any more"
    parent, key = chance.choice([*leaves([tree])])
    before = parent[key]
    if isinstance(parent, dict) and chance.random() < 0.15:
        del parent[key]
        words = f"{key!r} left out"
    else:
        parent[key] = near(before, chance) if chance.random() < 0.5 else chance.choice(LEAVES)
        words = f"{key!r}: {str(before)[:60]!r} becomes {parent[key]!r}"
    # [tree] was the root of the leaves: a change of the whole is in it alone.
    indent = None if path.suffix == ".jsonl" else 2
    separators = (",", ":") if path.suffix == ".jsonl" else None
    content[place] = json.dumps(tree, indent=indent, separators=separators).encode() + b"\n"
    path.write_bytes(b"".join(content))
    return f"line {place}, {words}"


def near(before: object, chance: Random) -> object:
    """A value of the same kind, or of one that is easily taken for it."""
    if isinstance(before, bool):
        return not before
    if isinstance(before, int | float):
        return chance.choice([before + 1, -before, before * 1.001, float(before), str(before), *NUMBERS])
    if isinstance(before, str):
        return chance.choice([before[::-1], before + " ", before.upper(), "9" * 64, *LEAVES])
    return chance.choice(LEAVES)


def leaves(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a tree, as what holds it and its key there."""
    for key in range(len(tree)) if isinstance(tree, list) else [*tree]:
        short = not isinstance(tree, list) or len(tree) < 9  # long rows of numbers are one place
        if short and isinstance(tree[key], dict | list):
            yield from leaves(tree[key])
        if not (isinstance(tree, list) and isinstance(tree[key], dict)):
            yield tree, key


def copied(folder: Path, chance: Random) -> str:
    """A folder copied or moved to a name beside it, such as another seed's."""
    name = chance.choice([folder.name.replace("seed", "seed1"), folder.name[:-1] + "7", "copy", f"0{folder.name}"])
    if chance.random() < 0.5:
        folder.rename(folder.with_name(name))
        return f"{folder.name} moved to {name}"
    shutil.copytree(folder, folder.with_name(name))
    return f"{folder.name} copied to {name}"


BYTES: tuple[Mutation, ...] = (flip, flip_digit, cut, append, insert, replace, lines)
ENTRIES: tuple[Mutation, ...] = (delete, swap, folder_for_file, pipe, link)
JSON: tuple[Mutation, ...] = (value, flip_digit, lines)
