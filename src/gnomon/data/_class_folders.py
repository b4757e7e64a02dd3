"""Images in folders of classes, `<split>/<class>/…`, as torchvision's ImageFolder and the hub's `imagefolder` do."""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from gnomon._extras import extra
from gnomon.data._table import Table, line, no_split
from gnomon.errors import DataError

TRAIN = "train"
"""The split whose classes a network was trained on."""
_BATCH = 64  # files held in memory at once
_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def of_class_folders(folder: Path, split: str) -> Table:
    """The table of a split in a folder without parquet files: one image of each class in turn."""
    arrow = extra("load_images", "pyarrow", "data")
    splits = {path.name: classes for path in _folders(folder) if (classes := [of.name for of in _folders(path)])}
    if not splits:
        raise _nothing(folder)
    if split not in splits:
        raise no_split(folder, split, splits, f"the folder {split}")
    _require_one_numbering(folder, split, splits)
    images = _by_turns(folder / split)

    def batches(_: Sequence[str]) -> Iterator[Any]:
        for start in range(0, len(images), _BATCH):
            part = images[start : start + _BATCH]
            cells = [{"bytes": _content(path), "path": os.fsencode(path)} for path, _ in part]
            yield arrow.RecordBatch.from_pydict({"image": cells, "label": [rank for _, rank in part]})

    return Table(f"{folder} ({split})", len(images), ["image", "label"], batches, tuple(path for path, _ in images))


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, by name, without hidden ones; none in one that may not be read, such as lost+found."""
    return sorted(folder.glob("[!.]*/"))


def _require_one_numbering(folder: Path, split: str, splits: Mapping[str, list[str]]) -> None:
    """Refuses a split that lacks classes of `train`, or has more, where those after them get other numbers than there.

    One with classes of its own and without some of `train` may be of another task, and is numbered by its own.
    """
    here, there = splits[split], splits.get(TRAIN, [])
    few, many = sorted((here, there), key=len)
    if not set(few) < set(many) or few == many[: len(few)]:
        return
    apart = [repr(name) for name in many if name not in few]
    names = ", ".join(apart[:5]) + (f" and {len(apart) - 5} more" if len(apart) > 5 else "")
    lacks = few is here
    do = "Add it with its images" if lacks else f"Move it elsewhere, or add it to {TRAIN!r} with its images"
    raise DataError(
        "name",
        f"the folders of the classes of {TRAIN!r} in {str(folder / split)!r}",
        f"{'none named' if lacks else 'also'} {names}",
        f"{do}, or write the split to a parquet file with the labels of {TRAIN!r}: as it is, the classes after it get "
        "other numbers.",
    )


def _by_turns(folder: Path) -> list[tuple[Path, int]]:
    """The images in a folder of classes and the rank of their class by name, so ordered that the first have all."""
    classes = []
    for rank, of_class in enumerate(_folders(folder)):
        paths = sorted(path for path in of_class.rglob("*") if _is_image(path.relative_to(of_class)))
        if not paths:
            raise DataError(
                "name",
                "images in the folder of each class",
                f"none in {str(of_class)!r}",
                "Add its images; or remove it, which renumbers the classes after it: they are numbered by their names.",
            )
        classes.append([(path, rank) for path in paths])
    return [image for turn in zip_longest(*classes) for image in turn if image is not None]


def _is_image(path: Path) -> bool:
    """Whether a name in a class's folder is that of an image, and neither hidden nor in a hidden folder."""
    return path.suffix.lower() in _SUFFIXES and not any(part.startswith(".") for part in path.parts)


def _content(path: Path) -> bytes:
    """The bytes of an image's file."""
    if not path.is_file():  # opening a pipe would never end
        raise DataError("name", "a file", repr(str(path)), "Put the image there.")
    try:
        return path.read_bytes()
    except OSError as cause:
        raise DataError("name", "a readable file", f"{str(path)!r} ({line(cause)})", "Copy it again.") from cause


def _nothing(folder: Path) -> DataError:
    """The error for a folder without data, or for one that is itself that of a split."""
    expected = f"files <split>.parquet or <split>-<number>*.parquet, or folders <split>/<class>, in {str(folder)!r}"
    if not (found := _folders(folder)):
        return DataError("name", expected, "none", "Put them there, or name another folder.")
    if tables := [path for path in found if any(path.glob("*.parquet"))]:  # as a download from the hub has them
        return DataError("name", expected, f"parquet files in {str(tables[0])!r}", "Name that folder.")
    got = f"folders without folders, such as {found[0].name!r}"
    here = folder.absolute()
    return DataError(
        "name", expected, got, f"If they are classes, name {str(here.parent)!r} and the split {here.name!r}."
    )
