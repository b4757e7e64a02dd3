"""How many images a network still recognises while AutoAttack changes their pixels."""

import copy

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gnomon import _checks
from gnomon._extras import extra
from gnomon.errors import public

ATTACKS = ("apgd-ce", "apgd-t", "fab-t", "square")
"""The standard AutoAttack, in its order; each attacks only what those before it have left."""
TARGETS = 9
"""Wrong classes that the targeted attacks try, so there must be ten classes or more."""


@public
def robust_accuracy(
    model: nn.Module,
    images: Float[Tensor, "n channels h w"],
    labels: Int[Tensor, "n"],
    *,
    eps: float,
    seed: int,
    attacks: tuple[str, ...] = ATTACKS,
) -> float:
    """The share of images that no attack could make the network misclassify.

    An attack may change every pixel of every channel by `eps` and stays within [0, 1]. For `eps` to be in units of
    pixels, the network must take pixels and normalise them itself. A copy of it in eval mode is attacked: neither the
    network, nor its gradients, nor torch's global random numbers are touched, and the same seed gives the same share.

    Source:
        Croce and Hein, Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free
        attacks, ICML 2020, arXiv:2003.01690; their code (MIT), packaged as pyautoattack 0.2.0.
    Args:
        model: from images to the logits of ten classes or more.
        images: pixels from 0 to 1.
        labels: the classes.
        eps: the largest change of a pixel, in (0, 1], such as 4/255.
        seed: of the attacks' random starts.
        attacks: which of `ATTACKS`; with fewer of them the share is an upper bound on the share with all.
    Returns:
        From 0 to 1, at most the accuracy without an attack.
    Raises:
        MissingExtraError: if the extra `attack` is not installed, or is broken; then the message names the cause.
        RangeError: if a setting or a pixel is out of range, or there are fewer than ten classes.
        ShapeError: if the images are not (n, channels, h, w), or there are not as many labels.
        EmptyError: if there are no images.
    """
    _checks.samples(4, images=images)
    _checks.samples(1, images=images, labels=labels)
    _checks.finite(images=images)
    victim = copy.deepcopy(model).eval().requires_grad_(False)  # fab-t would write gradients into its parameters
    with torch.no_grad():
        classes = victim(images[:1]).shape[1]
    low, high = images.min().item(), images.max().item()
    _checks.settings(
        ("images", (low, high), "from 0 to 1", low >= 0 and high <= 1),
        ("model", classes, f"to have {TARGETS + 1} classes or more", classes > TARGETS),
        ("eps", eps, "in (0, 1]", 0 < eps <= 1),
        ("attacks", attacks, f"among {ATTACKS}", bool(attacks) and {*attacks} <= {*ATTACKS}),
    )
    with torch.random.fork_rng():
        package = extra("robust_accuracy", "pyautoattack", "attack")
        attack = package.AutoAttack(victim, eps=eps, norm="Linf", seed=seed, device=images.device)
        # If given earlier, they would get other budgets.
        attack.attacks_to_run = [name for name in ATTACKS if name in attacks]
        _, predicted = attack.run_standard_evaluation(images, labels)
    return float((predicted == labels).double().mean())
