"""Of the Jacobian in the input, and of its rows' sum, the centroid."""

import torch
from torch import nn
from torch.nn import functional

import gnomon
from tests.contract.row import Contract, cosine, jacobian_of, loop, orthogonal, scaled


def at_x(s):
    return {"centroid": s.normal("n", 2, 3), "x": s.normal("n", 2, 3)}


def jacobian_at_x(s):
    return {"jacobian": s.normal("n", 4, 2, 3), "x": s.normal("n", 2, 3)}


def jacobian_only(s):
    return {"jacobian": s.normal("n", 4, 2, 3)}


def of_network(s):
    return {"model": s.network(), "x": s.normal("n", "d")}


def rotate_inputs(arguments):
    """All inputs, which are 2 x 3, turned as vectors of length 6."""
    turn = orthogonal(6)
    return {name: (value.flatten(-2) @ turn).view(value.shape) for name, value in arguments.items()}


def rotate_outputs(arguments):
    return arguments | {"jacobian": torch.einsum("kc,nc...->nk...", orthogonal(4), arguments["jacobian"])}


def share_along(jacobian, x):
    direction = x.flatten() / sum(v**2 for v in x.flatten().tolist()) ** 0.5
    along = sum(float(row.flatten() @ direction) ** 2 for row in jacobian)
    return (along / sum(v**2 for v in jacobian.flatten().tolist())) ** 0.5


def first_share(jacobian):
    values = torch.linalg.svdvals(jacobian.flatten(1)).tolist()
    return values[0] ** 2 / sum(value**2 for value in values)


def velocity(model, x, train_x, train_labels, loss):
    """The derivative of each inner product along the descent, parameter by parameter."""
    parameters = list(model.parameters())
    descent = torch.autograd.grad(loss(model(train_x), train_labels), parameters)
    found = []
    for sample in x:
        sample = sample[None].requires_grad_()
        (centroid,) = torch.autograd.grad(model(sample).sum(), sample, create_graph=True)
        gradients = torch.autograd.grad((centroid * sample).sum(), parameters, materialize_grads=True)
        found.append(-sum((one * other).sum() for one, other in zip(gradients, descent, strict=True)))
    return torch.stack(found)


def velocity_by_sample(model, x, train_x, train_labels, loss):
    """The same along the descent on the outputs of one training sample, the others held fixed."""
    logits, columns = model(train_x).detach(), []
    for p in range(len(train_x)):
        only = torch.eye(len(train_x), dtype=logits.dtype)[p, :, None]
        alone = lambda outputs, labels, only=only: loss(torch.lerp(logits, outputs, only), labels)  # noqa: E731
        columns.append(velocity(model, x, train_x, train_labels, alone))
    return torch.stack(columns, 1)


def affine_piece(function, sample):
    """Slope and offset."""
    slope = torch.autograd.functional.jacobian(lambda s: function(s[None])[0], sample)
    return slope, function(sample[None])[0] - slope @ sample


def cells(model, x):
    """Layer by layer, sample by sample: centroid and radius of the layer, and of the network up to and with it."""
    starts = [place for place, layer in enumerate(model) if isinstance(layer, nn.Linear)]
    found = {name: [] for name in ("centroid", "radius", "centroid_up_to", "radius_up_to")}
    for start, stop in zip(starts, [*starts[1:], len(model)], strict=True):
        for inputs, layers, end in ((model[:start](x).detach(), model[start:stop], ""), (x, model[:stop], "_up_to")):
            slopes, offsets = zip(*(affine_piece(layers, sample) for sample in inputs), strict=True)
            centroids = torch.stack([slope.sum(0) for slope in slopes])
            found[f"centroid{end}"].append(centroids)
            found[f"radius{end}"].append(centroids.square().sum(1) + 2 * torch.stack(offsets).sum(1))
    columns = {name: torch.stack(parts, 1) for name, parts in found.items() if name != "centroid"}
    return columns | {"centroid": tuple(found["centroid"])}


ROWS = [
    Contract(
        gnomon.centroid,
        lambda model, x: jacobian_of(model, x).sum(1),
        of_network,
        differentiable=False,
    ),
    Contract(
        gnomon.centroid_alignment,
        loop(cosine),
        at_x,
        (-1, 1),
        {"scale": scaled(centroid=3.0, x=1e-3), "rotation": rotate_inputs, "tiny": scaled(centroid=1e-200, x=1e-200)},
    ),
    Contract(
        gnomon.centroid_inner_product,
        loop(lambda c, x: sum(p * q for p, q in zip(c.flatten().tolist(), x.flatten().tolist(), strict=True))),
        at_x,
        invariances={"rotation": rotate_inputs, "exchanged scale": scaled(centroid=4.0, x=0.25)},
        unit_free=False,
    ),
    Contract(
        gnomon.centroid_rate,
        velocity,
        lambda s: (
            of_network(s)
            | {
                "train_x": s.normal(8, "d"),
                "train_labels": torch.arange(8) % s.sizes.k,
                "loss": functional.cross_entropy,
            }
        ),
        differentiable=False,
        settings=("train_x", "train_labels", "loss"),
    ),
    Contract(
        gnomon.centroid_influence,
        velocity_by_sample,
        lambda s: (
            of_network(s)
            | {
                "train_x": s.normal(8, "d"),
                "train_labels": torch.arange(8) % s.sizes.k,
                "loss": functional.cross_entropy,
            }
        ),
        differentiable=False,
        settings=("train_x", "train_labels", "loss"),
    ),
    Contract(
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
    Contract(
        gnomon.stable_rank,
        loop(lambda jacobian: 1 / first_share(jacobian)),
        jacobian_only,
        (1, 4),
        {
            "scale": scaled(jacobian=-7.0),
            "tiny": scaled(jacobian=1e-200),
            "inputs": rotate_inputs,
            "outputs": rotate_outputs,
        },
    ),
    Contract(
        gnomon.jacobian_norm,
        loop(lambda jacobian: sum(v**2 for v in jacobian.flatten().tolist()) ** 0.5),
        jacobian_only,
        (0, torch.inf),
        {"sign": scaled(jacobian=-1.0), "inputs": rotate_inputs, "outputs": rotate_outputs},
    ),
    Contract(
        gnomon.jacobian_alignment,
        loop(share_along),
        jacobian_at_x,
        (0, 1),
        {"scale": scaled(jacobian=-7.0, x=-0.1), "inputs": rotate_inputs, "outputs": rotate_outputs},
    ),
    Contract(
        gnomon.layer_centroids,
        cells,
        of_network,
        differentiable=False,
    ),
    Contract(
        gnomon.row_alignment,
        lambda jacobian, x: torch.tensor(
            [[cosine(row, sample) for row in rows] for rows, sample in zip(jacobian, x, strict=True)],
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
    Contract(
        gnomon.singular_values,
        lambda model, x: torch.linalg.svdvals(jacobian_of(model, x)),
        of_network,
        (0, torch.inf),
        differentiable=False,
        single=1e-3,
    ),
]
