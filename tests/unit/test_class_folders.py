"""Images in folders of classes, made on the spot."""

import os

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from gnomon.data import load_images
from gnomon.errors import DataError


@pytest.fixture(autouse=True)
def _no_data_directory(monkeypatch):
    monkeypatch.delenv("GNOMON_DATA", raising=False)


def write(path, shade, *, size=(5, 4)):
    """An image of one shade, whose file names may be anything below the class's folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(size, shade, dtype=np.uint8)).save(path)


def shades(samples):
    """The shade of each image, all of whose pixels have it."""
    flat = samples.x.flatten(1) * 255
    assert_close(flat, flat[:, :1].expand_as(flat), rtol=0, atol=0)
    return flat[:, 0].round().int().tolist()


@pytest.fixture
def pets(tmp_path):
    """Three cats, one dog and two owls for training, one of which lies deeper, and one cat for validation."""
    for i, name in enumerate(("cat/a.png", "cat/b.PNG", "cat/c.bmp", "dog/0.png", "owl/deep/er/x.tif", "owl/y.png")):
        write(tmp_path / "train" / name, 10 * i)
    write(tmp_path / "val" / "cat" / "a.png", 200)
    return tmp_path


def test_classes_are_numbered_by_name_and_come_by_turns(pets):
    out = load_images(str(pets), "train")
    assert out.labels.tolist() == [0, 1, 2, 0, 2, 0]
    assert shades(out) == [0, 30, 40, 10, 50, 20]
    assert out.x.shape == (6, 1, 5, 4)
    assert shades(load_images(str(pets), "val")) == [200]


def test_numbered_folders_are_in_the_order_of_torchvision(tmp_path):
    for name in ("10", "2", "1"):
        write(tmp_path / "train" / name / "0.png", int(name))
    assert shades(load_images(str(tmp_path), "train")) == [1, 10, 2]


@pytest.mark.parametrize("limit", [1, 3, 5])
def test_limit_reads_no_more(pets, limit):
    whole = load_images(str(pets), "train")
    (pets / "train" / "cat" / "c.bmp").write_bytes(b"not an image")
    out = load_images(str(pets), "train", limit=limit)
    assert_close(out.x, whole.x[:limit], rtol=0, atol=0)
    assert_close(out.labels, whole.labels[:limit], rtol=0, atol=0)
    with pytest.raises(DataError, match=r"readable image, got UnidentifiedImageError at row 5 of .*, '.*cat/c\.bmp'\."):
        load_images(str(pets), "train")


def test_more_files_than_are_held_at_once(tmp_path):
    for i in range(150):
        write(tmp_path / "train" / str(i % 2) / f"{i:03}.png", i, size=(1, 1))
    out = load_images(str(tmp_path), "train")
    assert shades(out) == list(range(150))
    assert_close(out.labels, torch.arange(150) % 2, rtol=0, atol=0)


def test_what_is_hidden_or_no_image_does_not_count(pets):
    (pets / "train" / ".ipynb_checkpoints").mkdir()
    (pets / "train" / "cat" / "._a.png").write_bytes(b"")
    write(pets / "train" / "cat" / ".ipynb_checkpoints" / "a-checkpoint.png", 99)
    (pets / "train" / "cat" / "notes.txt").write_text("three cats")
    (pets / "train" / "labels.csv").write_text("cat")
    assert load_images(str(pets), "train").labels.tolist() == [0, 1, 2, 0, 2, 0]


def test_parquet_files_come_first(pets):
    (pets / "train.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match=r"expected a readable parquet file"):
        load_images(str(pets), "train")


def test_an_unknown_split(pets):
    with pytest.raises(
        DataError, match=r"load_images\(split\): expected one of train, val, got 'test'\. .* folder test"
    ):
        load_images(str(pets), "test")


def test_a_folder_of_a_split_says_how_it_is_named(pets, monkeypatch):
    monkeypatch.chdir(pets / "val")
    with pytest.raises(
        DataError, match=rf"got folders without folders, such as 'cat'\. .* name '{pets}' and the split 'val'\."
    ):
        load_images(".", "val")


def test_tables_one_folder_down_are_found(tmp_path):
    """A download from the hub has its files in a folder data, or in one of the name of a configuration."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train-00000-of-00001.parquet").write_bytes(b"")
    with pytest.raises(DataError, match=rf"got parquet files in '{tmp_path}/data'\. Name that folder\."):
        load_images(str(tmp_path), "train")


