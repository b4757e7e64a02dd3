"""The contract of the quantities: one row each, checked by test_contract. A quantity without a row fails there."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

import gnomon


@dataclass(frozen=True)
class Contract:
    """What a quantity promises.

    Attributes:
        quantity: the function.
        oracle: the same, as the plainest loop over the definition.
        sample: arguments by name, from n and a generator, in float64, samples first.
        range: lowest and highest value.
        invariances: by name, maps of the arguments that change nothing.
        differentiable: whether gradcheck must pass in all floating arguments.
    """

    quantity: Callable[..., Tensor]
    oracle: Callable[..., Tensor]
    sample: Callable[[int, torch.Generator], dict[str, Tensor]]
    range: tuple[float, float]
    invariances: dict[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]] = field(default_factory=dict)
    differentiable: bool = True


def normal(*shape, generator):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def orthogonal(d, seed=3):
    return torch.linalg.qr(normal(d, d, generator=torch.Generator().manual_seed(seed)))[0]


def at_x(n, generator):
    return {"centroid": normal(n, 2, 3, generator=generator), "x": normal(n, 2, 3, generator=generator)}


def jacobian_at_x(n, generator):
    return {"jacobian": normal(n, 4, 2, 3, generator=generator), "x": normal(n, 2, 3, generator=generator)}


def jacobian_only(n, generator):
    return {"jacobian": normal(n, 4, 2, 3, generator=generator)}


def predictions(n, generator):
    labels = torch.randint(5, (n,), generator=generator)
    return {"logits": normal(n, 5, generator=generator), "labels": labels}


def scaled(**factors):
    return lambda arguments: arguments | {name: factor * arguments[name] for name, factor in factors.items()}


def rotate_inputs(arguments):
    """All inputs, which are 2 x 3, turned as vectors of length 6."""
    turn = orthogonal(6)
    return {name: (value.flatten(-2) @ turn).view(value.shape) for name, value in arguments.items()}


def rotate_outputs(arguments):
    return arguments | {"jacobian": torch.einsum("kc,nc...->nk...", orthogonal(4), arguments["jacobian"])}


def angle(a, b):
    a, b = a.flatten().tolist(), b.flatten().tolist()
    product = sum(p * q for p, q in zip(a, b, strict=True))
    return product / (sum(p * p for p in a) ** 0.5 * sum(q * q for q in b) ** 0.5)


def loop(function):
    """An oracle for all samples from one for a sample."""

    def over_samples(**arguments):
        rows = zip(*arguments.values(), strict=True)
        return torch.tensor([function(*row) for row in rows], dtype=torch.float64)

    return over_samples


def share_along(jacobian, x):
    direction = x.flatten() / sum(v**2 for v in x.flatten().tolist()) ** 0.5
    along = sum(float(row.flatten() @ direction) ** 2 for row in jacobian)
    return (along / sum(v**2 for v in jacobian.flatten().tolist())) ** 0.5


def first_share(jacobian):
    values = torch.linalg.svdvals(jacobian.flatten(1)).tolist()
    return values[0] ** 2 / sum(value**2 for value in values)


def nearest_boundary(jacobian, x):
    rows, sample = [row.flatten() for row in jacobian], x.flatten()
    outputs = [float(row @ sample) for row in rows]
    y = outputs.index(max(outputs))
    apart = [(outputs[y] - outputs[j], float((rows[y] - rows[j]).norm())) for j in range(len(rows)) if j != y]
    return min((gap / length if length else 0.0 for gap, length in apart), default=torch.inf)


CONTRACTS = {
    "accuracy": Contract(
        gnomon.accuracy,
        loop(lambda logits, label: float(logits.tolist().index(max(logits.tolist())) == label)),
        predictions,
        (0, 1),
        {
            "scale": scaled(logits=3.0),
            "monotone": lambda a: a | {"logits": a["logits"].exp()},
        },
        differentiable=False,
    ),
    "centroid_alignment": Contract(
        gnomon.centroid_alignment,
        loop(angle),
        at_x,
        (-1, 1),
        {"scale": scaled(centroid=3.0, x=1e-3), "rotation": rotate_inputs, "tiny": scaled(centroid=1e-200, x=1e-200)},
    ),
    "centroid_inner_product": Contract(
        gnomon.centroid_inner_product,
        loop(lambda c, x: sum(p * q for p, q in zip(c.flatten().tolist(), x.flatten().tolist(), strict=True))),
        at_x,
        (-torch.inf, torch.inf),
        {"rotation": rotate_inputs, "exchanged scale": scaled(centroid=4.0, x=0.25)},
    ),
    "explained_variance_ratio": Contract(
        gnomon.explained_variance_ratio,
        loop(first_share),
        jacobian_only,
        (1 / 4, 1),
        {
            "scale": scaled(jacobian=-7.0),
            "tiny": scaled(jacobian=1e-200),
            "inputs": rotate_inputs,
            "outputs": rotate_outputs,
        },
    ),
    "jacobian_norm": Contract(
        gnomon.jacobian_norm,
        loop(lambda jacobian: sum(v**2 for v in jacobian.flatten().tolist()) ** 0.5),
        jacobian_only,
        (0, torch.inf),
        {"sign": scaled(jacobian=-1.0), "inputs": rotate_inputs, "outputs": rotate_outputs},
    ),
    "jacobian_alignment": Contract(
        gnomon.jacobian_alignment,
        loop(share_along),
        jacobian_at_x,
        (0, 1),
        {"scale": scaled(jacobian=-7.0, x=-0.1), "inputs": rotate_inputs, "outputs": rotate_outputs},
    ),
    "robust_radius": Contract(
        gnomon.robust_radius,
        loop(nearest_boundary),
        jacobian_at_x,
        (0, torch.inf),
        {
            "scale": scaled(jacobian=7.0),
            "tiny": scaled(jacobian=1e-200),
            "inputs": rotate_inputs,
            "common row": lambda a: a | {"jacobian": a["jacobian"] + a["jacobian"][:, :1]},
            "outputs": lambda a: a | {"jacobian": a["jacobian"].flip(1)},
        },
    ),
    "row_alignment": Contract(
        gnomon.row_alignment,
        lambda jacobian, x: torch.tensor(
            [[angle(row, sample) for row in rows] for rows, sample in zip(jacobian, x, strict=True)],
            dtype=torch.float64,
        ),
        jacobian_at_x,
        (-1, 1),
        {
            "scale": scaled(jacobian=7.0, x=0.1),
            "inputs": rotate_inputs,
            "rows": lambda a: a | {"jacobian": a["jacobian"] * torch.arange(1, 5).view(1, 4, 1, 1)},
        },
    ),
}
