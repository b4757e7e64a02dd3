"""The samples to measure at, where to compute, and how the result names both."""

import torch

from gnomon_lab.cli.measure_options import Options
from gnomon_lab.cli.say import plain, say
from gnomon_lab.cli.terminal import Terminal
from gnomon_lab.measuring import Data, Refilled, device_of, load_data, preprocessed


def setting_of(options: Options, data: Data, model: str) -> dict[str, object]:
    """What was measured, and at what, as the user named it."""
    return {
        "model": plain(model),
        "data": plain(data.source),
        "samples": len(data.x),
        "normalised": data.normalised,
        "layer": options.layer and plain(options.layer),
        "head": [plain(name) for name in options.head],
        "logits": options.logits and plain(options.logits),
        "position": options.row(),
    }


def place_of(options: Options) -> tuple[torch.device, torch.dtype]:
    """The device and the dtype to compute with."""
    return device_of(options.device), getattr(torch, options.dtype)


def samples_of(options: Options, refilled: Refilled, beside: Terminal) -> Data:
    """The samples as the network gets them, on the device and in the dtype of the computation."""
    device, dtype = place_of(options)
    data = load_data(
        options.data, options.split, options.samples, seed=options.seed, data_dir=options.data_dir, dtype=dtype
    )
    if data.columns is not None:
        say(f"{data.source}: {data.columns}", beside)
    data, words = preprocessed(data, refilled.preprocessor)
    if words is not None:
        say(words, beside)
    return data.to(device)
