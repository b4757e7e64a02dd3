"""The normalisation that a folder of Hugging Face asks for beside its network, applied to images."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from gnomon_lab.measuring.folders import beside_weights
from gnomon_lab.measuring.samples import Data

PREPROCESSOR = "preprocessor_config.json"
KEYS = (
    *("do_normalize", "image_mean", "image_std"),
    *("do_rescale", "rescale_factor", "rescale_offset", "do_flip_channel_order"),
)
"""What it says about the values of images; sizes a network checks itself."""
BYTE = 1 / 255
"""What turns bytes into numbers from 0 to 1, as images are loaded."""


def preprocessor_of(folder: Path) -> dict[str, Any] | None:
    """What a folder says about the values of its network's images; None if it has no such file.

    Raises:
        CheckpointError: if the file is not a configuration.
    """
    content = beside_weights(folder / PREPROCESSOR)
    return None if content is None else {key: content[key] for key in KEYS if key in content}


def preprocessed(data: Data, asked: Mapping[str, Any] | None) -> tuple[Data, str | None]:
    """The samples, normalised if that is asked for in a plain way and they are images from 0 to 1.

    Args:
        data: the samples.
        asked: what `preprocessor_of` gives.

    Returns:
        The samples, and in words what was done, or what was not although it is asked for; None if there is nothing.
    """
    if asked is None:
        return data, None
    if asked.get("do_rescale", True) is not True or asked.get("rescale_offset") or not is_byte(asked):
        return data, as_stored("another scale of images than 0 to 1")
    if asked.get("do_flip_channel_order"):
        return data, as_stored("channels in reverse order")
    if not asked.get("do_normalize", "image_mean" in asked):
        return data, None
    mean, std = (per_channel(asked.get(key)) for key in ("image_mean", "image_std"))
    if not mean or not std or len(mean) != len(std) or min(std) <= 0:
        return data, as_stored("a normalisation, but not by one mean and one deviation per channel")
    shape = tuple(data.x.shape[1:])
    if not data.x.is_floating_point() or len(shape) != 3 or shape[0] != len(mean):
        return data, as_stored(f"a normalisation of images with {len(mean)} channels, and samples are {shape}")
    low, high = data.x.min().item(), data.x.max().item()
    if low < 0 or high > 1:
        got = f"{low:.4g} to {high:.4g}"
        return data, as_stored(f"a normalisation of images from 0 to 1, and samples are from {got}")
    centre, scale = (
        torch.tensor(each, dtype=data.x.dtype, device=data.x.device).view(-1, 1, 1) for each in (mean, std)
    )
    done = data._replace(x=(data.x - centre) / scale, normalised={"mean": mean, "std": std})
    return done, f"normalised by the mean and deviation of {PREPROCESSOR}"


def as_stored(what: str) -> str:
    """The words where something asked for is not done."""
    return f"{PREPROCESSOR} asks for {what}: the samples are read as stored"


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
