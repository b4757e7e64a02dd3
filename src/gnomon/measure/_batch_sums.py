"""Gradients of a loss, summed over random batches of the samples."""

import functools

import torch
from jaxtyping import Float, Int, Real, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._budget import budget_of
from gnomon._precision import in_single, outside_inference
from gnomon.autodiff import chunk_size, loss_gradient, scale_of_sum, trainable
from gnomon.errors import EmptyError
from gnomon.measure._losses import Loss, check_labelled, scaled_sum
from gnomon.measure._separate_losses import require_separate_losses

FEWEST = 3
"""The number of batches whose gradients are held whatever they take: with fewer there is no error estimate."""


class BatchSums:
    """The work of `GradientSums` and `batch_gradients`, in whose names errors are raised."""

    def __init__(self, loss: Loss, batches: int, seed: int, memory: int | None) -> None:
        _checks.settings(
            _checks.whole_number("batches", batches, 2),
            _checks.whole_number("seed", seed),
        )
        self._loss, self._batches = loss, batches
        self._budget = budget_of(memory)
        self._generator = torch.Generator().manual_seed(int(seed))
        self._sums: list[dict[str, Tensor]] = []
        self._sizes: list[int] = []

    def add(self, model: nn.Module, x: Shaped[Tensor, "n *d"], labels: Real[Tensor, "n *y"]) -> None:
        """Adds some samples; where one is refused, all is as before."""
        before = self._generator.get_state(), self._sums, self._sizes
        try:
            self._add(model, x, labels)
        except BaseException:
            state, self._sums, self._sizes = before
            self._generator.set_state(state)
            raise

    def _add(self, model: nn.Module, x: Shaped[Tensor, "n *d"], labels: Real[Tensor, "n *y"]) -> None:
        check_labelled(x, labels)
        parameters = trainable(model, x)
        x, labels = outside_inference(x), outside_inference(labels)
        if not self._sums:
            require_separate_losses(model, x, labels, self._loss, self._budget)
            held = sum(parameter.nbytes for parameter in parameters.values())
            # They are held, stacked layer by layer, and subtracted from their mean.
            count = min(self._batches, max(FEWEST, self._budget // (4 * held)))
            self._sums, self._sizes = [{} for _ in range(count)], [0] * count
        size, loss = chunk_size(model, x, memory=self._budget), functools.partial(scaled_sum, self._loss)
        sums, sizes = [dict(known) for known in self._sums], [*self._sizes]
        # Continues where the earlier samples ended, so that batches stay equally large.
        start, count = sum(sizes), len(sums)
        order = torch.randperm(len(x), generator=self._generator, device="cpu")
        # Samples that are selected in inference mode cannot enter a graph.
        with torch.inference_mode(False), torch.no_grad():
            for turn in range(min(len(x), count)):
                rows, batch = order[turn::count], (start + turn) % count
                some = x[rows.to(x.device)], labels[rows.to(labels.device)]
                known = sums[batch]
                scaled = loss_gradient(model, parameters, *some, loss, size, create_graph=False)
                for name, part in scaled.items():
                    wide = in_single(part) * scale_of_sum(len(rows))
                    known[name] = known[name] + wide if name in known else wide
                sizes[batch] += len(rows)
        self._sums, self._sizes = sums, sizes

    def spread(self) -> tuple[Int[Tensor, "b"], Float[Tensor, ""], Float[Tensor, "b"], Float[Tensor, "b"]]:
        """The contents of `BatchGradients`, for all samples so far."""
        there = [part for part, size in zip(self._sums, self._sizes, strict=True) if size > 0]
        sizes = [size for size in self._sizes if size > 0]
        if not there:
            raise EmptyError("x", "samples", "none", "Call update first.")
        means = {name: torch.stack([part[name] for part in there]).sum(0) / sum(sizes) for name in there[0]}
        norm = _length([torch.linalg.vector_norm(mean, dtype=torch.float64) for mean in means.values()])
        off, along = [], torch.zeros(len(there), dtype=torch.float64, device=norm.device)
        for name, mean in means.items():
            rows = torch.stack([part[name].flatten() / size for part, size in zip(there, sizes, strict=True)])
            rows -= mean.flatten()
            off.append(torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64))
            along += (rows @ (mean.flatten() / torch.where(norm > 0, norm, 1).to(mean))).to(along)
        dtype = functools.reduce(torch.promote_types, (mean.dtype for mean in means.values()))
        apart = _length(off).to(dtype)
        _checks.finite(gradient=torch.cat([norm[None].to(dtype), apart]))
        return torch.tensor(sizes, device=norm.device), norm.to(dtype), apart, along.to(dtype)


def _length(parts: list[Float[Tensor, "*b"]]) -> Float[Tensor, "*b"]:
    """The length of vectors whose parts have these lengths; layers may be on several devices."""
    return torch.linalg.vector_norm(torch.stack([part.to(parts[0].device) for part in parts]), dim=0)
