"""What a reading will cost, before it is made: estimated from a few of its samples."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from gnomon._budget import budget_of
from gnomon.autodiff import forward, observation_bytes, timed
from gnomon.errors import GnomonError
from gnomon.probe._derived import agop_of, own
from gnomon.probe._look import Look
from gnomon.probe._plan import Plan
from gnomon.probe._samples import Samples
from gnomon.probe._wrapped import device_of

ENOUGH = 0.1
"""Seconds that a look has to take to be long enough for the clock."""
MOST = 10 * ENOUGH
"""Seconds of looks, all together, after which no more samples are used, if looks of two sizes were taken."""


@dataclass(frozen=True)
class ExpectedCost:
    """What a reading will cost, as far as a few samples tell; `str` gives it in words.

    Looks are taken at two samples, then at four or more, and at ever more until they have taken a second together;
    loaders are iterated once, to count. What grows faster than the number of samples, as `ntk` does, costs more than
    this, and what cannot be computed on so few is left out.

    Attributes:
        seconds: wall time.
        memory: the bytes of tensors that are in memory together, in addition to the network and the samples; None if
            a quantity differentiates a loss, or has the network for something else, and holds what is not known before.
        samples: how many are read, in all splits.
        outputs: the network's number of outputs; 0 if nothing is observed of it.
        by_products: whether products with the Jacobian are used in its place.
    """

    seconds: float
    memory: int | None
    samples: int
    outputs: int
    by_products: bool

    def __str__(self) -> str:
        outputs = f", {self.outputs:,} outputs" if self.outputs else ""
        way = " by products" if self.by_products else ""
        seconds = f"{float(f'{self.seconds:.2g}'):,g}"
        memory = "" if self.memory is None else f", {self.memory / 2**20:,.0f} MiB"
        return f"{self.samples:,} samples{outputs}{way}: about {seconds} s{memory}"


def joint_cost(costs: Iterable[ExpectedCost]) -> ExpectedCost:
    """The cost of all splits, which are read one after another."""
    costs = list(costs)
    known = [cost.memory for cost in costs if cost.memory is not None]
    return ExpectedCost(
        sum(cost.seconds for cost in costs),
        max(known) if len(known) == len(costs) else None,
        sum(cost.samples for cost in costs),
        max(cost.outputs for cost in costs),
        any(cost.by_products for cost in costs),
    )


def expected(
    look_of: Callable[[tuple[type[Exception], ...]], Look],
    model: nn.Module,
    samples: Samples,
    plan: Plan,
    memory: int | None,
) -> ExpectedCost:
    """The cost of a split, from looks at some samples of its first batch, made by `look_of`.

    Two samples, then more each time, until all looks together have taken long enough; two sizes at least.
    """
    first = samples.first_on(device_of(model))
    x, n = first["x"], samples.count()
    look: Look

    def took(size: int) -> float:
        nonlocal look
        look = look_of((GnomonError,))
        seconds: defaultdict[str, float] = defaultdict(float)
        with timed(seconds, "", x), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about too few samples; the reading gives its own
            look.at(model, Samples(tuple(part[:size] for part in first.values())), independent=False)
        return seconds[""]

    seconds, seen = extrapolated(took, n, len(x))
    rows = [value for name, value in look.known.items() if name in look.held and name not in first]
    held = sum(value.nbytes for value in rows if isinstance(value, Tensor)) // seen * n
    outputs = chunk = 0
    if plan.observed:
        outputs = forward(model, x[:2]).logits.shape[1] // (1 if look.positions is None else look.positions.count)
        each = observation_bytes(model, x, plan.observations, look.copies)
        budget = budget_of(memory)
        chunk = each * min(n, len(x), max(2, budget // max(1, each)))
    held_in_all = None if works_on_the_network(plan) else chunk + held
    return ExpectedCost(seconds, held_in_all, n, outputs, "jacobian_operator" in plan.observations)


def works_on_the_network(plan: Plan) -> bool:
    """Whether a quantity runs the network itself, and so holds gradients, or anything else, beside observations."""
    return any(
        "model" in wanted.values() and (not own(quantity) or "memory" in wanted.values()) and quantity is not agop_of
        for quantity, wanted in ((plan.quantities[name], plan.arguments[name]) for name in plan.quantities)
    )


def extrapolated(took: Callable[[int], float], n: int, most: int) -> tuple[float, int]:
    """The seconds for n samples, from what up to `most` take, and how many were used in the end.

    On a straight line through the first look and the last: with few samples most of the time is not spent on them, so
    that a line through two short looks says little of many samples. The first is taken twice, because of what a first
    pass sets up, and so are short ones, because of other work on the machine.
    """
    spent = first = 0.0

    def look(size: int) -> float:
        nonlocal spent
        seconds = took(size)
        spent += seconds
        return seconds

    def least(size: int) -> float:
        once = look(size)
        return min(once, look(size)) if min(once, first) < ENOUGH else once

    size = few = min(2, n, most)
    first = now = least(few)
    while size < min(n, most) and (size == few or spent < MOST):
        size = min((2 if now >= ENOUGH else 4) * size, n, most)
        now = least(size)
    each = max(0.0, now - first) / (size - few) if size > few else now / size
    return now + (n - size) * each, size
