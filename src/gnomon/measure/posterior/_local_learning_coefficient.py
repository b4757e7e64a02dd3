"""How degenerate the loss is around the parameters."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Real, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._budget import budget_of
from gnomon._precision import full_precision, in_single, outside_inference
from gnomon._warn import warn
from gnomon.autodiff import Replicas, chunk_size, observe
from gnomon.linalg import Estimate, student
from gnomon.measure._langevin import Langevin, Rise, split_r_hat
from gnomon.measure._losses import Loss, formula_and_targets, sample_losses
from gnomon.measure._separate_losses import require_separate_losses

LEAST = 128
"""The smallest batch by default."""
MOST = 1 / 3
"""The share of the estimate that steps and batches may add: twice the 1/6 of a regression whose residuals are 1."""


@dataclass(frozen=True)
class LocalLearningCoefficient:
    r"""The coefficient, and diagnostics that say whether its chains can be trusted.

    Attributes:
        estimate: $\hat\lambda$, the mean over the chains that stayed finite, and the 95 % interval of Student's t over
            these; NaN without any, and with an infinite error for one. Its `passes` are the steps of all chains.
        by_chain: the coefficient of each chain; NaN where it diverged.
        losses: by chain and step, burn-in included, the mean loss there, as estimated from the step's samples.
        start: the loss at the parameters themselves.
        diverged: the share of the chains that reached NaN or infinity, in [0, 1].
        below: the share of the chains whose mean loss is below that at the start, in [0, 1]: these have negative
            coefficients, since the start is not a minimum.
        drift: by how much the coefficient of the second half of the draws exceeds that of the first half.
        r_hat: how far apart the halves of chains are, compared with the spread of each, at least 0: near 1 where they
            have forgotten where they began. With batches, their noise adds to the spread, and a slow drift shows in
            `drift` alone.
        step_size: the step size of the chains.
    """

    estimate: Estimate
    by_chain: Float[Tensor, "chains"]
    losses: Float[Tensor, "chains s"]
    start: Float[Tensor, ""]
    diverged: Float[Tensor, ""]
    below: Float[Tensor, ""]
    drift: Float[Tensor, ""]
    r_hat: Float[Tensor, ""]
    step_size: Float[Tensor, ""]


@full_precision
def local_learning_coefficient(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    labels: Real[Tensor, "n *y"],
    *,
    loss: Loss = "cross_entropy",
    n_beta: float | int | None = None,
    localisation: float | int = 100.0,
    step_size: float | int | None = None,
    chains: int = 4,
    draws: int = 100,
    burn_in: int = 100,
    batch: int | None = None,
    seed: int = 0,
    memory: int | None = None,
) -> LocalLearningCoefficient:
    r"""The local learning coefficient, estimated by SGLD: half an effective number of parameters.

    Reading:
        Low, high: Low: much can change while the loss hardly does. p/2, half the parameters, in a regular model;
            less in a singular one.
        Generalising: On digits after 1,000 steps 1.0 in a perceptron that recognises 95 % of the unseen ones, and 38 in
            one that memorised shuffled labels; from an initialisation four times as large 8.3 (91 %) and 79.
        Misleads: Negative where the start is not a minimum, as early in training. Its size depends on `n_beta` and
            `localisation`, which cuts off directions that curve less than it pulls: compare only at equal settings.

    $\hat\lambda = n\beta\,\bigl(\mathbb E_w L(w) - L(w^*)\bigr), \quad
    w \sim e^{-n\beta L(w) - \frac\gamma2\|w - w^*\|^2}$

    L is the mean loss over the samples, $w^*$ the current values of the trainable parameters; those that do not require
    gradients stay fixed. Chains of stochastic gradient Langevin dynamics start there, each with its own batches and
    noise:

    $w \leftarrow w - \frac\epsilon2\bigl(n\beta\,\nabla L_B(w) + \gamma\,(w - w^*)\bigr) + \sqrt\epsilon\,\xi$

    Each draw is the loss of its batch minus that of the same batch at the start, which removes most of the batch's
    noise. The network's own parameters, its random numbers and gradients are left unchanged.

    For a quadratic loss with curvatures $h_i$, the chains converge to
    $\frac12\sum_i\frac{n\beta h_i}{(n\beta h_i + \gamma)(1 - \frac\epsilon4(n\beta h_i + \gamma))}$: half the number of
    directions with $n\beta h_i \gg \gamma$, and up to 1/15 more due to the default step size; still more if the loss
    curves most away from the start. Batches add noise along the steepest directions, little where $n\beta$ is no larger
    than the batch, as by default, and the losses are about those of a likelihood: for linear regression with ten
    inputs and n = 50,000, batches of 128 give 18.8, the default's 4,622 give 6.1, all samples 5.2; with residuals of 10
    in place of 1 and n = 2,000, the default gives 40.1, all samples 4.4. Beyond quadratic losses the coefficient of the
    theory is the limit of large n and no pull: for $L = w_1^2w_2^2$, where it is 1/2, the mean above is 0.39 at
    $n\beta = 10^3$ and 0.43 at $10^5$, with $\gamma = 1$.

    Source:
        Lau et al., arXiv:2308.12108; the dynamics: Welling and Teh 2011. The formula of the update, and the temperature
        1 / log n: the documentation of devinterp 1.3.2, whose coefficients are reproduced at the same settings. By
        default its $n\beta$ is b / log b, with b the size of a batch, and it takes the losses of batches as they are.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the training samples.
        labels: their labels, as the loss takes them.
        loss: as for `training_loss`: `cross_entropy`, `mse`, or a function to one value per sample, made of torch
            operations that read no tensor's values.
        n_beta: $n\beta$, the samples over the temperature; default: $n / \max(1, \log n)$.
        localisation: $\gamma$, how strongly chains are pulled back; unit: 1 per parameter squared. p parameters without
            curvature settle at a distance of $\sqrt{p/\gamma}$.
        step_size: $\epsilon$; default: a quarter of 1 over the largest curvature, $n\beta h + \gamma$, where h is that
            on batches, found by ten products. Chains diverge beyond four times that inverse.
        chains: the number of chains, at least 2.
        draws: the number of steps of each chain whose losses count, at least 4.
        burn_in: the number of steps before these. Where the pull dominates, s steps build up
            $1 - e^{-s\epsilon\gamma}$ of the spread: chains need a few times $1/(\epsilon\gamma)$, which one steep
            direction, as of inputs that are not standardised, makes long.
        batch: the number of samples per step, drawn with replacement; from n on, all samples are used, without noise;
            default: $n\beta$ rounded up, or 128 where that is more.
        seed: the seed of batches and noise, which are drawn independently of training's random numbers.
        memory: bytes to use for the pass over all samples, and for the pieces of a batch that are computed together
            for all chains; default: 512 MiB.
    Returns:
        The estimate with its error, and the chains' diagnostics. Any number; no unit. Invariant under adding a number
        to the loss, up to $n\beta$ times the rounding of a sample's loss, so that losses above $10^6$ need float64; the
        same for the same seed. For half precision, in float32.
    Raises:
        ShapeError: if the outputs are not (n, c), or labels do not match them and the loss.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, labels that are no classes, or settings out of range.
        UnsupportedModuleError: if in training mode BatchNorm mixes the samples or Dropout draws random numbers, if
            nothing is trainable, or if the network uses a parameter by another reference than that of the module that
            holds it.
    Cost: chains times (burn_in + draws + 11) forward and backward passes over a batch, with all chains together where
        that pays and torch.func supports the network, otherwise one after another; on one core and for a perceptron of
        7,400 parameters 0.4 s for 500 samples, 5 s for 50,000. Memory: several times the parameters for each chain.
        Warns of chains that diverged, of a `burn_in` below $1/(\epsilon\gamma)$, and where steps and batches add more
        than a third of the estimate, and more than its error.
    Example:
        >>> import torch, gnomon
        >>> x = torch.tensor([[1.0], [-1.0]]).repeat(50, 1)
        >>> y = 2 * x[:, 0]
        >>> layer = torch.nn.Linear(1, 1)
        >>> with torch.no_grad():
        ...     _ = layer.weight.fill_(2), layer.bias.fill_(0)
        >>> settings = {"localisation": 1, "chains": 50, "burn_in": 400, "seed": 1}
        >>> found = gnomon.local_learning_coefficient(layer, x, y, loss="mse", **settings)
        >>> bool(abs(found.estimate.value - 1) < found.estimate.error)
        True
    """
    _checks.settings(
        _checks.above_0("n_beta", n_beta, optional=True),
        _checks.at_least_0("localisation", localisation),
        _checks.above_0("step_size", step_size, optional=True),
        ("step_size", step_size, "given where localisation is 0", step_size is not None or localisation != 0),
        _checks.whole_number("chains", chains, 2),
        _checks.whole_number("draws", draws, 4),
        _checks.whole_number("burn_in", burn_in, 0),
        _checks.whole_number("batch", batch, 1, optional=True),
        _checks.whole_number("seed", seed),
    )
    _checks.samples(1, x=x, labels=labels)
    x, labels = outside_inference(x), outside_inference(labels)
    with torch.inference_mode(False), torch.no_grad():
        logits = observe(model, x, {"logits"}, memory=memory).values["logits"]
        logits = in_single(logits)
        formula, targets = formula_and_targets(loss, logits, labels)
        losses = sample_losses(loss, logits, labels)
        require_separate_losses(model, x, labels, loss, memory)
        if n_beta is None:
            n_beta = len(x) / max(1.0, math.log(len(x)))
        if batch is None:  # at a lower temperature the noise of smaller batches would be larger than the chains' own
            batch = max(LEAST, math.ceil(n_beta))
        piece = chunk_size(model, x, memory=max(1, budget_of(memory) // chains))
        langevin = Langevin(n_beta, localisation, step_size, chains, burn_in + draws, batch, seed)
        above, added, size = langevin.run(Rise(Replicas(model, x, formula), x, targets, losses, piece))
    return summary(above, added, losses.mean(), n_beta, localisation, burn_in, size)


def summary(
    above: Float[Tensor, "k s"],
    added: Float[Tensor, "k s"],
    start: Float[Tensor, ""],
    n_beta: float | int,
    localisation: float | int,
    burn_in: int,
    step_size: Float[Tensor, ""],
) -> LocalLearningCoefficient:
    """The coefficient and diagnostics, from each chain's rise and what its steps add, one by one."""
    whole = above.isfinite().all(1)
    kept = above[whole, burn_in:]
    if len(kept) < len(above):
        warn(
            f"local_learning_coefficient: expected chains that stay finite, got NaN or infinity in "
            f"{len(above) - len(kept)} of {len(above)}. Pass a smaller step_size.",
        )
    # Where the loss is flat, the spread after s steps is 1 - exp(-s * pull) of what it comes to.
    pull = float(step_size) * localisation
    if burn_in * pull < 1 and pull > 0:
        warn(
            "local_learning_coefficient: expected burn_in of at least 1 / (step_size * localisation), got fewer steps. "
            "Directions with little curvature, if any, have hardly moved, which no diagnostic shows: the estimate may "
            "be far too low. Standardise the inputs, or pass burn_in of 4 / (step_size * localisation), with the "
            "step_size of the result.",
        )
    by_chain = torch.where(whole, n_beta * above[:, burn_in:].mean(1), math.nan)
    value, error = mean_and_error(by_chain[whole])
    warn_of_steps(value, error, added[whole, burn_in:].mean())
    half = kept.shape[1] // 2
    return LocalLearningCoefficient(
        Estimate(value, error, torch.tensor(above.numel(), device=above.device)),
        by_chain,
        start + above,
        start,
        1 - whole.to(above).mean(),
        (by_chain < 0).to(above).mean(),
        n_beta * (kept[:, -half:].mean() - kept[:, :half].mean()),
        split_r_hat(kept),
        step_size,
    )


def warn_of_steps(value: Float[Tensor, ""], error: Float[Tensor, ""], added: Float[Tensor, ""]) -> None:
    """Warns where a large share of the coefficient, which its error does not explain, is due to steps and batches."""
    if added > torch.maximum(MOST * value.abs(), error):
        warn(
            f"local_learning_coefficient: expected at most a third of the estimate to come from the size of the steps "
            f"and the noise of the batches, got {float(added):.3g} of {float(value):.3g}. Scale the targets of a "
            f"squared error to residuals of 1, or pass batch=len(x), or if it is that, a smaller step_size."
        )


def mean_and_error(values: Float[Tensor, "k"]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The mean, and half the width of its 95 % interval; NaN and infinity where they are undefined."""
    if len(values) < 2:
        return values.mean(), values.new_tensor(math.inf)
    return values.mean(), student(len(values) - 1) * values.std() / math.sqrt(len(values))
