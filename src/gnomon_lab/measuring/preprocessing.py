"""The normalisation that a folder of Hugging Face or of timm asks for beside its network, applied to images."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gnomon_lab.measuring.folders import CONFIG, beside_weights
from gnomon_lab.measuring.samples import Data

PREPROCESSOR = "preprocessor_config.json"
KEYS = (
    *("do_normalize", "image_mean", "image_std"),
    *("do_rescale", "rescale_factor", "rescale_offset", "do_flip_channel_order"),
)
"""What it says about the values of images; sizes a network checks itself."""
BYTE = 1 / 255
"""What turns bytes into numbers from 0 to 1, as images are loaded."""


class Preprocessor(NamedTuple):
    """What a folder says about the values of its network's images.

    Attributes:
        file: the name of the file that says it.
        asked: what it says, by the names of transformers.
    """

    file: str
    asked: Mapping[str, Any]


def preprocessor_of(folder: Path) -> Preprocessor | None:
    """What a folder says about the values of its network's images; None if it says nothing.

    Raises:
        CheckpointError: if a file of it is not a configuration.
    """
    if (content := beside_weights(folder / PREPROCESSOR)) is not None:
        return Preprocessor(PREPROCESSOR, {key: content[key] for key in KEYS if key in content})
    config = beside_weights(folder / CONFIG) or {}
    # In older files of timm all is in one object.
    of_timm = config.get("pretrained_cfg", config if "architecture" in config else None)
    if not isinstance(of_timm, dict) or not {"mean", "std"} <= of_timm.keys():
        return None
    return Preprocessor(CONFIG, {"image_mean": of_timm["mean"], "image_std": of_timm["std"]})


def preprocessed(data: Data, preprocessor: Preprocessor | None) -> tuple[Data, str | None]:
    """The samples, normalised if that is asked for in a plain way and they are images from 0 to 1.

    Args:
        data: the samples.
        preprocessor: what `preprocessor_of` gives.

    Returns:
        The samples, and in words what was done, or what was not although it is asked for; None if there is nothing.
    """
    if preprocessor is None:
        return data, None
    file, asked = preprocessor
    if asked.get("do_rescale", True) is not True or asked.get("rescale_offset") or not is_byte(asked):
        return data, as_stored(file, "another scale of images than 0 to 1")
    if asked.get("do_flip_channel_order"):
        return data, as_stored(file, "channels in reverse order")
    if not asked.get("do_normalize", "image_mean" in asked):
        return data, None
    mean, std = (per_channel(asked.get(key)) for key in ("image_mean", "image_std"))
    if not mean or not std or len(mean) != len(std) or min(std) <= 0:
        return data, as_stored(file, "a normalisation, but not by one mean and one deviation per channel")
    shape = tuple(data.x.shape[1:])
    if not data.x.is_floating_point() or len(shape) != 3 or shape[0] != len(mean):
        return data, as_stored(file, f"a normalisation of images with {len(mean)} channels, and samples are {shape}")
    low, high = data.x.min().item(), data.x.max().item()
    if low < 0 or high > 1:
        got = f"{low:.4g} to {high:.4g}"
        return data, as_stored(file, f"a normalisation of images from 0 to 1, and samples are from {got}")
    centre, scale = (
        torch.tensor(each, dtype=data.x.dtype, device=data.x.device).view(-1, 1, 1) for each in (mean, std)
    )
    done = data._replace(x=(data.x - centre) / scale, normalised={"mean": mean, "std": std})
    return done, f"normalised by the mean and deviation of {file}"


def as_stored(file: str, what: str) -> str:
    """The words where something asked for is not done."""
    return f"{file} asks for {what}: the samples are read as stored"


def is_byte(asked: Mapping[str, Any]) -> bool:
    """Whether bytes are divided by 255, as is usual."""
    factor = per_channel([asked.get("rescale_factor", BYTE)])
    return bool(factor) and math.isclose(factor[0], BYTE, rel_tol=1e-3)


def per_channel(value: object) -> list[float]:
    """Numbers of float32, one per channel; empty if these are not."""
    numbers = value if isinstance(value, list) else []
    largest = torch.finfo(torch.float32).max
    if any(type(each) not in (int, float) or not abs(each) <= largest for each in numbers):
        return []
    return [float(each) for each in numbers]
