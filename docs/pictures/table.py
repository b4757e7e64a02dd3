"""Which quantity is drawn how, which shares a picture, and which has none."""

from drawing import (
    LOOKED_AT,
    Picture,
    class_means,
    curve,
    cut,
    decided,
    images,
    mapped,
    moving_kernel,
    probable,
    ratio_cosines,
    resting,
    spectrum,
)
from runs import ADDITION, CLUSTERS, COLLAPSE, DIGITS
from torch import Tensor


def first(values: Tensor) -> Tensor:
    """The first of all that are drawn."""
    return values[0]


def third(values: Tensor) -> Tensor:
    """The third of all that are drawn: of four layers, what the last one is given."""
    return values[2]


PICTURES: dict[str, Picture] = {
    "accuracy": curve(DIGITS, "accuracy", "share correct, unseen digits", ".1%"),
    "centroid": images("centroids", 6, above="training digits"),
    "centroid_alignment": curve(DIGITS, "centroid_alignment", "cosine, mean", ".3f"),
    "centroid_inner_product": curve(DIGITS, "centroid_inner_product", "inner product (outputs), mean", ".2f"),
    "explained_variance_ratio": curve(DIGITS, "explained_variance_ratio", "PC1, mean", ".2f"),
    "jacobian_norm": curve(DIGITS, "jacobian_norm", "norm (outputs per input), mean", ".2g", log=True),
    "jacobian_alignment": curve(DIGITS, "jacobian_alignment", "share of the norm, mean", ".3f"),
    "row_alignment": curve(DIGITS, "row_alignment", "cosine, the label's row, mean", ".3f"),
    "singular_values": spectrum(DIGITS, "singular_values", "k", "k-th singular value, mean", ".2g", first, log=True),
    "ntk": curve(DIGITS, "ntk", "CKA with the kernel at the start", ".2f"),
    "ntk_to_point": curve(DIGITS, "ntk_to_point", "kernel, own class / others", ".2f"),
    "centroid_rate": curve(DIGITS, "centroid_rate", "rate (outputs per step), mean size", ".2g", log=True),
    "centroid_influence": curve(DIGITS, "centroid_influence", "size of influence, own class / others", ".2f"),
    "aligned_jacobian": curve(DIGITS, "aligned_jacobian", "cosine with the aligned Jacobian", ".3f"),
    "robust_radius": curve(DIGITS, "robust_radius", "radius / length, unseen digits", ".3f"),
    "layer_centroids": spectrum(DIGITS, "layer_centroids", "up to layer", "cosine with the digit, mean", ".2f", third),
    "gradient_disparity": curve(DIGITS, "gradient_disparity", "distance, losses rescaled", ",.0f", log=True),
    "normalised_margin": curve(COLLAPSE, "normalised_margin", "margin / norms, mean", ".1e"),
    "commutator_defect": curve(DIGITS, "commutator_defect", "defect, median", ".3g", log=True),
    "hessian_eigenvalues": curve(DIGITS, "hessian_eigenvalues", "largest eigenvalue", ".3g", log=True),
    "start_cka": curve(DIGITS, "start_cka", "alignment with the start", ".2f"),
    "gini": curve(ADDITION, "gini", "Gini coefficient", ".2f"),
    "fourier_norms": spectrum(
        ADDITION, "fourier_norms", "basis vector", "norm", ".1f", lambda norms: norms.max() / norms.min()
    ),
    "fourier_losses": curve(ADDITION, "fourier_losses", "excluded loss", ".2g", log=True, part="excluded"),
    "class_moments": Picture(COLLAPSE, ("means",), class_means),
    "nc1": curve(COLLAPSE, "nc1", "NC1", ".2g", log=True),
    "nc1_trace_ratio": curve(COLLAPSE, "nc1_trace_ratio", "spread within / between", ".2g", log=True),
    "equinorm": curve(COLLAPSE, "equinorm", "variation of the means' lengths", ".3f"),
    "equiangularity": curve(COLLAPSE, "equiangularity", "deviation of the means' cosines", ".3f"),
    "maximal_equiangularity": curve(COLLAPSE, "maximal_equiangularity", "distance from the simplex", ".3f"),
    "self_duality": curve(COLLAPSE, "self_duality", "squared distance", ".2f"),
    "nearest_mean_disagreement": curve(COLLAPSE, "nearest_mean_disagreement", "share that disagrees", ".1%"),
    "agop": images("pixels", 1),
    "effective_rank": curve(DIGITS, "effective_rank", "effective rank of the AGOP", ".1f"),
    "top_eigenvectors": images("top_eigenvectors", 6),
    "nfa_correlation": curve(DIGITS, "nfa_correlation", "correlation, first layer", ".2f"),
    "nfa_table": spectrum(DIGITS, "nfa_table", "layer", "correlation", ".2f", third),
    "layer_collapse": spectrum(
        DIGITS, "layer_collapse", "behind layer", "spread within / between", ".2g", third, log=True
    ),
    "nc2_etf": curve(COLLAPSE, "nc2_etf", "distance from the simplex", ".2f"),
    "nc2_orthogonal": curve(COLLAPSE, "nc2_orthogonal", "distance from orthogonal", ".2f"),
    "mse_decomposition": curve(
        COLLAPSE, "mse_decomposition", "loss by spread within classes", ".1e", log=True, part="nc1"
    ),
    "least_squares_classifier": curve(COLLAPSE, "least_squares_classifier", "cosine with W", ".2f"),
    "central_path_distance": curve(COLLAPSE, "central_path_distance", "distance (outputs)", ".2g", log=True),
    "snr": Picture(COLLAPSE, ("snr",), ratio_cosines),
    "snr_singular_values": spectrum(
        COLLAPSE, "snr_singular_values", "j", "j-th singular value", ",.0f", first, log=True
    ),
    "spectral_mse": curve(COLLAPSE, "spectral_mse", "least MSE", ".1e", log=True),
    "deepfool": curve(DIGITS, "deepfool", "perturbation / length, unseen digits", ".3f"),
    "feature_learning_interval": Picture(DIGITS, ("ntk", "kernel"), moving_kernel),
    "plateau": Picture(DIGITS, ("centroid_alignment", "explained_variance_ratio"), resting),
    "verdict": Picture(DIGITS, (*LOOKED_AT.values(), "accuracy"), probable),
    "cumulative_parameters": curve(
        CLUSTERS, "condition", "condition of W(2)", ".2g", log=True, needs="cumulative_parameters"
    ),
    "truncation_map": curve(
        CLUSTERS, "truncation_map", "way / length, first layer, mean", ".2f", needs="cumulative_parameters"
    ),
    "truncated_inputs": Picture(CLUSTERS, ("truncated_inputs", "cumulative_parameters"), cut),
    "truncation_sectors": curve(CLUSTERS, "truncation_sectors", "share truncated, second layer", ".1%"),
    "polar_decomposition": curve(
        CLUSTERS, "polar_decomposition", "way of R(2) from its start", ".2f", needs="cumulative_parameters"
    ),
    "activation_misalignment": curve(
        CLUSTERS, "activation_misalignment", "misalignment, second layer", ".2f", needs="cumulative_parameters"
    ),
    "regions.slice_regions": Picture(DIGITS, ("accuracy",), mapped),
    "regions.decision_boundary": Picture(DIGITS, ("accuracy",), decided),
    "regions.boundary_distance": curve(DIGITS, "boundary_distance", "distance (inputs), mean", ".2g", log=True),
    "regions.local_complexity": curve(DIGITS, "local_complexity", "regions in a disc, mean", ".0f"),
    "regions.migration": curve(DIGITS, "migration", "area after / area before", ".2f"),
}
"""By the name under gnomon, which is the file's too."""
