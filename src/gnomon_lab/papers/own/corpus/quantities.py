"""What is read of a network of the corpus: on its training data everything that fits, on unseen data the accuracy."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

import gnomon
from gnomon import Probe
from gnomon.data import Samples
from gnomon.linalg import cosine
from gnomon_lab.papers._shared import Loss
from gnomon_lab.papers.own._reading import JACOBIANS

KERNEL = 64
"""Training samples, at most, in the neural tangent kernel."""
Named = Literal["cross_entropy", "mse"]
LOSS: dict[str, Named] = {"cross-entropy": "cross_entropy", "mse": "mse"}
"""The names of the losses in gnomon's quantities."""
OF_CURVATURE = (
    gnomon.hessian_eigenvalues,
    gnomon.hessian_trace,
    gnomon.gauss_newton_eigenvalues,
    gnomon.gauss_newton_trace,
    gnomon.gradient_sharpness,
    gnomon.commutator_defect,
)
OF_SAMPLES = (
    gnomon.accuracy,
    gnomon.log_probability,
    gnomon.margin,
    gnomon.normalised_margin,
    gnomon.nc1,
    gnomon.nc1_trace_ratio,
    gnomon.nc2_etf,
    gnomon.equinorm,
    gnomon.equiangularity,
    gnomon.maximal_equiangularity,
    gnomon.self_duality,
    gnomon.nearest_mean_disagreement,
    gnomon.classifier_equinorm,
    gnomon.classifier_equiangularity,
    gnomon.feature_norm,
    gnomon.activation_sparsity,
    gnomon.dead_units,
    gnomon.rank_me,
    gnomon.cdnv,
    gnomon.label_cka,
    gnomon.intrinsic_dimension,
    gnomon.parameter_norm,
    gnomon.layer_spectra,
    gnomon.heavy_tails,
)
OF_JACOBIANS = (
    gnomon.centroid_alignment,
    gnomon.jacobian_alignment,
    gnomon.jacobian_norm,
    gnomon.explained_variance_ratio,
    gnomon.stable_rank,
    gnomon.robust_radius,
    gnomon.effective_rank,
    gnomon.nfa_table,
)


def everything(
    model: nn.Module, train: Samples, validation: Samples, unseen: Samples, loss: Loss, weight_decay: float
) -> Probe:
    """The probe of one network, which is at its start; quantities that compare with the start use this one."""
    some, few = (Samples(train.x[:size], train.labels[:size]) for size in (JACOBIANS, KERNEL))
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    of_samples: dict[str, Callable[..., object]] = {quantity.__name__: quantity for quantity in OF_SAMPLES}
    return Probe(
        model,
        {"train": train, "some": some, "few": few, "validation": validation, "test": unseen},
        {
            "train": of_samples
            | of_gradients(LOSS[loss])
            | {
                "training_loss": partial(gnomon.training_loss, loss=LOSS[loss]),
                "fact_table": partial(gnomon.fact_table, loss=LOSS[loss], weight_decay=weight_decay),
                "distance_from_start": partial(gnomon.distance_from_start, start=start),
                "start_cka": partial(gnomon.start_cka, start=before(gnomon.features, model, train.x)),
            },
            "some": {quantity.__name__: quantity for quantity in OF_JACOBIANS}
            | {quantity.__name__: partial(quantity, loss=LOSS[loss]) for quantity in OF_CURVATURE}
            | {"local_learning_coefficient": posterior(LOSS[loss])},
            "few": {"kernel_cosine": kernel_cosine(before(gnomon.ntk, model, few.x))},
            "validation": [gnomon.accuracy, gnomon.log_probability],
            "test": [gnomon.accuracy],
        },
    )


def of_gradients(loss: Named) -> dict[str, Callable[..., object]]:
    """The quantities of the gradients of the loss on all training samples."""
    return {
        "batch_gradients": partial(gnomon.batch_gradients, loss=loss),
        "gradient_norm": gnomon.gradient_norm,
        "gradient_noise_scale": partial(gnomon.gradient_noise_scale, whole=True),
        "gradient_disparity": partial(gnomon.gradient_disparity, loss=loss),
    }


def posterior(loss: Named) -> Callable[[nn.Module, Tensor, Tensor], Tensor]:
    """The local learning coefficient from short chains, without their other results."""
    short = partial(gnomon.local_learning_coefficient, loss=loss, batch=64, draws=50, burn_in=50)
    return lambda model, x, labels: short(model, x, labels).estimate.value


def before(quantity: Callable[[nn.Module, Tensor], Tensor], model: nn.Module, x: Tensor) -> Tensor:
    """The current value of a quantity, in eval mode."""
    with torch.no_grad():
        return quantity(copy.deepcopy(model).eval(), x)


def kernel_cosine(start: Tensor) -> Callable[[nn.Module, Tensor], Tensor]:
    """The quantity that says how far the neural tangent kernel has turned from its initial value: their cosine."""
    return lambda model, x: cosine(gnomon.ntk(model, x).flatten(), start.flatten())
