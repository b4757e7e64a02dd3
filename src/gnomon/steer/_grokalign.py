"""GrokAlign: a penalty on the norm of the input Jacobian, which aligns it and makes networks grok sooner."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._kinds import check_fields
from gnomon._precision import outside_inference
from gnomon.autodiff import (
    Model,
    Tape,
    compiling,
    forward,
    no_batch_statistics,
    outputs_of,
    projected_norm,
    require_second_derivative,
    spare_zeros,
)
from gnomon.errors import ArgumentTypeError, UnsupportedModuleError, public
from gnomon.linalg import drawn
from gnomon.steer._parameters import require_entries
from gnomon.steer._turns import place


@dataclass(frozen=True)
class GrokAlign:
    r"""The GrokAlign penalty: a coefficient times the mean Frobenius norm of the batch's input Jacobians.

    $\lambda\,\frac1n\sum_i\|J_i\|_F$, or $\lambda\,\big|\ell - \frac1n\sum_i\|J_i\|_F\big|$ to hold it at a level.

    Add it to the loss, whose forward pass it shares:

        logits, penalty = grokalign.logits_and_penalty(model, x)
        loss = cross_entropy(logits, labels) + penalty
        loss.backward()

    If the network is run elsewhere, `grokalign(model, x)` is the penalty from a forward pass of its own.

    With `every` = k it acts once in every k calls, k times as strongly, so that its mean stays the same; otherwise it
    is a zero that costs nothing. Calls are counted, one per batch, not the optimizer's steps: with gradients
    accumulated over several batches, one of them has the penalty, for the same work and with less of a jolt than if
    every batch of each k-th step had it. It acts at the first call, and then once in each turn of k calls, at a
    pseudo-random place, the same in each training: so batches in a fixed order, and the passes of a method that makes
    two per step, have it equally often, up to chance. A call without gradients does not count, and returns the penalty
    at its mean strength. LBFGS, which evaluates one loss several times, needs k = 1 and nothing random: `exact`, on
    whole batches.

    Estimators. `exact` uses the complete Jacobian, by c backward passes. `projection` uses random unit vectors v on the
    output sphere: $\frac{c}{p}\sum_{j\le p}\|v_j^\top J\|^2$ has mean $\|J\|_F^2$, and its square root, which the norm
    needs, is biased low: by 0.7 % for a freshly initialised network, by up to 18 % where J has rank one and c = 10.
    Coefficients therefore do not carry over between estimators, nor between the norm and its square.

    It helps a network that memorises, such as one whose initial weights are too large. From weights of the usual size
    it gained half a per cent or nothing on scikit-learn's digits, and strong weight decay alone did as well in the same
    time (docs/getting-started.md). Added to AdamW with a tuned learning rate and weight decay, with `every=16` and a λ
    tuned on other networks, it took 4.4 times less time to the goal on one of four small tasks; on the others the
    factors were 1.4, 0.7 and 0.6, with 1 in the intervals (docs/experiments/steering.md). A λ ten to thirty times the
    best kept every network on three of them from reaching it, one three times the best two of three on the fourth
    (docs/experiments/which-lambda.md).

    While BatchNorm is in training mode, samples mix. The Jacobian meant is still that of a sample's outputs with
    respect to its own input, $J_i = \partial f(x_i)/\partial x_i$; but a backward pass over the batch also includes the
    sample's effect on the outputs of others. Each estimator gives the outputs of each sample their own direction or
    sign, so that the mean of the square is $\sum_j\|\partial f(x_j)/\partial x_i\|_F^2$ for both: more than
    $\|J_i\|_F^2$ by a share of the order of 1/n, in a small MLP 1 % at a batch size of 256, 5 % at 64, 20 % at 16. The
    signs of `exact` are always the same: it draws no random numbers, and is exact if samples do not mix; if they do,
    other signs would give a value that differs by 0.2 % at 256, 4 % at 16. The same holds of any network that mixes
    samples, such as a graph's nodes or a recurrent layer whose first axis is time: nothing here refuses it, as a probe
    does.

    Source:
        Walker et al., arXiv:2506.12284, section 4; the projection is that of Hoffman et al., arXiv:1908.02729, who use
        half the squared norm.
    Args:
        coefficient: λ ≥ 0. The papers use 1e-3 with cross entropy and 1e-4 with MSE on MNIST, for the norm. No rule is
            safe (docs/experiments/which-lambda.md): for the norm, not its square, begin at 0.004 times the norm of the
            loss's gradient over that of the penalty's with λ = 1 and k = 1, both at initialisation, and judge by
            held-out samples, at equal time.
        estimator: "projection" or "exact".
        projections: random vectors per sample, for "projection".
        level: hold the mean norm at this value instead of minimising it. `projection` reads norms too low, and so holds
            the true one above it, with one vector by up to a quarter: use `exact`, or `squared` and the level squared.
        fraction: the part of the batch to use, in (0, 1]: below 1 a random part, whose mean norm has the whole batch's
            mean norm as its expectation, whatever the order of the batch. It is run by itself, apart from the rest of
            the batch, because a backward pass for some samples of a forward pass computes products for all: so the
            model must treat each sample by itself, and in DistributedDataParallel with `find_unused_parameters` both
            must use the same parameters.
        squared: penalise the squared norm; `level` is then one of squared norms.
        every: k ≥ 1, act at one call in k. A norm held at a `level` swings about k times as far around it. Where the
            gradient's norm is clipped, or the step normalised, as by egalitarian gradients or signs, being k times as
            strong has no effect beyond some size: there the penalty is weaker, by up to k; under Adam in part
            (docs/quantities/steer.md). Clip the loss's gradient alone, or use k = 1. A copy that `dataclasses.replace`
            makes counts its own calls: give it this one's `state_dict()`.
        generator: where the random vectors and parts come from; default: torch's global one.
    Raises:
        RangeError: listing every setting that is out of range.
    Cost: at each call at which it acts, counted in products, about one plain step more, 1.00 in a ResNet-18; c times
        that for `exact`. Where x enters through one linear layer W that is narrower than x, as in the papers' MLP,
        norms are computed through $WW^\top$ if the batch is large enough for that to pay: 0.95 at 256 samples (1.28 up
        to 128), and for `exact` with ten outputs 6.1 (6.5). There, where the rows of W share a component a hundred
        times larger than the rest, which the network cancels, float32 keeps some three digits. `backward()` computes
        the gradient in x too, 0.28 in the papers' MLP, unless it is told the parameters:
        `loss.backward(inputs=list(model.parameters()))`. docs/results.md has the counts and times.
    Example:
        >>> import torch, gnomon
        >>> model, x = torch.nn.Linear(2, 2, bias=False), torch.ones(4, 2)
        >>> penalty = gnomon.GrokAlign(0.5, estimator="exact")(model, x)
        >>> torch.testing.assert_close(penalty, 0.5 * model.weight.norm())
    """

    coefficient: float
    estimator: Literal["projection", "exact"] = "projection"
    projections: int = 1
    level: float | None = None
    fraction: float = 1.0
    squared: bool = False
    generator: torch.Generator | None = None
    every: int = 1
    _state: dict[str, int] = field(default_factory=lambda: {"calls": 0}, init=False, repr=False, compare=False)

    @public
    def __post_init__(self) -> None:
        check_fields(self)
        _checks.settings(
            _checks.at_least_0("coefficient", self.coefficient),
            ("estimator", self.estimator, "'projection' or 'exact'", self.estimator in ("projection", "exact")),
            _checks.whole_number("projections", self.projections, 1),
            _checks.at_least_0("level", self.level, optional=True),
            ("fraction", self.fraction, "in (0, 1]", 0 < self.fraction <= 1),
            ("squared", self.squared, "True or False", isinstance(self.squared, bool)),
            _checks.whole_number("every", self.every, 1),
        )

    @public
    def logits_and_penalty(
        self, model: Model, x: Float[Tensor, "n *d"]
    ) -> tuple[Float[Tensor, "n c"], Float[Tensor, ""]]:
        """The outputs for the loss, and the penalty, from one forward pass.

        With a `fraction` below 1, the part and the rest of the batch are run one after the other. In the pass that the
        penalty uses, attention is not fused, and nothing is compiled or checkpointed, for the sake of second
        derivatives.

        Args:
            model: the network in training.
            x: the batch; where it has a graph, as embeddings do, gradients continue through it.

        Returns:
            The outputs, in the order of the batch; and a scalar with a graph to the parameters, differentiable twice,
            but once where BatchNorm is in training mode or a sample's Jacobian is 0; NaN if a sample that it uses holds
            NaN or infinity. Where the penalty does not act it is 0, whatever x holds.

        Raises:
            RangeError: if x is not of floating point, or not dense.
            EmptyError: if the batch is empty.
            ShapeError: if the outputs are not (n, c).
            UnsupportedModuleError: if a layer has no second derivative, or nothing leads from the outputs back to x;
                for a part of a batch, if BatchNorm normalises by the batch, and so by two, one for each part.
        """
        _require(model, x)
        coefficient = self._coefficient()
        if coefficient is None:
            x = outside_inference(x)
            logits = outputs_of(model(x.clone()), x)  # where the penalty acts, the network gets a copy too
            penalty = _zero(logits)
        else:
            logits, tape = self._run(model, x)
            penalty = self._penalty(tape, coefficient)
        self._count()
        return logits if torch.is_grad_enabled() else logits.detach(), penalty

    @public
    def __call__(self, model: Model, x: Float[Tensor, "n *d"]) -> Float[Tensor, ""]:
        """The penalty, from a forward pass of its own.

        With a `fraction` below 1 only that part of the batch is run. The pass updates BatchNorm's running statistics.

        Args:
            model: the network in training.
            x: the batch, taken as given: no gradient goes back through a graph that it may have.

        Returns:
            The same scalar as `logits_and_penalty` does.

        Raises:
            RangeError: if x is not of floating point, or not dense.
            EmptyError: if the batch is empty.
            ShapeError: if the outputs are not (n, c).
            UnsupportedModuleError: if a layer has no second derivative, or nothing leads from the outputs back to x.
        """
        _require(model, x)
        coefficient = self._coefficient()
        if coefficient is None:
            penalty = _zero(x)
        else:
            order, size = self._order(x)
            part = x.detach() if order is None else x.detach()[order[:size]]
            penalty = self._penalty(forward(model, part, mixed=True), coefficient)
        self._count()
        return penalty

    def state_dict(self) -> dict[str, Any]:
        """The calls so far, which `every` counts; not the generator's state, because others may draw from it too."""
        return dict(self._state)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes from this state.

        Raises:
            CheckpointError: if it is a state of something else.
        """
        require_entries(state_dict, "GrokAlign", calls=int)
        self._state["calls"] = int(state_dict["calls"])

    def _coefficient(self) -> float | None:
        """What the norm is multiplied by at this call; None where the penalty does not act."""
        if not torch.is_grad_enabled():
            return self.coefficient
        every = int(self.every)
        turn, at = divmod(self._state["calls"], every)
        return every * self.coefficient if at == place(turn, every) else None

    def _count(self) -> None:
        """Notes that a call has ended: one that fails, and is made again, acts again."""
        if torch.is_grad_enabled():
            self._state["calls"] += 1

    def _run(self, model: Model, x: Tensor) -> tuple[Tensor, Tape]:
        """The outputs for the whole batch, and the pass of those samples that the penalty uses."""
        order, size = self._order(x)
        if order is None:
            tape = forward(model, x, mixed=True)
            return tape.logits, tape
        with no_batch_statistics(
            "no batch statistics where the fraction is below 1, since the part is run apart from the rest",
            "Let fraction be 1, or add grokalign(model, x) to a loss with a forward pass of its own.",
        ):
            tape = forward(model, x[order[:size]], mixed=True)
        rest = x[order[size:]]
        return torch.cat([tape.logits, outputs_of(model(rest), rest)])[order.argsort()], tape

    def _penalty(self, tape: Tape, coefficient: float) -> Tensor:
        require_second_derivative(tape)
        size = self._norm(tape)
        mean = size.square().mean() if self.squared else size.mean()
        spare_zeros(tape, mean)
        penalty = coefficient * (mean if self.level is None else (mean - self.level).abs())
        # The Jacobian of a ReLU is finite where its input is not; and a check would wait for an accelerator.
        return penalty + (0 * tape.x.detach()).sum().to(penalty)

    def _order(self, x: Tensor) -> tuple[Tensor | None, int]:
        """A random order of the samples, None if all are used, and how many are: those that come first in it."""
        # The tiny number undoes the rounding up of whole numbers, such as 0.07 * 100.
        size = max(1, math.ceil(self.fraction * len(x) - 1e-9))
        if size == len(x):
            return None, size
        return drawn(torch.randperm, len(x), generator=self.generator, device=x.device), size

    def _norm(self, tape: Tape) -> Float[Tensor, "n"]:
        outputs = tape.logits.shape[1]
        if self.estimator == "exact":
            return projected_norm(tape, _signed_units(tape.logits), outputs)
        vectors = (self._unit_vectors(tape.logits) for _ in range(self.projections))
        return math.sqrt(outputs / self.projections) * projected_norm(tape, vectors, self.projections)

    def _unit_vectors(self, logits: Tensor) -> Tensor:
        v = drawn(torch.randn, logits.shape, generator=self.generator, device=logits.device, dtype=logits.dtype)
        return v / torch.linalg.vector_norm(v, dim=1, keepdim=True)


def _require(model: Model, x: Tensor) -> None:
    if compiling():
        raise UnsupportedModuleError(
            "model", "a call outside torch.compile", "one inside", "Compile the network alone."
        )
    if not callable(model):
        raise ArgumentTypeError("model", "a network, or a function", type(model).__name__, "Pass one.")
    _checks.floating(x=x)
    _checks.dense(x=x)
    _checks.samples(1, x=x)


def _zero(like: Tensor) -> Tensor:
    """The penalty where it does not act: with a graph, as elsewhere, to be differentiated alone or changed in place."""
    return like.new_zeros((), requires_grad=True).clone()


def _signed_units(logits: Float[Tensor, "n c"]) -> Iterator[Float[Tensor, "n c"]]:
    """Each output's unit vectors, times a sign per sample, which norms ignore and which separates samples that mix.

    Without signs, a row would be the gradient of an output summed over the batch, which BatchNorm keeps constant.
    """
    # Always the same, so that this estimator draws nothing from the random streams that others use.
    drawn = torch.randint(2, logits.shape, generator=torch.Generator().manual_seed(0), device="cpu")
    signs = (2 * drawn - 1).to(logits)
    for k in range(signs.shape[1]):
        v = torch.zeros_like(signs)
        v[:, k] = signs[:, k]
        yield v