def test_a_class_without_images(pets):
    (pets / "train" / "bat").mkdir()
    with pytest.raises(
        DataError, match=r"expected images in the folder of each class, got none in '.*/bat'\. .* renumbers"
    ):
        load_images(str(pets), "train")


def test_a_split_that_lacks_a_class_of_another_is_not_numbered_otherwise(pets):
    """Without the dog, the owl would be class 1, whereas it is class 2 in training."""
    write(pets / "val" / "owl" / "a.png", 210)
    message = (
        r"expected the folders of the classes of 'train' in '.*/val', got none named 'dog'\. Add it with its images, or"
    )
    with pytest.raises(DataError, match=message):
        load_images(str(pets), "val")
    assert load_images(str(pets), "train").labels.tolist() == [0, 1, 2, 0, 2, 0]
    write(pets / "val" / "dog" / "a.png", 220)
    assert load_images(str(pets), "val").labels.tolist() == [0, 1, 2]


def test_a_split_with_more_classes_is_not_numbered_otherwise(pets):
    """With the bee, the cat would be class 1, whereas it is class 0 in training, which is read as before."""
    for name in ("bee", "cat", "dog", "owl"):
        write(pets / "more" / name / "a.png", 230)
    with pytest.raises(DataError, match=r"got also 'bee'\. Move it elsewhere, or add it to 'train' with its images"):
        load_images(str(pets), "more")
    assert load_images(str(pets), "train").labels.tolist() == [0, 1, 2, 0, 2, 0]


def test_of_many_missing_classes_five_are_named(tmp_path):
    for i in range(10):
        write(tmp_path / "train" / str(i) / "a.png", i)
    write(tmp_path / "test" / "9" / "a.png", 9)
    with pytest.raises(DataError, match=r"got none named '0', '1', '2', '3', '4' and 4 more\."):
        load_images(str(tmp_path), "test")


def test_a_split_of_other_classes_is_numbered_by_its_own(pets):
    for name in ("dog", "emu"):
        write(pets / "new" / name / "a.png", 230)
    assert load_images(str(pets), "new").labels.tolist() == [0, 1]


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("LA", 4), ("RGB", 3), ("RGBA", 4), ("P", 3)])
def test_the_hook_of_the_docs_gives_the_channels_of_torchvision(tmp_path, mode, channels):
    """`ImageFolder` opens each image by `Image.open(file).convert("RGB")`."""
    drawn = np.random.default_rng(0).integers(0, 256, (5, 4, 4), dtype=np.uint8)
    path = tmp_path / "train" / "0" / "a.png"
    path.parent.mkdir(parents=True)
    Image.fromarray(drawn, "RGBA").convert("RGB" if mode == "P" else "RGBA").convert(mode).save(path)
    x = load_images(str(tmp_path), "train").x
    assert x.shape[1] == channels
    expected = torch.from_numpy(np.array(Image.open(path).convert("RGB"))).permute(2, 0, 1)[None] / 255
    assert_close(x[:, :3].expand(-1, 3, -1, -1), expected, rtol=0, atol=0)


def test_file_names_in_any_encoding(pets):
    """A disk from elsewhere has names that are no UTF-8."""
    write(pets / "train" / "dog" / os.fsdecode("café.png".encode("latin-1")), 60)
    assert shades(load_images(str(pets), "train")) == [0, 30, 40, 10, 60, 50, 20]


def test_a_pipe_in_the_place_of_an_image_is_not_opened(pets):
    os.mkfifo(pets / "train" / "cat" / "d.png")
    with pytest.raises(DataError, match=r"expected a file, got '.*cat/d\.png'\."):
        load_images(str(pets), "train")


def test_images_of_two_sizes_are_named(pets):
    write(pets / "train" / "dog" / "1.png", 0, size=(6, 4))
    with pytest.raises(DataError, match=r"got \(5, 4\) and then \(6, 4\) at row 4 of .*, '.*dog/1\.png'\."):
        load_images(str(pets), "train")
