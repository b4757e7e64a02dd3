"""kernel-linearisation's page: its table, figures and claims, from its records."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from statistics import mean

from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.papers.agop_collapse._deep_rfm import NEAR, SOURCE, described
from gnomon_lab.runs import Arm, Cells, Claim, Record, Seeds, by_arm, over_seeds, series

MUCH = 10.0
"""How many times λ_Φ must be λ_k for "≫"."""
WITHIN = 2.0
"""The factor within which a predicted fall of log NC1 must be the measured one."""
NC1 = {"mapped": "measured", "alone": "linear, from each layer's inputs", "recursion": "linear, from the data alone"}
"""NC1 after the root of the AGOP, by the names of the readings."""


def behind(arm: Arm) -> list[Record]:
    """The layers whose inputs are random features: all but the first."""
    return [record for record in arm if "ratio" in record]


def advantages(arm: Arm) -> list[float]:
    """λ_Φ over λ_k, of each layer behind the first."""
    return [1 / record["ratio"] for record in behind(arm)]


def followed(arm: Arm) -> list[Record]:
    """The layers to which the recursion leads: those before the fitted λ_Φ is first not above 0."""
    return [record for record in arm if "recursion" in record]


def decades(arm: Arm, name: str) -> float:
    """By how many decades NC1 after the root falls from the first layer to the last that the recursion leads to."""
    first, end = followed(arm)[0], followed(arm)[-1]
    return math.log10(first[name] / end[name])


def pace(arm: Arm) -> list[float]:
    """The recursion's fall of log NC1 from the first layer to the last, over the measured one; of one layer none."""
    return [decades(arm, "recursion") / decades(arm, "mapped")] if len(followed(arm)) > 1 else []


def paces(arm: Arm) -> list[float]:
    """The same within each layer, from its inputs to after the root, where the recursion is told the inputs."""
    return [
        math.log(record["inputs"] / record["alone"]) / math.log(record["inputs"] / record["mapped"]) for record in arm
    ]


def astray(arm: Arm) -> int:
    """Layers behind the first in which NC1 of the recursion rises and the measured one falls, or the reverse."""
    return sum(
        (after["recursion"] < before["recursion"]) != (after["mapped"] < before["mapped"])
        for before, after in itertools.pairwise(followed(arm))
    )


def falling(seeds: Seeds, name: str) -> str:
    """In how many of the layers behind the first, of all arms and seeds, NC1 of this name falls."""
    arms = [followed(arm) for records in seeds for arm in by_arm(records).values()]
    falls = [after[name] < before[name] for arm in arms for before, after in itertools.pairwise(arm)]
    return f"{sum(falls)} of {len(falls)}"


