"""A language model of GPT-2's size with random weights: 12 layers of 768, 50,257 outputs, read from its embeddings.

    python benchmarks/language_model.py [--sequences 64] [--tokens 64] [--inputs 4]

Norm, first share and alignment of the Jacobian of the last token's logits, by products alone; accuracy and collapse of
the last hidden state by next token, at all tokens. Prints seconds, those of the processor, and the peak of memory.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import gnomon
from gnomon import Probe, Reading
from gnomon.integrations.transformers_inputs import TextLogits

WORDS = 50_257


def network() -> TextLogits:
    """GPT-2's small one, as its configuration draws it."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return TextLogits(GPT2LMHeadModel(GPT2Config()).eval())


def texts(sequences: int, tokens: int) -> Tensor:
    """Tokens by Zipf's law, as words are."""
    shares = 1 / torch.arange(1.0, WORDS + 1)
    generator = torch.Generator().manual_seed(0)
    return torch.multinomial(shares, sequences * tokens, replacement=True, generator=generator).view(sequences, tokens)


def peak() -> float:
    """GiB that the process has held at most since `forget`."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def forget() -> None:
    """Begins again what `peak` tells."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def said(name: str, make: Callable[[], Probe]) -> Reading:
    """A reading, with what making its probe and taking it cost."""
    forget()
    before, seconds, processor = peak(), time.perf_counter(), time.process_time()
    reading = make().read()
    took, spent = time.perf_counter() - seconds, time.process_time() - processor
    print(f"{name}: {took:.1f} s ({spent:.1f} s of the processor), peak {peak():.2f} GiB, {before:.2f} before")
    for quantity, value in reading.values.items():
        if isinstance(value, gnomon.Estimate):
            error = (value.error / value.value).max()
            numbers = f"{value.value.mean():.4g}, error up to {error:.2%}, {int(value.passes.max())} passes"
        else:
            numbers = f"{value.double().mean():.4g}"
        print(f"    {quantity:28s} {numbers}", flush=True)
    print("    seconds:", ", ".join(f"{part} {each:.1f}" for part, each in reading.seconds.items() if each > 0.5))
    return reading


def main() -> None:
    """Reads and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=64, help="texts for collapse")
    parser.add_argument("--tokens", type=int, default=64, help="of each text")
    parser.add_argument("--inputs", type=int, default=4, help="texts for the Jacobian")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    model, tokens = network(), texts(asked.sequences, asked.tokens)
    following = torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], -100)], 1)
    with torch.no_grad():
        x = model.model.get_input_embeddings()(tokens)
    weights = sum(parameter.numel() for parameter in model.parameters())
    print(f"{weights / 1e6:.0f} million weights, {WORDS:,} outputs; {asked.threads} threads; torch {torch.__version__}")
    geometry = [gnomon.jacobian_alignment, gnomon.jacobian_norm, gnomon.explained_variance_ratio]
    said(
        f"Jacobian, {asked.inputs} texts of {asked.tokens} tokens",
        lambda: Probe(model, x[: asked.inputs], geometry, positions="last"),
    )
    collapse = [gnomon.accuracy, gnomon.nc1, gnomon.equinorm, gnomon.equiangularity, gnomon.maximal_equiangularity]
    collapse += [gnomon.self_duality, gnomon.nearest_mean_disagreement]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        said(
            f"collapse, {following.ne(-100).sum():,} next tokens in {asked.sequences} texts",
            lambda: Probe(model, (x, following), collapse, positions="all"),
        )
    for each in warned:
        print(f"    {each.message}")


if __name__ == "__main__":
    main()
