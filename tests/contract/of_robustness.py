"""Of the decision, and how far it is to another."""

import torch

import gnomon
from tests.contract.of_jacobian import jacobian_at_x, rotate_inputs
from tests.contract.row import Contract, loop, scaled


def nearest_boundary(jacobian, x):
    rows, sample = [row.flatten() for row in jacobian], x.flatten()
    outputs = [float(row @ sample) for row in rows]
    y = outputs.index(max(outputs))
    apart = [(outputs[y] - outputs[j], float((rows[y] - rows[j]).norm())) for j in range(len(rows)) if j != y]
    return min((gap / length if length else 0.0 for gap, length in apart), default=torch.inf)


def algorithm_2(model, sample, overshoot=0.02, max_steps=50):
    """Of DeepFool, one class at a time; the perturbation, and the steps."""
    y = int(model(sample[None])[0].argmax())
    total = torch.zeros_like(sample)
    for step in range(max_steps):
        point = (sample + (1 + overshoot) * total).requires_grad_()
        outputs = model(point[None])[0]
        if int(outputs.argmax()) != y:
            return (1 + overshoot) * total, step
        gradients = [torch.autograd.grad(output, point, retain_graph=True)[0] for output in outputs]
        best = (float("inf"), total)
        for k in range(len(outputs)):
            w, f = gradients[k] - gradients[y], outputs[y].item() - outputs[k].item()
            if w.any():
                best = min(best, (f / float(w.norm()), w / w.norm()), key=lambda found: found[0])
        if best[0] == float("inf"):
            return (1 + overshoot) * total, step + 1
        total = total + max(best[0], overshoot * float(total.norm())) * best[1]
    return (1 + overshoot) * total, max_steps


def searched(model, x):
    ways, steps = zip(*(algorithm_2(model, sample) for sample in x), strict=True)
    way = torch.stack(ways)
    left, reached = model(x).argmax(1), model(x + way).argmax(1)
    found = {"perturbation": way, "norm": way.norm(dim=1), "robustness": way.norm(dim=1) / x.norm(dim=1)}
    return found | {"left": left, "reached": reached, "flipped": left != reached, "steps": torch.tensor(steps)}


ROWS = [
    Contract(
        gnomon.accuracy,
        loop(lambda logits, label: float(logits.tolist().index(max(logits.tolist())) == label)),
        lambda s: {"logits": s.normal("n", "k"), "labels": s.labels()},
        (0, 1),
        {"scale": scaled(logits=3.0), "monotone": lambda a: a | {"logits": a["logits"].exp()}},
        differentiable=False,
    ),
    Contract(
        gnomon.deepfool,
        searched,
        lambda s: {"model": s.network(), "x": s.normal("n", "d")},
        differentiable=False,
    ),
    Contract(
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
]
