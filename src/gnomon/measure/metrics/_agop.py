"""The average gradient outer products of a network's layers, from batches, without any Jacobian."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torchmetrics import Metric

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.autodiff import Model, add_gradients, named_layers
from gnomon.errors import EmptyError, public
from gnomon.linalg import Covariance, Factored, GramSum, Sketch


class AGOP(Metric):
    r"""The average gradient outer products at the network's input and at the inputs of layers, batch by batch.

    $G_l = \frac1n\sum_i\sum_j \left(\frac{\partial f(x_i)}{\partial h_{ij}}\right)^\top
    \frac{\partial f(x_i)}{\partial h_{ij}}$, $h_{ij}$ what layer l is given at sample i

    The streaming twin of `agop`: all layers from one backward pass per output, any split into batches, and any number
    of processes. No Jacobian is formed. For a layer with a weight, $z = Wh$, the gradient with respect to h is that
    with respect to z times W, so that $G = W^\top A W$, where A is formed from the gradients with respect to z alone;
    the same applies at the network's input where x enters through one linear layer.

    A linear layer on tokens is given one $h_{ij}$ per token, and a convolution one per patch, and group if it has
    several, as its weight sees them: p is then the width of `weight.flatten(1)`, as `nfa_correlation` requires. For any
    other layer the complete input is used, p entries per sample; a layer that is given several tensors that depend on
    the samples is refused. Gradients are those through the layer, not those past it, where a residual connection
    carries the same features on; and those of all calls that depend on the samples, where a layer is called more than
    once.

    Sums are kept in float64. In a `MetricCollection`, pass `compute_groups=False`.

    Source:
        Beaglehole et al., arXiv:2402.13728, section 3.3; patches as in Beaglehole et al., arXiv:2309.00570.
    Args:
        layers: the layer's name, or names, as in `model.named_modules()`; "" is the network's input.
        sketch: the largest number of rows to keep for each layer, for inputs that are too wide both for n c rows and
            for p x p. The result is then a `Sketch`, by Frequent Directions, which says how far it may fall short: at
            most $\sum_{i>m}\lambda_i(G)/(\mathrm{sketch} + 1 - m)$ for every m, so 0 for a G of that rank.
        memory: bytes to use for a graph; default: 512 MiB.
        kwargs: torchmetrics' own arguments, such as `process_group`.
    Returns:
        From `compute`, by the layers' names, positive semi-definite matrices in float64: as rows where fewer than p are
        known to suffice, in full otherwise; `dense()` returns either in full. Unit: squared outputs per squared input
        of layer l.
    Raises:
        ShapeError: if the outputs are not (n, c), or a layer's input is not as wide as before.
        EmptyError: if there are no samples, or no layers.
        RangeError: if there is no layer of a name, a name is given twice, or `sketch` is below 1; if x is not of
            floating point, or holds NaN or infinity; if float64 does not hold the outer products of the gradients at
            the output of a weight.
        UnsupportedModuleError: if no path from the input to the outputs leads through a layer, or if in training
            mode BatchNorm mixes the samples, or Dropout hides whether a layer without a weight sees them in order.
    Cost: c backward passes over the batch, and O(n c p²), with the layer's outputs q for p where it has a weight, and n
        times the patches for n. Memory besides the budget: O(p min(n c, p)), and 4,096 rows of p.
    Example:
        >>> import torch, gnomon
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
        >>> moments = gnomon.AGOP(["", "2"])
        >>> moments.update(model, torch.ones(5, 2))
        >>> moments.update(model, torch.zeros(7, 2))
        >>> w = model[2].weight.detach().double()
        >>> bool(moments.compute()["2"].dense().allclose(w.T @ w))
        True
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    samples: Tensor
    lost: Tensor

    @public
    def __init__(
        self,
        layers: str | Sequence[str] = "",
        *,
        sketch: int | None = None,
        memory: int | None = None,
        **kwargs: object,
    ) -> None:
        layers = named_layers(layers)
        if not layers:
            raise EmptyError("layers", "at least one layer", "none", 'Name one; "" is the input.')
        _checks.settings(
            ("layers", list(layers), "different names", len(set(layers)) == len(layers)),
            _checks.whole_number("sketch", sketch, 1, optional=True),
        )
        super().__init__(**kwargs)
        self.layers = layers
        self.sketch = sketch
        self.memory = memory
        self._independent: weakref.ref[nn.Module] | None = None
        self.add_state("samples", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")
        self.add_state("lost", torch.zeros(len(layers), dtype=torch.float64), dist_reduce_fx="sum")
        for place in range(len(layers)):
            self.add_state(f"settled_{place}", [], dist_reduce_fx=None)
            self.add_state(f"pending_{place}", [], dist_reduce_fx=None)

    @full_precision
    def update(self, model: Model, x: Float[Tensor, "n *d"]) -> None:
        """Adds one batch of samples, with the network as it is now."""
        sums, known = self._sums(), self._independent is not None and self._independent() is model
        before = {name: ([*part.settled], [*part.pending]) for name, part in sums.items()}
        try:
            add_gradients(model, x, sums, memory=self.memory, independent=known)
        except BaseException:  # nothing is kept of a batch that is refused half way, or interrupted
            for name, part in sums.items():
                part.settled[:], part.pending[:] = before[name]
            raise
        self._count(sums, len(x))
        self._independent = weakref.ref(model) if isinstance(model, nn.Module) else None

    def reset(self) -> None:
        """Forgets all samples."""
        super().reset()
        self._independent = None

    def __getstate__(self) -> dict[str, Any]:
        """The state that is copied and pickled: all except the network that was last seen."""
        return super().__getstate__() | {"_independent": None}

    def forward(self, model: Model, x: Float[Tensor, "n *d"]) -> None:
        """The same as `update`."""
        self.update(model, x)

    @full_precision
    def compute(self) -> dict[str, Covariance]:
        """The average gradient outer products of all samples so far, on all processes, by the layers' names."""
        sums = self._sums()
        # Processes gather consistently only if each has exactly one entry per state, even if it saw no samples.
        for part in sums.values():
            part.settle()
            if not part.settled:
                part.settled.append(torch.zeros(0, 0, dtype=torch.float64, device=self.device))
        self._count(sums, 0)
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn, should_sync=self._to_sync, should_unsync=self._should_unsync
        ):
            sums = self._sums()
            for part in sums.values():  # A sketch's rows, of all processes together, may be more than are to be kept.
                part.settle()
            self._count(sums, 0)
            totals = {name: part.total() for name, part in sums.items()}
            lost, samples = self.lost / self.samples, self.samples
        if samples == 0:
            raise EmptyError("x", "samples", "none", "Call update first.")
        return {
            name: self._mean(total / samples, error)
            for (name, total), error in zip(totals.items(), lost, strict=True)
            if total is not None
        }

    def _count(self, sums: dict[str, GramSum], samples: int) -> None:
        self.samples = self.samples + samples
        self.lost = self.lost + torch.stack([part.lost.to(self.lost.device) for part in sums.values()])

    def _mean(self, covariance: Covariance, error: Tensor) -> Covariance:
        if self.sketch is not None and isinstance(covariance, Factored):
            return Sketch(covariance.rows, error)
        return covariance

    def _sums(self) -> dict[str, GramSum]:
        return {
            name: GramSum(getattr(self, f"settled_{place}"), getattr(self, f"pending_{place}"), self.sketch)
            for place, name in enumerate(self.layers)
        }

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        # torchmetrics would clone and squeeze the tensors in the result, which a frozen dataclass does not allow.
        return compute