def alike(arms: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of arms that differ in the kernel alone."""
    return [(a, b) for a, b in itertools.combinations(arms, 2) if a.split()[::2] == b.split()[::2]]


def contradicting(records: Sequence[Record], pairs: Sequence[tuple[str, str]]) -> int:
    """Pairs of arms, each followed into a second layer, of which that with the larger mean λ_Φ/λ_k collapses later."""
    arms = {name: arm for name, arm in by_arm(records).items() if len(followed(arm)) > 1}
    means = {name: mean(advantages(arm)) for name, arm in arms.items()}
    falls = {name: decades(arm, "mapped") / (len(followed(arm)) - 1) for name, arm in arms.items()}
    return sum((means[a] > means[b]) != (falls[a] > falls[b]) for a, b in pairs if {a, b} <= arms.keys())


def table(records: Sequence[Record]) -> Cells:
    """Every arm: its second layer, the first with random features before it, and how it ends."""
    columns = (
        "", "λ_k", "λ_Φ", "λ_k/λ_Φ", "rest of k", "over λ_k", "rest of k_Φ", "of the bound",
        "NC1", "alone", "recursion",
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for name, arm in by_arm(records).items():
        cells = [""] * 7
        for second in behind(arm)[:1]:
            cells = [
                f"{second['kernel.ridge'] / second['features.slope']:.3g}", f"{second['features.ridge']:.3g}",
                f"{second['ratio']:.3g}", f"{second['kernel.rest']:.3f}", f"{second['kernel.rest_over_ridge']:.3g}",
                f"{second['features.rest']:.3f}", f"{second['share']:,.4g}" if "share" in second else "",
            ]  # fmt: skip
        rows.append((name, *cells, *(f"{followed(arm)[-1][stage]:.2g}" for stage in NC1)))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in a sentence for each arm."""
    say = "{}: λ_Φ is {:.2g} to {:.2g} times λ_k; NC1 ends at {:.1e}, and at {:.1e} by the recursion."
    return " ".join(
        say.format(described(name), min(advantages(arm)), max(advantages(arm)), end["mapped"], end["recursion"])
        for name, arm in by_arm(records).items()
        if behind(arm)
        for end in followed(arm)[-1:]
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """The ridges of all arms, and the NC1 that the linear model predicts."""
    return [ridges(records), collapse(records)]


def ridges(records: Sequence[Record]) -> Curves:
    """The ratio of the ridges as far as it is above 0, and what the fits leave, against the layer."""

    def lines(name: str) -> tuple[Line, ...]:
        shown = [record for record in records if record.get(name, 0) > 0]
        return tuple(Line(described(arm), *series(shown, arm, name), colour=i) for i, arm in enumerate(by_arm(shown)))

    return Curves(
        "ridges",
        "The ridges of the kernel and of the random features",
        "Above: the kernel's ridge λ_k over that of the random features before it, λ_Φ, both in the units of one Gram "
        "matrix; the assumption is that it is far below 1. Below: the spectral norm of what the linear form leaves of "
        "each, over that of its linear part, both centred.",
        "layer",
        (
            Panel("λ_k over λ_Φ", "ratio", lines("ratio"), log_y=True),
            Panel("What is left of the kernel matrix", "share of the linear part", lines("kernel.rest"), log_y=True),
            Panel("What is left of the features' Gram matrix", "share of the linear part", lines("features.rest"),
                  log_y=True),
        ),
        log_x=False,
    )  # fmt: skip


def collapse(records: Sequence[Record]) -> Curves:
    """NC1 after the root of each layer's AGOP: a panel for each arm."""
    panels = tuple(
        Panel(described(arm), "tr Σ_W / tr Σ_B", tuple(
            Line(label, *series(records, arm, name), dashed=name != "mapped", colour=i)
            for i, (name, label) in enumerate(NC1.items())
        ), log_y=True)
        for arm in by_arm(records)
    )  # fmt: skip
    return Curves(
        "collapse",
        "NC1 measured, and by the linear model",
        "After the root of each layer's AGOP. Dashed: by theorem 4.3's step with the fitted ridges, once from the "
        "inputs that each layer really has, and once from the step's own result in the layer before.",
        "layer",
        panels,
        log_x=False,
    )


def claims(seeds: Seeds) -> list[Claim]:
    """What section 4.2 says, for every arm and all finished seeds."""

    def claim(
        message: str, measure: Callable[[Arm], Sequence[float]], least: float, most: float = math.inf,
        where: str = "section 4.2",
    ) -> Claim:  # fmt: skip
        bounds = [f"at least {least:g}"] * (least > -math.inf) + [f"at most {most:g}"] * (most < math.inf)
        found = {
            name: [value for records in seeds for value in measure(by_arm(records)[name])] for name in by_arm(seeds[0])
        }
        words = "; ".join(f"{name} {min(values):.3g} to {max(values):.3g}" for name, values in found.items() if values)
        holds = all(least <= value <= most for values in found.values() for value in values)
        return Claim(message, SOURCE + where, ", ".join(bounds), words, holds)

    def rest(part: str) -> Callable[[Arm], Sequence[float]]:
        return lambda arm: [record[f"{part}.rest"] for record in arm if f"{part}.rest" in record]

    signs = [min(record[f"kernel.{name}"] for record in r for name in ("level", "ridge")) for r in seeds]
    kernels, every = alike(by_arm(seeds[0])), [*itertools.combinations(by_arm(seeds[0]), 2)]
    against, others = ([contradicting(records, pairs) for records in seeds] for pairs in (kernels, every))
    differ = [sum(map(astray, by_arm(records).values())) for records in seeds]
    return [
        claim("the kernel matrix is well approximated by γ11ᵀ + XᵀX + λ_kI: what is left, over the linear part",
              rest("kernel"), -math.inf, NEAR),
        claim("that of the random features exhibits a similar linearization: what is left, over the linear part",
              rest("features"), -math.inf, NEAR),
        Claim("γ_k and λ_k are above 0, in every layer: the least", SOURCE + "section 4.2", "above 0",
              over_seeds(signs), min(signs) > 0),
        claim("λ_Φ ≫ λ_k, in every layer: λ_Φ over λ_k", advantages, MUCH),
        Claim("the ratio λ_k/λ_Φ determines the rate: pairs of kernels that contradict",
              SOURCE + "section 4.2", "0", f"of {len(kernels)} pairs of arms that differ in the kernel alone "
              f"{over_seeds(against, 'd')}; of all {len(every)} pairs {over_seeds(others, 'd')}", not any(against)),
        Claim("NC1 of the recursion falls in the layers in which the measured one does: layers that differ",
              SOURCE + "theorem 4.3", "0", f"{over_seeds(differ, 'd')}; the recursion's falls in "
              f"{falling(seeds, 'recursion')}, the measured one's in {falling(seeds, 'mapped')}", not any(differ)),
        claim("and as fast: its fall of log NC1 from the first layer to the last, over the measured one",
              pace, 1 / WITHIN, WITHIN, "theorem 4.3"),
        claim("the same within each layer, from the inputs that it really has", paces, 1 / WITHIN, WITHIN,
              "theorem 4.3"),
    ]  # fmt: skip
