"""anatomy's page: its table and figures, from its records."""

from collections.abc import Sequence
from dataclasses import replace

from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.papers._shared import UNSEEN, lines
from gnomon_lab.papers.own.anatomy.order import (
    ALIGNMENTS,
    ARMS,
    KERNEL,
    QUANTITIES,
    UNRELATED,
    WAY,
    Quantity,
    change,
    done,
    memorised,
    order,
    words,
)
from gnomon_lab.runs import Cells, Record, Seeds, last, series

OTHER = "another untrained network"


def table(records: Sequence[Record]) -> Cells:
    """For each quantity where it starts, and in each arm where it ends and when it is done."""
    columns = ("", "start", *(word for arm in ARMS for word in (arm, f"{arm} done at")))
    zero = [cell for arm in ARMS for cell in ("", words(memorised([records], arm)[0]))]
    rows = [("Zero training error", "", *zero)]
    for quantity in QUANTITIES:
        cells = [f"{records[0][quantity.name]:.3g}"]
        for arm in ARMS:
            (step,) = done([records], arm, quantity.name)
            cells += [f"{last(records, arm)[quantity.name]:.3g}", words(step, "no change")]
        rows.append((quantity.title, *cells))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The story of each arm in a sentence."""
    sentences = []
    for arm in ARMS:
        moments = {
            "zero training error": memorised([records], arm),
            "the centroids' alignment done": done([records], arm, next(iter(ALIGNMENTS))),
            "the test accuracy done": done([records], arm, UNSEEN),
        }
        told = [f"{what} {'never' if step is None else f'at step {step:,.0f}'}" for what, (step,) in moments.items()]
        sentences.append(
            f"With {arm}: {', '.join(told)}, {last(records, arm)[UNSEEN]:.1%} of unseen digits at the end."
        )
    return " ".join(sentences)


def figures(records: Sequence[Record]) -> list[Figure]:
    """The order of the changes, and each quantity against steps."""
    return [order([records]), curves(records)]


def figures_over_seeds(seeds: Seeds) -> list[Figure]:
    """The order of the changes over all seeds."""
    return [replace(order(seeds), name="order-over-seeds")]


def curves(records: Sequence[Record]) -> Curves:
    """Small multiples over one time axis, a dot on each curve where its quantity is done."""
    return Curves(
        "anatomy",
        "One training run, watched by everything",
        f"Means over the training digits that each quantity is read at, but for the test accuracy. A dot: from here on "
        f"the quantity has gone {WAY:.0%} of its way from its first to its last value, on the axis as it is drawn; a "
        f"curve without one does not change. Dashed: the alignment of the kernels of the start and of {OTHER}.",
        "step (a pass over all batches)",
        tuple(panel(records, quantity) for quantity in QUANTITIES),
        panel_height=96,
    )


def panel(records: Sequence[Record], quantity: Quantity) -> Panel:
    """One quantity in both arms."""
    changes = ((place, arm, change(records, arm, quantity)) for place, arm in enumerate(ARMS))
    dots = tuple(Line(arm, (at.step,), (at.value,), colour=place) for place, arm, at in changes if at is not None)
    drawn = lines(records, {arm: arm for arm in ARMS}, quantity.name)
    if quantity.name == KERNEL:
        drawn += (Line(OTHER, *series(records, ARMS[0], UNRELATED), dashed=True, colour=len(ARMS)),)
    shown = drawn + dots
    # A network all of whose units are dead has a Jacobian of zeros.
    return Panel(quantity.title, quantity.unit, shown, log_y=quantity.log and all(min(line.y) > 0 for line in shown))
