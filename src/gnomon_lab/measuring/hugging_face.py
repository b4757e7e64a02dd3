"""The network of a folder written by Hugging Face's transformers, built by transformers and by no third-party code."""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as registration

from gnomon._extras import extra
from gnomon.errors import CheckpointError, GnomonError
from gnomon_lab.measuring.filling import Loaded, mismatch
from gnomon_lab.measuring.folders import CONFIG
from gnomon_lab.measuring.network import message_of
from gnomon_lab.measuring.places import Weights

LONGEST = 2**24
"""The most bytes of a configuration."""
LARGEST = 2**26
"""The largest integer in it: lists become as long."""
KINDS = (
    *("ForImageClassification", "ForImageClassificationWithTeacher", "ForSequenceClassification"),
    *("ForTokenClassification", "ForCausalLM", "ForMaskedLM", "LMHeadModel"),
)
"""How the names of networks that output logits end."""
LEFT_OUT = ("attn_implementation", "experts_implementation", "auto_map", "quantization_config", "torch_dtype")
"""What a configuration may contain, and is ignored: third-party code, and the dtype to compute in."""
WRITER = "transformers_version"
"""What a configuration says about its writer."""
SPARE = 2**24
"""Numbers that a network may have beyond twice those in the file, such as the masks that it creates itself."""


def of_folder(folder: Path, found: Sequence[Weights], dtype: torch.dtype) -> tuple[nn.Module, Loaded]:
    """The network of transformers that `config.json` describes, filled with the folder's weights, in this dtype.

    Entries of the configuration that ask for code or name a location are left out, and a configuration of a larger
    network than the weights belong to is refused before the network is built.

    Raises:
        CheckpointError: if there is no such network, or the weights do not belong to it.
        MissingExtraError: if transformers is not installed.
    """
    transformers = extra("measure", "transformers", "huggingface")
    weights = found[0].tensors
    with in_a_sentence(folder), quiet(transformers):
        asked = configuration(folder / CONFIG)
        kind = kind_of(asked, transformers, folder / CONFIG)
        config = transformers.CONFIG_MAPPING[asked["model_type"]].from_dict(asked)
        with bounded(weights, folder / CONFIG), torch.device("meta"):
            kind._from_config(config, attn_implementation="eager")
        network, info = kind.from_pretrained(
            None,
            config=config,
            state_dict=dict(weights),
            dtype=dtype,
            attn_implementation="eager",
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    wrong = {
        "missing": sorted(info["missing_keys"]),
        "unexpected": sorted(info["unexpected_keys"]),
        "of another shape": sorted(name for name, *_ in info["mismatched_keys"]),
    }
    if any(wrong.values()):
        raise mismatch(len(network.state_dict()), len(weights), "Correct config.json.", wrong)
    return network, Loaded(f"{len(weights)} tensors, as {kind.__name__} of transformers")


def described(folder: Path) -> dict[str, Any]:
    """What the configuration says about the network, for comparison; what wrote it is left out.

    Raises:
        CheckpointError: if it is not a configuration.
    """
    with in_a_sentence(folder):
        return {name: value for name, value in configuration(folder / CONFIG).items() if name != WRITER}


def configuration(path: Path) -> dict[str, Any]:
    """The contents of `config.json`, without entries that ask for code or name a location.

    Raises:
        CheckpointError: if it is not a configuration.
    """
    if path.stat().st_size > LONGEST:
        raise unfit(f"at most {LONGEST:,} bytes", f"{path.stat().st_size:,} in {path}")
    content: Any = harmless(json.loads(path.read_text(encoding="utf-8")), path)
    if not isinstance(content, dict):
        raise unfit("names and what they stand for", f"{type(content).__name__} in {path}")
    labels = content.pop("id2label", None)  # by arbitrary names
    content.pop("label2id", None)
    if isinstance(labels, dict):
        content["num_labels"] = len(labels)
    return content | {"dtype": "float32", "use_cache": False, "return_dict": True}


def harmless(value: object, path: Path) -> object:
    """The same without names of locations, and without what is ignored; an integer that is too large is refused."""
    if isinstance(value, dict):
        asked = {key: part for key, part in value.items() if key[:1] != "_" and key not in LEFT_OUT}
        return {key: harmless(part, path) for key, part in asked.items() if not a_place(part)}
    if isinstance(value, list):
        return [harmless(part, path) for part in value if not a_place(part)]
    if isinstance(value, int) and abs(value) > LARGEST:
        raise unfit(f"whole numbers up to {LARGEST:,}", f"{value} in {path}")
    return value


def a_place(value: object) -> bool:
    """Whether this names a location, in the file system or on the network."""
    return isinstance(value, str) and not {*value}.isdisjoint("/\\:")


def kind_of(config: Mapping[str, Any], transformers: ModuleType, path: Path) -> type[Any]:
    """The class of the network.

    Raises:
        CheckpointError: if it is not one of transformers' own that output logits.
    """
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None
    kind = getattr(transformers, name, None) if name and name.endswith(KINDS) else None
    if not isinstance(kind, type) or not issubclass(kind, transformers.PreTrainedModel):
        raise CheckpointError(
            "checkpoint",
            "a network of transformers that outputs logits, such as ViTForImageClassification",
            f"{name!r} in {path}" if name else f"none in {path}",
            "Name what builds yours: --model MODULE:FACTORY.",
        )
    return kind


@contextmanager
def bounded(weights: Mapping[str, Tensor], path: Path) -> Iterator[None]:
    """Prevents a network from being built that is much larger than these weights, or has far more parts."""
    most = 2 * sum(tensor.numel() for tensor in weights.values()) + SPARE
    parts = 100 * len(weights) + 1000
    numbers = count = 0

    def note(owner: nn.Module, name: str, part: object) -> None:
        nonlocal numbers, count
        numbers, count = numbers + (part.numel() if isinstance(part, Tensor) else 0), count + 1
        if numbers > most or count > parts:
            raise unfit("the network whose weights these are", f"a larger one in {path}")

    handles = [
        registration.register_module_parameter_registration_hook(note),
        registration.register_module_buffer_registration_hook(note),
        registration.register_module_module_registration_hook(note),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def quiet(transformers: ModuleType) -> Iterator[None]:
    """Keeps transformers from printing: what matters is in the error."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(log.CRITICAL + 1)
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def unfit(expected: str, got: str) -> CheckpointError:
    """The error for a configuration that is not as it should be."""
    return CheckpointError("checkpoint", f"a {CONFIG} with {expected}", got, "Copy it again.")


@contextmanager
def in_a_sentence(folder: Path) -> Iterator[None]:
    """Turns what transformers or a damaged configuration raises into one sentence."""
    try:
        yield
    except (GnomonError, MemoryError):
        raise
    except Exception as cause:  # of whatever kind
        raise CheckpointError(
            "checkpoint",
            f"a {CONFIG} of which transformers makes a network",
            f"{message_of(cause)} in {folder}",
            "Correct it, or name what builds the network: --model MODULE:FACTORY.",
        ) from cause
