"""Of labelled features and of the classifier: the MSE, the least of it, and the signal-to-noise ratio."""

import torch
from scipy.linalg import inv, sqrtm

import gnomon
from tests.contract.of_collapse import RIGID, classifier, covariances, middle, moments, of_features, rotation, shares
from tests.contract.row import Contract

AFFINE = RIGID | {"affine": of_features(lambda p: (rotation(p) * torch.arange(1, p + 1), 3.0))}


def extended(class_moments, weight_decay):
    """The paper's matrices of [h; 1]: within, means, and the least-squares classifier of these."""
    k, p = class_moments.means.shape
    share = torch.tensor(shares(class_moments), dtype=torch.float64)
    within = torch.zeros(p + 1, p + 1, dtype=torch.float64)
    within[:p, :p] = covariances(class_moments)[0]
    within += weight_decay * torch.eye(p + 1)
    means = torch.cat([class_moments.means, torch.ones(k, 1)], 1)
    targets = share.unsqueeze(1) * means
    return share, within, means, torch.linalg.solve(within + means.mT @ targets, targets.mT @ torch.eye(k).double()).mT


def least_squares(class_moments, weight_decay=0.0):
    best = extended(class_moments, weight_decay)[3]
    return {"weight": best[:, :-1], "bias": best[:, -1]}


def decomposition(classifier, bias, class_moments, weight_decay=0.0):
    share, within, means, best = extended(class_moments, weight_decay)
    away = torch.cat([classifier, bias.unsqueeze(1)], 1) - best
    errors = means @ best.mT - torch.eye(len(means))
    nc1 = (best @ within @ best.mT).trace() / 2
    nc23 = (share @ errors.square()).sum() / 2
    beyond = ((away @ within @ away.mT).trace() + (share @ (means @ away.mT).square()).sum()) / 2
    parts = {"nc1": nc1, "nc23": nc23, "least_squares": nc1 + nc23}
    return parts | {"deviation": beyond, "total": nc1 + nc23 + beyond}


def ratio(class_moments):
    root = torch.from_numpy(inv(sqrtm(covariances(class_moments)[0].numpy())))
    return torch.stack([root @ (mean - middle(class_moments)) for mean in class_moments.means], 1)


def spectral(snr_singular_values, classes):
    rows = snr_singular_values.tolist()
    filled = [[*row, *[0.0] * (classes - 1 - len(row))] for row in rows]
    nc1 = torch.tensor([sum(w**2 / (w**2 + classes) ** 2 for w in row) / 2 for row in filled], dtype=torch.float64)
    nc23 = torch.tensor([sum(classes / (w**2 + classes) ** 2 for w in row) / 2 for row in filled], dtype=torch.float64)
    whole = {"nc1": nc1, "nc23": nc23, "least_squares": nc1 + nc23}
    return whole | {"deviation": 0 * nc1, "total": nc1 + nc23}


def fitted(s):
    return moments(s, classifier=classifier, bias=lambda s: s.normal("k"))


ROWS = [
    Contract(gnomon.least_squares_classifier, least_squares, moments),
    Contract(gnomon.mse_decomposition, decomposition, fitted),
    Contract(
        gnomon.central_path_distance,
        lambda **a: (2 * decomposition(**a)["deviation"]).sqrt(),
        fitted,
        (0, torch.inf),
    ),
    Contract(gnomon.snr, ratio, moments, invariances={"shift": RIGID["shift"], "scale": RIGID["scale"]}),
    Contract(
        gnomon.snr_singular_values,
        lambda class_moments: torch.linalg.svdvals(ratio(class_moments))[: len(class_moments.means) - 1],
        moments,
        (0, torch.inf),
        AFFINE,
    ),
    Contract(
        gnomon.spectral_mse,
        spectral,
        lambda s: {"snr_singular_values": s.normal("n", s.sizes.k - 1).abs(), "classes": s.sizes.k},
        invariances={"order": lambda a: a | {"snr_singular_values": a["snr_singular_values"].flip(1)}},
    ),
]
