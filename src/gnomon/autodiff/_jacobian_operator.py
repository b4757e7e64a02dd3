"""The Jacobian as an operator: products from both sides, for a batch of samples at once, without the Jacobian."""

import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision, single
from gnomon.autodiff._independence import require_one_function, require_samples
from gnomon.autodiff._memory import chunk_size
from gnomon.autodiff._parameter_jacobian import mixture
from gnomon.autodiff._run import Model, recorded
from gnomon.autodiff._tape import Tape, forward
from gnomon.autodiff._unchanged import Unchanged, others
from gnomon.errors import RangeError, ShapeError, UnsupportedModuleError
from gnomon.linalg import BLOCK, HELD, largest

FEW_OUTPUTS = 128
"""Up to this many outputs the Jacobian itself is as cheap as estimates of it: measured by `benchmarks/estimates.py`."""

RTOL = 0.05
"""The default accuracy of estimates: the error over the value."""


class TapeProducts:
    r"""Products with the Jacobians of one forward pass.

    The backward pass is linear in the vector v that it propagates, so the derivative of $v^\top J$ with respect to v,
    in the direction u, is $Ju$: a pass through the backward pass. Unlike dual numbers, this needs no separate forward
    pass.

    Args:
        tape: the pass.
        first: the index of its first sample.
    """

    def __init__(self, tape: Tape, first: int = 0) -> None:
        self.tape = replace(tape, create_graph=False)
        self.first = first
        self.shape = (*tape.logits.shape, *tape.x.shape[1:])
        self.used = False

    def jacobian(self) -> Float[Tensor, "n c *d"]:
        """J itself."""
        with self._kept():
            return self.tape.jacobian()

    def left(self, v: Float[Tensor, "n c"]) -> Float[Tensor, "n *d"]:
        """Each vᵀJ."""
        with self._kept():
            product = self.tape.vector_jacobian(v)
        _checks.finite(jacobian=product)
        return product

    def right(self, u: Float[Tensor, "n *d"]) -> Float[Tensor, "n c"]:
        """Each Ju.

        Raises:
            UnsupportedModuleError: if a layer cannot be differentiated twice, or only wrongly.
        """
        with self._kept():
            product = self._multiply(u)
        _checks.finite(jacobian=product)
        return product

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Inside, RangeError where torch finds that what the pass keeps was changed since."""
        try:
            yield
        except RuntimeError as error:
            # Before the first product nobody but the network itself changed it.
            if not self.used or "modified by an inplace operation" not in str(error):
                raise
            raise others() from error
        self.used = True

    @cached_property
    def _multiply(self) -> Callable[[Tensor], Tensor]:
        logits = self.tape.logits
        w = mixture(logits)
        g = self.left(w)
        with recorded():
            v = torch.zeros_like(logits, requires_grad=True)
            try:
                back = replace(self.tape, create_graph=True).vector_jacobian(v)

                def multiply(u: Tensor) -> Tensor:
                    (along,) = torch.autograd.grad(back, v, u, retain_graph=True, materialize_grads=True)
                    return along

                # torch does not always report a missing second derivative: checked against the norm of one product.
                wide = single(logits.dtype)  # half precision does not hold the squares
                unit = largest(g)  # nor single precision those of a network that diverges
                along = g / unit
                size = along.to(wide).square().sum()
                off = (multiply(along).to(wide) * (w.to(wide) / unit)).sum() - size
                right = bool(off.abs() <= self.tape.epsilon**0.5 * size)
                found: object = "one that is wrong"
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                right, found = False, str(error).partition("\n")[0]
        if not right:
            raise UnsupportedModuleError(
                "model",
                "layers with a second derivative",
                found,
                "Pass the Jacobian itself, gnomon.input_jacobian(model, x).",
            )
        return multiply


class JacobianOperator:
    r"""The Jacobians of the outputs with respect to the input, accessed only through products.

    `matvec` gives $J_i u_i$ and `rmatvec` $J_i^\top v_i$, for all samples at once. Quantities that take a Jacobian but
    do not need it as a matrix accept this in its place, and return a `gnomon.Estimate`. Products have no graph: for
    steering, use `input_jacobian`.

    The operator belongs to the weights and samples that it was made with: once torch has counted a change of them, it
    is refused. Changes by way of `data`, and by the network's own forward pass, are not counted; those of buffers, and
    of the weights of a plain function, are noticed only by a forward pass that is kept.

    Args:
        model: a network, or any function, from (n *d) to (n c), whose samples do not mix.
        x: the samples.
        memory: bytes to use beyond results; default: 512 MiB. Samples are taken in chunks that fit; if there is only
            one chunk, its forward pass is kept.
    Attributes:
        shape: the shape of the Jacobians, (n, c, *d).
        dtype: the dtype of the products.
        device: the device of the products.
    Raises:
        ShapeError: if the outputs are not (n, c).
        EmptyError: if there are no samples.
        RangeError: if x is not of floating point, or holds NaN or infinity.
        UnsupportedModuleError: if samples mix, or random numbers change the outputs, as Dropout's do in training mode.
    Example:
        >>> import torch, gnomon
        >>> layer = torch.nn.Linear(3, 2)
        >>> jacobian = gnomon.JacobianOperator(layer, torch.zeros(5, 3))
        >>> u = torch.ones(5, 3)
        >>> bool(jacobian.matvec(u).allclose(u @ layer.weight.T))
        True
    """

    @full_precision
    def __init__(self, model: Model, x: Float[Tensor, "n *d"], *, memory: int | None = None) -> None:
        require_samples(model, x, derivative=True)
        require_one_function(model, x)
        with torch.no_grad():
            outputs = forward(model, x[:2]).logits
        self.shape = (len(x), outputs.shape[1], *x.shape[1:])
        self.dtype, self.device = outputs.dtype, outputs.device
        self.known: dict[Hashable, Any] = {}
        size = chunk_size(model, x, prepare=prepare, memory=memory)

        self._unchanged: Unchanged | None = (unchanged := Unchanged(model, x))

        only: list[TapeProducts] = []  # the one chunk, if all samples fit

        def parts() -> Iterator[TapeProducts]:
            unchanged.require()
            if only:
                yield from only
                return
            for start in range(0, len(x), size):
                with torch.no_grad():
                    part = TapeProducts(forward(model, x[start : start + size], products=True), start)
                unchanged.note()
                if size >= len(x):
                    only.append(part)
                yield part

        self.parts: Callable[[], Iterator[TapeProducts]] = parts

    @classmethod
    def of(cls, tape: Tape, first: int = 0) -> "JacobianOperator":
        """The operator of an existing forward pass, whose first sample has this index."""
        operator = cls.__new__(cls)
        part = TapeProducts(tape, first)
        operator.shape, operator.known = part.shape, {}
        operator.dtype, operator.device = tape.logits.dtype, tape.logits.device
        operator.parts, operator._unchanged = lambda: iter([part]), None
        return operator

    def require_unchanged(self) -> None:
        """Raises RangeError once torch has counted a change of the parameters or samples."""
        if self._unchanged is not None:
            self._unchanged.require()

    @full_precision
    def matvec(self, u: Float[Tensor, "n *d"]) -> Float[Tensor, "n c"]:
        """The products $J_i u_i$.

        Raises:
            ShapeError: if u does not have the shape of the samples.
            RangeError: if u holds NaN or infinity, or the weights were changed since.
            UnsupportedModuleError: if a layer has no second derivative.
        Cost: two passes through the graph.
        """
        return self._products(u, (self.shape[0], *self.shape[2:]), "u", TapeProducts.right)

    @full_precision
    def rmatvec(self, v: Float[Tensor, "n c"]) -> Float[Tensor, "n *d"]:
        r"""The products $J_i^\top v_i$.

        Raises:
            ShapeError: if v does not have the shape of the outputs.
            RangeError: if v holds NaN or infinity, or the weights were changed since.
            UnsupportedModuleError: if nothing leads from the outputs back to the samples.
        Cost: one backward pass.
        """
        return self._products(v, self.shape[:2], "v", TapeProducts.left)

    def _products(
        self, given: Tensor, shape: tuple[int, ...], name: str, multiply: Callable[[TapeProducts, Tensor], Tensor]
    ) -> Tensor:
        if tuple(given.shape) != shape:
            raise ShapeError(name, f"shape {shape}", _checks.shape_of(given), "Pass one vector per sample.")
        _checks.finite(**{name: given})
        rest, pieces = given.to(self.dtype), []
        for part in self.parts():
            mine, rest = rest.tensor_split([part.shape[0]])
            pieces.append(multiply(part, mine))
        return torch.cat(pieces)

    def __repr__(self) -> str:
        return f"JacobianOperator(shape {self.shape}, {self.dtype})"


def prepare(tape: Tape) -> tuple[TapeProducts, int]:
    """Everything that products with the Jacobians of a pass keep, and how many numbers estimates hold per sample."""
    products = TapeProducts(tape)
    with suppress(UnsupportedModuleError, RangeError):  # which is reported where products are requested
        products.right(torch.zeros_like(tape.x))
    outputs, row = products.shape[1], math.prod(products.shape[2:])
    return products, outputs * row if outputs <= FEW_OUTPUTS else (BLOCK + 4) * row + HELD * outputs
