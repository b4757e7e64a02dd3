"""Data sets without a network and without external files: tiny parquet folders made on the spot."""

import doctest
import importlib
import io
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch.testing import assert_close

from gnomon.data import Samples, digits, load_images, normalise, standardise
from gnomon.errors import DataError, EmptyError, MissingExtraError, RangeError, ShapeError

NOWHERE = "nobody-at-all/nothing-at-all"  # a hub id that no hub and no cache has


@pytest.fixture(autouse=True)
def _no_data_directory(monkeypatch):
    monkeypatch.delenv("GNOMON_DATA", raising=False)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def random_images(n, *, size=(5, 4), channels=1, seed=0):
    shape = (n, *size, channels) if channels > 1 else (n, *size)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def encoded(image, kind="PNG"):
    file = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(file, kind)
    return file.getvalue()


def write(path, images, labels, *, image="image", label="label"):
    """A parquet file as the hub writes it: encoded images in a struct, integer labels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [None if i is None else {"bytes": i if isinstance(i, bytes) else encoded(i), "path": None} for i in images]
    struct = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    pq.write_table(pa.table({image: pa.array(cells, struct), label: labels}), path, row_group_size=3)
    return path.parent


def expected(images):
    """The oracle: (n, h, w[, c]) bytes to (n, c, h, w) in [0, 1]."""
    images = images if images.ndim == 4 else images[..., None]
    return torch.tensor(images.transpose(0, 3, 1, 2) / 255.0, dtype=torch.float32)


# digits


def test_digits_split_is_disjoint_and_complete():
    train, test = digits(700, generator=seeded())
    assert train.x.shape == (700, 64)
    assert test.x.shape == (1097, 64)
    x, labels = load_digits(return_X_y=True)
    rows = sorted((*row, label) for row, label in zip(x.tolist(), labels.tolist(), strict=True))
    both = torch.cat([torch.cat([part.x, part.labels[:, None]], dim=1) for part in (train, test)])
    assert sorted(map(tuple, both.tolist())) == rows


def test_digits_range_and_types():
    train, test = digits(generator=seeded())
    assert len(train.x) == 500
    for part in (train, test):
        assert part.x.dtype == torch.float32
        assert part.labels.dtype == torch.int64
        assert (part.x.min(), part.x.max()) == (0, 16)
        assert part.labels.unique().tolist() == list(range(10))
    assert digits(generator=seeded(), dtype=torch.float64)[0].x.dtype == torch.float64


def test_digits_repeat_with_the_seed_and_differ_without():
    first, again, other = (digits(generator=seeded(seed))[0] for seed in (3, 3, 4))
    assert_close(first, again, rtol=0, atol=0)
    assert not torch.equal(first.x, other.x)


def test_digits_advance_the_generator():
    generator = seeded()
    assert not torch.equal(digits(generator=generator)[0].x, digits(generator=generator)[0].x)


@pytest.mark.parametrize("train", [1, 1796])
def test_digits_accept_the_ends(train):
    assert [len(part.x) for part in digits(train, generator=seeded())] == [train, 1797 - train]


@pytest.mark.bad_input
@pytest.mark.parametrize("train", [-1, 0, 1797, 5.5])
def test_digits_reject_what_leaves_a_side_empty(train):
    with pytest.raises(RangeError, match=rf"digits: expected train a whole number from 1 to 1796, got {train!r}\."):
        digits(train, generator=seeded())


@pytest.mark.bad_input
@pytest.mark.parametrize("dtype", [torch.int64, "float32"])
def test_digits_are_floating_point(dtype):
    with pytest.raises(RangeError, match=rf"digits: expected dtype of floating point, got {dtype!r}\."):
        digits(generator=seeded(), dtype=dtype)


# standardise, normalise


def samples(x):
    return Samples(x, torch.arange(len(x)))


@pytest.mark.parametrize("shape", [(50, 7), (50, 2, 3, 4), (50,)])
def test_standardise_gives_mean_zero_and_deviation_one(shape):
    x = 3 + 5 * torch.randn(shape, generator=seeded(), dtype=torch.float64)
    (out,) = standardise(samples(x))
    assert_close(out.x.mean(0), torch.zeros(shape[1:], dtype=torch.float64))
    assert_close((out.x**2).mean(0), torch.ones(shape[1:], dtype=torch.float64))
    assert_close(out.labels, torch.arange(50))


def test_standardise_maps_the_others_as_train():
    train = samples(torch.tensor([[0.0], [4.0]]))
    out = standardise(train, samples(torch.tensor([[6.0]])), samples(torch.empty(0, 1)))
    assert [part.x.flatten().tolist() for part in out] == [[-1.0, 1.0], [2.0], []]


def test_standardise_only_centres_constant_features():
    # 0.1 added up 1000 times in float32 is not 100: a deviation of rounding errors would be blown up to 1.
    train = samples(torch.full((1000, 1), 0.1))
    out, other = standardise(train, samples(torch.tensor([[1.1]])))
    assert_close(out.x, torch.zeros(1000, 1), rtol=0, atol=0)
    assert_close(other.x, torch.tensor([[1.0]]))


def test_standardise_stays_finite_where_the_deviation_underflows():
    (out,) = standardise(samples(torch.tensor([[0.0], [0.0], [0.0], [1e-45]])))
    assert out.x.isfinite().all()


def test_standardise_of_features_far_from_the_origin():
    near = torch.tensor([[0.0, 0.5], [2.0, 0.5], [2.0, 1.0]])
    labels = torch.zeros(3, dtype=torch.long)
    far = near + torch.tensor([2.0**24, 2.0**22])
    expected = standardise(Samples(near.double(), labels))[0].x
    assert_close(standardise(Samples(far, labels))[0].x.double(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(20, 3), (20,)])
def test_standardise_keeps_each_dtype(shape):
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
    parts = [3 + torch.randn(shape, generator=seeded(i), dtype=torch.float64).to(kind) for i, kind in enumerate(kinds)]
    for train in parts:
        out = standardise(samples(train), *(samples(part) for part in parts))
        assert [part.x.dtype for part in out] == [train.dtype, *kinds]
        mean, deviation = train.double().mean(0), train.double().std(0, correction=0)
        for part, got in zip(parts, out[1:], strict=True):
            coarsest = max(torch.finfo(train.dtype).eps, torch.finfo(part.dtype).eps)
            expected = (part.double() - mean) / deviation
            assert_close(got.x.double(), expected, rtol=8 * coarsest, atol=16 * coarsest)


def test_standardise_leaves_its_input_alone():
    x = torch.tensor([[0.0], [4.0]])
    standardise(samples(x))
    assert x.tolist() == [[0.0], [4.0]]


def test_standardise_errors():
    fine = samples(torch.ones(2, 3))
    bad = samples(torch.tensor([[0.0, 0.0, 0.0], [0.0, torch.nan, 0.0]]))
    with pytest.raises(EmptyError, match=r"standardise\(train\): expected at least one sample, got none"):
        standardise(samples(torch.empty(0, 3)))
    with pytest.raises(RangeError, match=r"standardise\(train\): expected finite numbers, got nan at index \(1, 1\)"):
        standardise(bad)
    with pytest.raises(RangeError, match=r"standardise\(others\[1\]\): expected finite numbers"):
        standardise(fine, fine, bad)
    with pytest.raises(RangeError, match=r"standardise\(train\): expected a floating-point tensor"):
        standardise(samples(torch.ones(2, 3, dtype=torch.int64)))
    with pytest.raises(ShapeError, match=r"standardise\(others\[0\]\): expected features of shape \(3,\).*got \(2,\)"):
        standardise(fine, samples(torch.ones(2, 2)))


def test_what_overflows_is_refused():
    huge, tiny = (samples(torch.tensor([[3.0], [2.0], [1.0]]) * scale) for scale in (1e38, 1e-10))
    with pytest.raises(RangeError, match=r"standardise\(train\): expected rescaled inputs that torch.float32 can hold"):
        standardise(huge)
    with pytest.raises(RangeError, match=r"standardise\(others\[1\]\): expected rescaled inputs that torch.float32"):
        standardise(tiny, tiny, huge)
    with pytest.raises(RangeError, match=r"normalise\(samples\): expected rescaled inputs that torch.float32 can hold"):
        normalise(huge, 0, 1e-3)
    wide = samples(torch.tensor([[1.0], [2.0]]).double())
    with pytest.raises(
        RangeError, match=r"standardise\(others\[0\]\): expected rescaled inputs that torch.float16 can hold"
    ):
        standardise(wide._replace(x=1e-3 * wide.x), samples(torch.tensor([[100.0]]).half()))
    exact = standardise(huge._replace(x=huge.x.double()))[0].x
    assert_close(exact, standardise(samples(torch.tensor([[3.0], [2.0], [1.0]]).double()))[0].x)


def test_normalise_by_one_number_and_per_channel():
    x = torch.arange(12.0).reshape(1, 3, 2, 2)
    assert_close(normalise(samples(x), 1.0, 2.0).x, (x - 1) / 2)
    out = normalise(samples(x), [1.0, 5.0, 9.0], [1.0, 2.0, 4.0])
    for channel, (mean, std) in enumerate([(1, 1), (5, 2), (9, 4)]):
        assert_close(out.x[:, channel], (x[:, channel] - mean) / std)
    assert_close(out.labels, torch.arange(1))


def test_normalise_flat_inputs_per_feature():
    assert normalise(samples(torch.ones(2, 2)), [0.0, 1.0], 1.0).x.tolist() == [[1.0, 0.0], [1.0, 0.0]]


def test_normalise_errors():
    images = samples(torch.ones(1, 3, 2, 2))
    for std in (0.0, -1.0, [1.0, 1.0, 0.0]):
        with pytest.raises(RangeError, match=r"normalise\(std\): expected positive numbers"):
            normalise(images, 0.0, std)
    with pytest.raises(RangeError, match=r"normalise\(mean\): expected finite numbers, got nan"):
        normalise(images, torch.nan, 1.0)
    with pytest.raises(RangeError, match=r"normalise\(samples\): expected a floating-point tensor"):
        normalise(samples(torch.ones(1, 3, dtype=torch.int64)), 0.0, 1.0)
    for x in (images.x, torch.ones(2)):
        with pytest.raises(ShapeError, match=r"normalise\(mean\): expected one number, or one for each channel"):
            normalise(samples(x), [0.0, 0.0], 1.0)


# load_images: what is read


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_are_the_pixels_over_255(tmp_path, channels):
    images = random_images(7, channels=channels)
    write(tmp_path / "mnist" / "train-00000-of-00001.parquet", images, [3, 1, 4, 1, 5, 9, 2])
    out = load_images("mnist", "train", data_dir=tmp_path)
    assert_close(out.x, expected(images), rtol=0, atol=1e-7)
    assert out.x.dtype == torch.float32
    assert out.x.is_contiguous()
    assert out.labels.dtype == torch.int64
    assert out.labels.tolist() == [3, 1, 4, 1, 5, 9, 2]


def test_shards_follow_their_numbers(tmp_path):
    images = random_images(9)
    for shard in (2, 0, 1):
        part = slice(3 * shard, 3 * shard + 3)
        write(tmp_path / f"test-{shard:05}-of-00003.parquet", images[part], list(range(9))[part])
    write(tmp_path / "train-00000-of-00001.parquet", images[:1], [77])
    out = load_images(str(tmp_path), "test")
    assert out.labels.tolist() == list(range(9))
    assert_close(out.x, expected(images), rtol=0, atol=1e-7)


@pytest.mark.parametrize("limit", [1, 4, 6, 7])
def test_limit_takes_the_first(tmp_path, limit):
    images = random_images(7)
    for shard in (0, 1):
        part = slice(4 * shard, 4 * shard + 4)
        write(tmp_path / f"train-{shard:05}-of-00002.parquet", images[part], list(range(7))[part])
    out = load_images(str(tmp_path), "train", limit=limit)
    assert out.labels.tolist() == list(range(limit))
    assert_close(out.x, expected(images[:limit]), rtol=0, atol=1e-7)


def test_limit_decodes_no_more(tmp_path):
    write(tmp_path / "train.parquet", [encoded(random_images(1)[0]), b"not an image"], [0, 1])
    assert load_images(str(tmp_path), "train", limit=1).x.shape == (1, 1, 5, 4)
    with pytest.raises(DataError, match=r"expected a readable image, got UnidentifiedImageError at row 1 of"):
        load_images(str(tmp_path), "train")


@pytest.mark.parametrize(
    ("image", "label"), [("img", "label"), ("image", "labels"), ("img", "fine_label"), ("img", "y")]
)
def test_column_names_of_the_hub(tmp_path, image, label):
    write(tmp_path / "train.parquet", random_images(2), [1, 0], image=image, label=label)
    assert load_images(str(tmp_path), "train").labels.tolist() == [1, 0]


def test_images_as_plain_bytes(tmp_path):
    images = random_images(2)
    pq.write_table(pa.table({"image": [encoded(i) for i in images], "label": [0, 1]}), tmp_path / "train.parquet")
    assert_close(load_images(str(tmp_path), "train").x, expected(images), rtol=0, atol=1e-7)


@pytest.mark.parametrize("path", ["one.png", "pipe", "/dev/zero", "https://x/y.png"])
def test_paths_in_the_place_of_images_are_not_opened(tmp_path, path):
    (tmp_path / "one.png").write_bytes(encoded(random_images(1)[0]))
    os.mkfifo(tmp_path / "pipe")
    path = str(tmp_path / path)
    for cell in ({"bytes": None, "path": path}, {"bytes": b"", "path": path}, path):
        pq.write_table(pa.table({"image": [cell], "label": [0]}), tmp_path / "train.parquet")
        with pytest.raises(
            DataError, match=r"expected the bytes of an image, got .* at row 0 of|expected a readable im"
        ):
            load_images(str(tmp_path), "train")


def test_a_pipe_in_the_place_of_a_table_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "train-00000-of-00001.parquet")
    with pytest.raises(DataError, match=r"load_images\(name\): expected a file, got '.*train-00000-of-00001.parquet'"):
        load_images(str(tmp_path), "train")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP"])
def test_formats_that_are_read(tmp_path, kind):
    write(tmp_path / "train.parquet", [encoded(np.full((5, 4, 3), 51, dtype=np.uint8), kind)], [0])
    out = load_images(str(tmp_path), "train").x
    assert_close(out, torch.full_like(out, 0.2), rtol=0, atol=0.01)


@pytest.mark.parametrize("kind", ["PPM", "EPS", "PDF", "TGA", "ICO"])
def test_formats_that_are_not_read(tmp_path, kind):
    write(tmp_path / "train.parquet", [encoded(np.full((16, 16, 3), 51, dtype=np.uint8), kind)], [0])
    with pytest.raises(DataError, match=r"got UnidentifiedImageError at row 0 .* in one of PNG, JPEG, BMP, GIF, TIFF"):
        load_images(str(tmp_path), "train")


@pytest.mark.parametrize("side", [2**13 + 1, 10_000, 20_000, 2**20])
def test_images_too_large_are_refused_by_their_header(tmp_path, side):
    """So many pixels as a few bytes say; nothing of them is decoded."""

    def chunk(name, content):
        return len(content).to_bytes(4) + name + content + zlib.crc32(name + content).to_bytes(4)

    header = side.to_bytes(4) + side.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    image = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(9))) + chunk(b"IEND", b"")
    )
    write(tmp_path / "train.parquet", [image], [0])
    with pytest.raises(DataError, match=r"of at most 67,108,864 pixels, got .* x .* at row 0|got DecompressionBomb"):
        load_images(str(tmp_path), "train")


def test_mixed_modes_follow_the_first(tmp_path):
    grey, colour = random_images(1)[0], random_images(1, channels=3)[0]
    write(tmp_path / "train.parquet", [grey, colour], [0, 1])
    write(tmp_path / "test.parquet", [colour, grey], [0, 1])
    assert load_images(str(tmp_path), "train").x.shape == (2, 1, 5, 4)
    out = load_images(str(tmp_path), "test").x
    assert_close(out[1], expected(grey[None])[0].expand(3, -1, -1), rtol=0, atol=1e-7)


def test_palettes_become_colours_and_bits_grey(tmp_path):
    palette = Image.new("P", (4, 5), 1)
    palette.putpalette([0, 0, 0, 255, 51, 0])
    write(tmp_path / "train.parquet", [encoded(palette)], [0])
    write(tmp_path / "test.parquet", [encoded(Image.new("1", (4, 5), 1))], [0])
    assert_close(load_images(str(tmp_path), "train").x[0, :, 0, 0], torch.tensor([1.0, 0.2, 0.0]))
    assert_close(load_images(str(tmp_path), "test").x, torch.ones(1, 1, 5, 4))


def test_colours_that_do_not_become_grey(tmp_path):
    """Pillow makes RGB of CIELAB, and nothing else."""
    grey, lab = random_images(1)[0], encoded(Image.new("LAB", (4, 5), (255, 128, 128)), "TIFF")
    write(tmp_path / "train.parquet", [grey, lab], [0, 1])
    with pytest.raises(
        DataError, match=r"an image that becomes L from LAB, got ValueError at row 1 of .*\. Convert it to"
    ):
        load_images(str(tmp_path), "train")
    write(tmp_path / "test.parquet", [lab], [0])
    assert_close(load_images(str(tmp_path), "test").x, torch.ones(1, 3, 5, 4), rtol=0, atol=0.01)


@pytest.mark.parametrize("mode", ["LA", "P", "L"])
def test_transparency_is_a_fourth_channel(tmp_path, mode):
    """Of grey images, of palettes, and of one grey that is declared transparent."""
    image, colour = Image.new(mode, (4, 5), (51, 102) if mode == "LA" else 51), [0.2, 0.2, 0.2]
    if mode == "P":
        image.putpalette([255, 51, 0] * 256)
        colour = [1.0, 0.2, 0.0]
    png = io.BytesIO()
    image.save(png, "PNG", **({} if mode == "LA" else {"transparency": 51}))
    write(tmp_path / "train.parquet", [png.getvalue(), encoded(random_images(1, channels=4)[0])], [0, 1])
    out = load_images(str(tmp_path), "train").x
    assert_close(out[0, :, 0, 0], torch.tensor([*colour, 0.4 if mode == "LA" else 0.0]))
    assert out.shape == (2, 4, 5, 4)


def test_nothing_is_written_beside_the_data(tmp_path):
    folder = write(tmp_path / "train.parquet", random_images(2), [0, 1])
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    load_images(str(folder), "train")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


# load_images: where it looks


@pytest.mark.bad_input
def test_a_data_dir_is_the_only_place_searched(hub, tmp_path, monkeypatch):
    write(tmp_path / "a" / "mnist" / "train.parquet", random_images(1), [1])
    write(tmp_path / "b" / "mnist" / "train.parquet", random_images(1), [2])
    write(tmp_path / "b" / "cifar10" / "train.parquet", random_images(1), [3])
    monkeypatch.setenv("GNOMON_DATA", str(tmp_path / "b"))
    assert load_images("mnist", "train").labels.item() == 2
    assert load_images("mnist", "train", data_dir=tmp_path / "a").labels.item() == 1
    monkeypatch.chdir(tmp_path / "b")
    for name in ("cifar10", "uoft-cs/cifar10", "someone/else"):
        folder = "cifar10" if "cifar" in name else name
        says = rf"load_images\(data_dir\): expected a folder '{folder}' in '.*/a', the only place searched, got none\. "
        with pytest.raises(DataError, match=says):
            load_images(name, "train", data_dir=str(tmp_path / "a"))
    assert hub[1] == []


@pytest.mark.bad_input
@pytest.mark.parametrize("folder", ["Fashion_MNIST", "fashion-mnist"])
def test_a_data_dir_that_calls_it_otherwise(tmp_path, folder):
    write(tmp_path / folder / "train.parquet", random_images(1), [1])
    with pytest.raises(DataError, match=rf"'fashion_mnist' in '.*', the only place searched, got '{folder}'\. Rename"):
        load_images("fashion_mnist", "train", data_dir=tmp_path)


@pytest.mark.parametrize("name", ["ylecun/mnist", "mnist", "kmnist", "someone/else"])
def test_names_that_a_data_directory_holds(tmp_path, name):
    folder = "mnist" if name == "ylecun/mnist" else name
    write(tmp_path / folder / "train.parquet", random_images(1), [5])
    assert load_images(name, "train", data_dir=tmp_path).labels.item() == 5


@pytest.mark.parametrize("name", ["kmnist", "someone/else"])
def test_data_directories_come_before_the_working_directory(tmp_path, monkeypatch, name):
    for label, root in enumerate(("here", "data", "environment")):
        write(tmp_path / root / name / "train.parquet", random_images(1), [label])
    monkeypatch.chdir(tmp_path / "here")
    assert load_images(name, "train").labels.item() == 0
    monkeypatch.setenv("GNOMON_DATA", str(tmp_path / "environment"))
    assert load_images(name, "train").labels.item() == 2
    assert load_images(name, "train", data_dir=tmp_path / "data").labels.item() == 1
    for path in (f"./{name}", str(tmp_path / "here" / name)):
        assert load_images(path, "train", data_dir=tmp_path / "data").labels.item() == 0


def test_a_short_name_is_no_folder_of_the_working_directory(tmp_path, monkeypatch):
    write(tmp_path / "mnist" / "train.parquet", random_images(1), [0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match="load_images needs datasets"):
        load_images("mnist", "train")


def test_a_split_ends_where_its_number_begins(tmp_path):
    for number, name in enumerate(["train-00000-of-00001", "train-extra-00000-of-00001", "test-0", "test-noisy"]):
        write(tmp_path / f"{name}.parquet", random_images(1), [number])
    for number, split in enumerate(["train", "train-extra", "test", "test-noisy"]):
        assert load_images(str(tmp_path), split).labels.tolist() == [number]


def test_a_split_may_end_in_a_number(tmp_path):
    """Each file alone by its name; by what comes before the number, all of them."""
    for number, name in enumerate(["fold-1", "fold-10", "fold-2-00000-of-00001", "fold-2-00000-of-00001-1a2b"]):
        write(tmp_path / f"{name}.parquet", random_images(1), [number])
    for split, labels in {"fold-1": [0], "fold-10": [1], "fold-2": [2, 3], "fold": [0, 1, 2, 3]}.items():
        assert sorted(load_images(str(tmp_path), split).labels.tolist()) == labels
    with pytest.raises(DataError, match=r"expected one of fold, fold-1, fold-10, fold-2, got 'fold-3'\."):
        load_images(str(tmp_path), "fold-3")


def test_local_data_do_not_import_datasets(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    write(tmp_path / "train.parquet", random_images(1), [5])
    assert load_images(str(tmp_path), "train").labels.item() == 5


@pytest.fixture
def hub(monkeypatch):
    """A hub of one data set, served by Hugging Face `datasets` itself; the list of what was asked of it."""
    datasets = pytest.importorskip("datasets")
    images = random_images(5, channels=3)
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=list("abcde"))})
    rows = {"img": [Image.fromarray(i) for i in images], "label": [4, 3, 2, 1, 0]}
    data = datasets.Dataset.from_dict(rows, features=features)
    asked = []

    def load_dataset(hub_id, config, *, split):
        asked.append((hub_id, config, split))
        if split != "train":
            raise ValueError(f"Unknown split \"{split}\". Should be one of ['train'].\nand more")
        return data

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda *_, **__: None)
    return images, asked


@pytest.mark.parametrize("limit", [None, 2])
def test_the_hub_gives_what_a_folder_gives(hub, limit):
    images, asked = hub
    out = load_images("svhn", "train", limit=limit)
    assert asked == [("ufldl-stanford/svhn", "cropped_digits", "train")]
    assert_close(out.x, expected(images[:limit]), rtol=0, atol=1e-7)
    assert out.labels.tolist() == [4, 3, 2, 1, 0][:limit]


def test_the_hub_is_asked_when_the_folder_has_nothing(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("GNOMON_DATA", str(tmp_path))
    load_images("someone/else", "train")
    assert hub[1] == [("someone/else", None, "train")]


def test_an_unknown_split_of_the_hub(hub):
    says = r"expected split 'dev' of 'ylecun/mnist' on the hub, got Unknown split \"dev\"\. .*\['train'\]\. Check both"
    with pytest.raises(DataError, match=says):
        load_images("mnist", "dev")


def test_a_data_set_that_the_hub_does_not_have(hub, monkeypatch):
    from huggingface_hub.utils import RepositoryNotFoundError

    # Its constructor wants a response of the HTTP library in use; the type is all that matters here.
    missing = RepositoryNotFoundError.__new__(RepositoryNotFoundError)

    def dataset_info(*_, **__):
        raise missing

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", dataset_info)
    with pytest.raises(DataError, match=rf"expected a data set of the hub or a folder, got '{NOWHERE}'"):
        load_images(NOWHERE, "train")
    assert hub[1] == []


def test_without_a_network_the_error_says_both_ways_out_at_once(hub, tmp_path, monkeypatch):
    def dataset_info(*_, timeout, **__):
        assert timeout <= 5
        raise OSError("Name or service not known\nand a long story")

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", dataset_info)
    monkeypatch.setenv("GNOMON_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"got neither \(Name or service not known\)\.") as caught:
        load_images("svhn", "test")
    message = str(caught.value)
    assert hub[1] == []  # load_dataset, which would retry for half a minute, was not called
    assert "\n" not in message
    assert str(tmp_path / "svhn") in message
    for way in ("FOLDER/svhn/test-<number>*.parquet", "GNOMON_DATA", "--data-dir", "connect to the network"):
        assert way in message


def test_offline_mode_asks_only_the_cache(monkeypatch):
    pytest.importorskip("datasets")

    def dataset_info(*_, **__):
        pytest.fail("the network was asked")

    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)  # what HF_HUB_OFFLINE=1 sets at import
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", dataset_info)
    with pytest.raises(DataError, match=r"in a data directory \(none is named\) or on the hub, got neither"):
        load_images(NOWHERE, "train")


# load_images: what is wrong


def test_missing_datasets_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"^load_images needs datasets: pip install '.\[data\]' in the folder"):
        load_images("mnist", "train")


def test_missing_pyarrow_names_the_extra(tmp_path, monkeypatch):
    write(tmp_path / "train.parquet", random_images(1), [0])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"^load_images needs pyarrow: pip install '.\[data\]' in the folder"):
        load_images(str(tmp_path), "train")


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("raise RuntimeError('operator torchvision::nms does not exist')", "RuntimeError: operator torchvision::nms"),
        ("import a_module_that_is_not_there", "ModuleNotFoundError: No module named 'a_module_that_is_not_there'"),
    ],
)
def test_broken_datasets_names_the_cause(tmp_path, monkeypatch, content, cause):
    (tmp_path / "datasets.py").write_text(content)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "datasets", raising=False)
    with pytest.raises(MissingExtraError, match=rf"installed but does not import \({cause}.*Install it again"):
        load_images("mnist", "train")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mnits", r"expected one of mnist, fashion_mnist, .*got 'mnits'\. The nearest is 'mnist'\."),
        ("CIFAR-10", r"The nearest is 'cifar10'\."),
        ("zebra", r"got 'zebra'\. Check the spelling\."),
        ("", r"got ''\. Check the spelling\."),
        ("./no/such/folder", r"expected a folder, got './no/such/folder'"),
        ("/no/such/folder", r"expected a folder, got '/no/such/folder'"),
    ],
)
def test_unknown_names(name, says):
    with pytest.raises(DataError, match=says):
        load_images(name, "train")


def test_a_data_directory_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"load_images\(data_dir\): expected a folder, got '.*nowhere'"):
        load_images("mnist", "train", data_dir=tmp_path / "nowhere")
    monkeypatch.setenv("GNOMON_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"GNOMON_DATA: expected a folder, got '.*nowhere'"):
        load_images("mnist", "train")


def test_an_empty_folder(tmp_path):
    with pytest.raises(DataError, match=r"expected files <split>\.parquet or .* in '.*', got none"):
        load_images(str(tmp_path), "train")


@pytest.mark.parametrize("split", ["trian", "", "*", "tr"])
def test_an_unknown_split(tmp_path, split):
    write(tmp_path / "train-00000-of-00001.parquet", random_images(1), [0])
    write(tmp_path / "test-00000-of-00001.parquet", random_images(1), [0])
    with pytest.raises(DataError, match=r"load_images\(split\): expected one of test, train, got"):
        load_images(str(tmp_path), split)


def test_no_rows(tmp_path):
    write(tmp_path / "train.parquet", [], pa.array([], pa.int64()))
    with pytest.raises(EmptyError, match=r"load_images\(split\): expected images, got no rows in .*\(train\)"):
        load_images(str(tmp_path), "train")


@pytest.mark.bad_input
@pytest.mark.parametrize("limit", [-1, 0, 8, 1.0, True])
def test_limit_out_of_range(tmp_path, limit):
    write(tmp_path / "train.parquet", random_images(7), list(range(7)))
    with pytest.raises(
        RangeError, match=rf"load_images\(limit\): expected a whole number from 1 to 7, .* got {limit}\."
    ):
        load_images(str(tmp_path), "train", limit=limit)


def corrupt(path, *, where):
    content = bytearray(path.read_bytes())
    if where == "everything":
        content[:] = b"no parquet at all"
    elif where == "the end":
        del content[-40:]
    else:
        content[4:400] = bytes(396)
    path.write_bytes(content)


@pytest.mark.parametrize("where", ["everything", "the end", "the data"])
def test_a_corrupt_file(tmp_path, where):
    write(tmp_path / "train.parquet", random_images(7, size=(20, 20)), list(range(7)))
    corrupt(tmp_path / "train.parquet", where=where)
    with pytest.raises(DataError, match=r"expected a readable parquet file, got '.*train\.parquet' \(.*\)\. Copy") as e:
        load_images(str(tmp_path), "train")
    assert "\n" not in str(e.value)


def promised(content):
    """The rows that a parquet file of one group promises: in all, and in the group; None if it cannot be read."""
    try:
        metadata = pq.read_metadata(io.BytesIO(content))
        return metadata.num_rows, metadata.row_group(0).num_rows
    except (pa.ArrowException, OSError):
        return None


def promise(path, in_all, in_group):
    """Alters a file of three rows in one group, so that it promises other numbers of rows."""
    content = path.read_bytes()
    for rows, wanted in ((in_all, (in_all, 3)), (in_group, (in_all, in_group))):
        number, rest = b"", 2 * rows  # as Thrift writes it: twice the number, seven bits a byte, the last first
        while rest > 127:
            number, rest = number + bytes([rest % 128 + 128]), rest // 128
        number += bytes([rest])
        end = len(content) - 8
        start = end - int.from_bytes(content[-8:-4], "little")
        footers = (content[start:i] + number + content[i + 1 : end] for i in range(start, end) if content[i] == 6)
        altered = (content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1" for footer in footers)
        if promised(content) != wanted:
            content = next(other for other in altered if promised(other) == wanted)
    path.write_bytes(content)


@pytest.mark.parametrize("rows", [2, 6, 2**50])
def test_a_file_that_promises_other_rows_than_its_groups(tmp_path, rows):
    write(tmp_path / "train.parquet", random_images(3), [0, 1, 2])
    promise(tmp_path / "train.parquet", rows, 3)
    with pytest.raises(DataError, match=rf"parquet' \({rows} rows in all, 3 in its groups of rows\)\. Copy"):
        load_images(str(tmp_path), "train")


@pytest.mark.parametrize("rows", [6, 2**50])
def test_a_file_that_has_fewer_rows_than_it_promises(tmp_path, rows):
    """Nothing is made up for them, and no memory is taken for them beforehand."""
    write(tmp_path / "train.parquet", random_images(3), [0, 1, 2])
    promise(tmp_path / "train.parquet", rows, rows)
    with pytest.raises(
        DataError, match=rf"expected {rows} rows in .* \(train\), got the end after 3\. Copy or download"
    ):
        load_images(str(tmp_path), "train")
    assert load_images(str(tmp_path), "train", limit=3).labels.tolist() == [0, 1, 2]


def test_no_column_of_images_or_labels(tmp_path):
    write(tmp_path / "train.parquet", random_images(1), [0], image="photo")
    with pytest.raises(DataError, match=r"expected a column image or .* for the image, got photo, label in"):
        load_images(str(tmp_path), "train")
    write(tmp_path / "test.parquet", random_images(1), [0], label="kind")
    with pytest.raises(DataError, match=r"expected a column label or .* for the label, got image, kind in"):
        load_images(str(tmp_path), "test")


def latin(text):
    """One cell of text that says UTF-8 and is not."""
    return pa.Array.from_buffers(pa.string(), 1, pa.array([text.encode("latin-1")], pa.binary()).buffers())


def test_a_path_beside_an_image_may_be_in_any_encoding(tmp_path):
    """It is no more than a name in errors, which shows what can be read of it."""
    images = random_images(1)
    for name, content in (("train", encoded(images[0])), ("test", b"no image"), ("val", None)):
        cells = pa.StructArray.from_arrays([pa.array([content], pa.binary()), latin("café.png")], ["bytes", "path"])
        pq.write_table(pa.table({"image": cells, "label": [4]}), tmp_path / f"{name}.parquet")
    out = load_images(str(tmp_path), "train")
    assert_close(out.x, expected(images), rtol=0, atol=1e-7)
    assert out.labels.tolist() == [4]
    with pytest.raises(
        DataError, match=r"readable image, got UnidentifiedImageError at row 0 of .*, 'caf\ufffd\.png'\."
    ):
        load_images(str(tmp_path), "test")
    with pytest.raises(DataError, match=r"bytes of an image, got the path 'caf\ufffd\.png' at row 0 of"):
        load_images(str(tmp_path), "val")


def test_text_that_cannot_be_read(tmp_path):
    pq.write_table(pa.table({"image": latin("é.png"), "label": [0]}), tmp_path / "train.parquet")
    with pytest.raises(DataError, match=r"readable column image, got UnicodeDecodeError at some row of .* \(train\)\."):
        load_images(str(tmp_path), "train")
    pq.write_table(pa.table({"image": [encoded(random_images(1)[0])], "label": latin("é")}), tmp_path / "test.parquet")
    with pytest.raises(DataError, match=r"readable column label, got UnicodeDecodeError at some row of .* \(test\)\."):
        load_images(str(tmp_path), "test")


@pytest.mark.parametrize("column", ["image", "label"])
def test_a_column_that_is_there_twice(tmp_path, column):
    image, label = pa.array([encoded(random_images(1)[0])]), pa.array([0])
    again = {"image": image, "label": label}[column]
    table = pa.Table.from_arrays([image, label, again], ["image", "label", column])
    pq.write_table(table, tmp_path / "train.parquet")
    with pytest.raises(DataError, match=rf"expected one column {column}, got 2 in .* \(train\)\. Leave one of them"):
        load_images(str(tmp_path), "train")


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        (["train-00000-of-00002"], "all 2 parts of 'train' in '.*', got none of train-00001-of-00002"),
        (["train-00001-of-00002-1a2b"], "all 2 parts of 'train' in '.*', got none of train-00000-of-00002"),
        (["train-1-of-3", "train-3-of-3"], "all 3 parts of 'train' in '.*', got none of train-2-of-3"),
        (
            ["train", "train-2-1-of-9"],
            "all 9 parts of 'train-2' .* train-2-0-of-9, train-2-2-of-9, train-2-3-of-9 and 5 m",
        ),
        (
            ["train-0-of-1", "train-7-of-10000000000000"],
            "train-00000000000001-of-10000000000000, .* and 9999999999996 more",
        ),
    ],
)
def test_a_download_that_ended_too_early(tmp_path, there, missing):
    for name in there:
        write(tmp_path / f"{name}.parquet", random_images(1), [0])
    with pytest.raises(DataError, match=rf"load_images\(name\): expected .*{missing}.*\. Download what is missing\."):
        load_images(str(tmp_path), "train")


def test_parts_counted_from_one(tmp_path):
    for number in (1, 2):
        write(tmp_path / f"train-{number}-of-2.parquet", random_images(1), [number])
    assert load_images(str(tmp_path), "train").labels.tolist() == [1, 2]


def test_a_shard_with_other_columns(tmp_path):
    write(tmp_path / "train-0.parquet", random_images(1), [0])
    write(tmp_path / "train-1.parquet", random_images(1), [0], label="labels")
    with pytest.raises(DataError, match=r"for the label, got image in"):
        load_images(str(tmp_path), "train")


def test_images_of_two_sizes(tmp_path):
    write(tmp_path / "train.parquet", [random_images(1)[0], random_images(1, size=(6, 4))[0]], [0, 1])
    with pytest.raises(DataError, match=r"expected images of one size, got \(5, 4\) and then \(6, 4\) at row 1"):
        load_images(str(tmp_path), "train")


@pytest.mark.parametrize("broken", [b"", encoded(random_images(1, size=(20, 20))[0])[:-60], b"GIF89a"])
def test_images_that_cannot_be_read(tmp_path, broken):
    write(tmp_path / "train.parquet", [random_images(1)[0], broken], [0, 1])
    with pytest.raises(DataError, match=r"expected a readable image, got \w+ at row 1 of"):
        load_images(str(tmp_path), "train")


@pytest.mark.parametrize("row", [0, 1])
def test_images_of_sixteen_bits(tmp_path, row):
    images = [encoded(random_images(1)[0])]
    images.insert(row, encoded(np.full((5, 4), 40_000, dtype=np.uint16)))
    write(tmp_path / "train.parquet", images, [0, 1])
    # Pillow 10 names it I.
    with pytest.raises(DataError, match=rf"expected 8-bit images, got Pillow mode 'I(;16)?' at row {row}"):
        load_images(str(tmp_path), "train")


@pytest.mark.parametrize("labels", [["cat", "dog"], [0.5, 1.0], [None, 1], np.array([2**64 - 1, 1], dtype=np.uint64)])
def test_labels_that_are_not_integers(tmp_path, labels):
    write(tmp_path / "train.parquet", random_images(2), labels)
    with pytest.raises(DataError, match=r"expected integer labels, got .* at row 0"):
        load_images(str(tmp_path), "train")


# the house


def test_importing_the_data_floor_imports_no_extra():
    says = "import sys, gnomon.data; print({'datasets', 'pyarrow', 'PIL', 'sklearn'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", says], text=True) == "set()\n"


@pytest.mark.parametrize("name", ["digits", "samples"])
def test_the_examples_hold(name):
    failed, tried = doctest.testmod(importlib.import_module(f"gnomon.data._{name}"), extraglobs={"torch": torch})
    assert tried > 0
    assert failed == 0


def test_paths_may_begin_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "here" / "mnist" / "train.parquet", random_images(1), [6])
    assert load_images("~/here/mnist", "train").labels.item() == 6
    assert load_images("mnist", "train", data_dir=Path("~/here")).labels.item() == 6
