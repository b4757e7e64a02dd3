"""What a network outputs, if it is not logits."""

from jaxtyping import Float
from torch import Tensor

from gnomon._warn import warn
from gnomon.measure import (
    centroid_influence,
    centroid_rate,
    layer_centroids,
    log_probability,
    nfa_table,
    ntk,
    ntk_to_point,
    robust_radius,
    singular_values,
    training_loss,
)
from gnomon.probe._derived import unbound
from gnomon.probe._plan import Plan

WITH_SOFTMAX = (log_probability, training_loss)
"""What takes a softmax of the logits, where no other loss is bound."""
OF_JACOBIAN = {"agop", "centroid", "jacobian", "jacobian_operator"}
"""What is requested by what looks at derivatives of the outputs."""
DIFFERENTIATE = (centroid_influence, centroid_rate, layer_centroids, nfa_table, ntk, ntk_to_point, singular_values)
"""What takes derivatives of the outputs itself."""
PROBABILITIES = "probabilities, as a softmax gives"
LOGARITHMS = "logarithms of probabilities, as log_softmax gives"
CLOSE = 1e-4
"""How near to 1 probabilities sum, in float32."""


def of_jacobian(plan: Plan) -> list[str]:
    """The names of what looks at derivatives of the outputs."""
    return [
        name
        for name, quantity in plan.quantities.items()
        if not OF_JACOBIAN.isdisjoint(plan.arguments[name].values()) or unbound(quantity) in DIFFERENTIATE
    ]


def warn_of_probabilities(plan: Plan, logits: object) -> None:
    """Says so where the outputs are not logits, and something read takes them for logits, or derives them."""
    if not isinstance(logits, Tensor) or (kind := normalised(logits)) is None:
        return
    logarithms = kind == LOGARITHMS
    again = [name for name, quantity in plan.quantities.items() if quantity in WITH_SOFTMAX and not logarithms]
    # Differences of logits, and so the radius, are those of their log_softmax.
    other = [name for name in of_jacobian(plan) if not (logarithms and unbound(plan.quantities[name]) is robust_radius)]
    wrong = [f"{', '.join(again)} would take a softmax of them again"] if again else []
    wrong += [f"{', '.join(other)} would be of these, and differ from those of logits"] if other else []
    if wrong:
        warn(
            f"Probe(model): expected logits, got {kind}; {'; '.join(wrong)}. Let the network end before its "
            f"{'log_softmax' if logarithms else 'softmax'}: cross_entropy takes that itself.",
            UserWarning,
        )


def normalised(outputs: Float[Tensor, "n *c"]) -> str | None:
    """The kind of outputs that are not logits: probabilities, or their logarithms; None if neither."""
    axis = of_classes(outputs)
    if outputs.shape[axis] < 2 or not outputs.is_floating_point():
        return None
    values = outputs.detach().cpu().double()  # which not every accelerator has
    if values.min() >= 0 and ((values.sum(axis) - 1).abs() < CLOSE).all():
        return PROBABILITIES
    # The class that (0, z), the outputs of a binary classifier, begin with has logit 0 whatever z is.
    reference = (values == 0).all(0).any()
    if values.max() <= 0 and not reference and (values.logsumexp(axis).abs() < CLOSE).all():
        return LOGARITHMS
    return None


def of_classes(outputs: Tensor) -> int:
    """The axis of the classes: the last, but for images the second."""
    return 1 if outputs.ndim == 4 else -1
