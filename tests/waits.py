"""Where gnomon waits for a value of an accelerator, since it decides what comes next: `file:function`, by reason.

Elsewhere no number leaves the device: a test that computes on one that stands in for it compares.
"""

ERRORS = {
    *("_checks.py:class_labels", "_checks.py:every_class", "_checks.py:finite", "autodiff/_linear_map.py:follow"),
    *("autodiff/_randomness.py:differ", "autodiff/_independence.py:two_kinds", "data/_samples.py:_per_channel"),
    "_precision.py:narrowed",
    *("_checks.py:held", "dynamics/_central_path.py:_by_class", "models/_transformer.py:OneLayerTransformer._check"),
    *("data/_samples.py:normalise", "dynamics/_bias_flow.py:bias_flow", "dynamics/_bias_flow.py:require_one_cluster"),
    *("dynamics/_central_path.py:_of_full_rank", "dynamics/_integration.py:require_times"),
    *("dynamics/_central_path.py:CentralPath._reading", "dynamics/_general_flow.py:GeneralFlow.__init__"),
    *("dynamics/_general_flow.py:_initial_state", "dynamics/_integration.py:increasing_times"),
    *("dynamics/_linear_deep_rfm.py:_check_gram", "dynamics/_clustered_flow.py:ClusteredFlow.__init__"),
    "linalg/_covariance.py:covariance_of",
    *("dynamics/_snr_growth.py:snr_growth", "dynamics/_truncation_time.py:truncation_time_bound"),
    *("kernels/_distances.py:check_metric", "kernels/_distances.py:_require_squares"),
    *("kernels/_agop.py:kernel_agop", "linalg/_gini.py:gini", "linalg/_polar_decomposition.py:polar_decomposition"),
    *(
        "linalg/_roots.py:Root.forward",
        "measure/_by_class.py:check_squares",
        "measure/_by_class.py:check_classes",
        "measure/_by_class.py:warn_without_spread",
        "measure/_least_squares.py:fitted",
        "measure/_least_squares.py:inverse_of_scaled",
    ),
    *("measure/collapse/_snr.py:snr", "measure/truncation/_cumulative_parameters.py:cumulative_parameters"),
    *("regions/_migration.py:migration", "regions/_partition.py:Regions.region_of", "regions/_plane.py:plane_through"),
    "regions/_plane.py:Plane.__post_init__",
    *(f"regions/_slice_regions.py:{name}" for name in ("_polygon", "_corners", "_require_near", "_verify")),
    *(
        "regions/_steps.py:Network.require_agreement",
        "regions/_steps.py:_require_apart",
        "steer/_input_noise.py:noise_level",
    ),
    *("autodiff/_jacobian_operator.py:TapeProducts._multiply", "autodiff/_parameter_jacobian.py:agree"),
    "autodiff/_parameter_products.py:multiplier",
    *("autodiff/_layer_gradients.py:_require_finite", "autodiff/_replicas.py:close"),
    *("steer/_input_noise.py:InputNoise.load_state_dict", "probe/_outputs.py:normalised"),
    *("measure/_estimates.py:warn_if_inaccurate", "steer/_parameters.py:first_nonfinite", "steer/_sam.py:SAM.uphill"),
    "steer/_weight_norm_constraint.py:WeightNormConstraint._now",
    *("measure/fourier/_fourier_losses.py:_check_mask", "measure/fourier/_fourier_losses.py:_modulus"),
    "autodiff/_gauss_newton_operator.py:GaussNewtonOperator._require_derivatives",
    "autodiff/_loss_operator.py:LossOperator._require_symmetry",
    "measure/posterior/_local_learning_coefficient.py:warn_of_steps",
    "measure/gradients/_gradient_disparity.py:_rescaled",
    *("_checks.py:some_of", "measure/_class_sums.py:finished", "probe/_samples.py:Samples.batches"),
}
"""Whether the arguments, or the results, are refused, or warned of."""
WAYS = {
    *("linalg/_gram_sum.py:_products", "regions/_operations.py:joined", "steer/_parameters.py:joint_norm"),
    *("linalg/_directions.py:length", "linalg/_spectra.py:decomposed", "measure/_by_class.py:_lie_close"),
    *("dynamics/_snr_growth.py:_root", "linalg/_covariance.py:above_rounding"),
    "measure/_least_squares.py:independent",
    *("dynamics/_truncation_time.py:_at_radius", "linalg/_krylov.py:krylov", "linalg/_squared_norm.py:squared_norm"),
    *(
        "linalg/_lanczos.py:lanczos",
        "linalg/_lanczos.py:_ritz",
        "measure/_curvature.py:trace",
        "measure/_estimates.py:FirstAndNorm.of",
        "measure/_estimates.py:norm_of",
        "measure/_estimates.py:squared_norm_of",
        "measure/_mixtures.py:traces",
        "measure/_mixtures.py:means",
        *("measure/_stacked.py:first_and_norm_of_all", "measure/_stacked.py:squared_norm_of_all"),
        *(f"measure/_outer_products.py:{name}" for name in ("Drawn.noise", "Drawn.error", "Drawn.size")),
        "measure/_spread.py:spread",
        "probe/_snapshot.py:same_bits",
        "autodiff/_layers.py:same",
    ),
}
"""Which of two ways to compute, or whether to go on."""
SIZES = {
    *("dynamics/_clustered_flow.py:ClusteredFlow.__init__", "dynamics/_linear_deep_rfm.py:LinearDeepRFM.__init__"),
    *("kernels/_distances.py:_expanded", "measure/robustness/_deepfool.py:deepfool"),
    *("regions/_partition.py:Regions.region_of_points", "regions/_polygons.py:Polygons.__getitem__"),
    *("regions/_partition.py:Regions._deepest", "regions/_partition.py:Regions.boundary_distance"),
    *("regions/_polygons.py:_gathered", "regions/_split.py:Split.state", "regions/_split.py:_divided"),
    *("regions/_split.py:_listed", "regions/_split.py:split_by_lines", "regions/_split.py:_cell"),
    *("regions/_decision_boundary.py:_chained", "regions/_decision_boundary.py:_changes"),
    *("regions/_decision_boundary.py:decision_boundary", "probe/_dry_run.py:few"),
    *(
        "measure/_by_class.py:further",
        *(
            f"measure/collapse/_nearest_mean_disagreement.py:{name}"
            for name in ("nearest_mean_disagreement", "_nearest", "_by_pairs")
        ),
        "measure/_moments.py:ClassMoments.present",
    ),
    "measure/parameters/_heavy_tails.py:_eigenvalues",
    *("measure/features/_intrinsic_dimension.py:_distinct", "measure/features/_intrinsic_dimension.py:_two_nearest"),
    "probe/_sequences.py:by_position",
    "measure/posterior/_local_learning_coefficient.py:summary",
}
"""How many samples, pieces or corners are left."""
ELSEWHERE = {
    *("dynamics/_clusters.py:Clusters.of", "dynamics/_collapsed_flow.py:CollapsedFlow._velocity"),
    *("dynamics/_general_flow.py:_initial_state", "dynamics/_integration.py:integrated"),
    *("history/_series.py:as_numbers", "regions/_propagation.py:Propagation.forward"),
    "regions/_slice_regions.py:regions_of",
}
"""What is computed by SciPy on the processor, and numbers that people are told."""
WAITS = ERRORS | WAYS | SIZES | ELSEWHERE
