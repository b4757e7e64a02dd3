"""What a network puts out, if it is not logits."""

from jaxtyping import Float
from torch import Tensor

from gnomon._warn import warn
from gnomon.measure import log_probability, training_loss
from gnomon.probe._plan import Plan

WITH_SOFTMAX = (log_probability, training_loss)
"""What takes a softmax of the logits, where no other loss is bound."""
CLOSE = 1e-4
"""How near to 1 probabilities sum, in float32."""


def warn_of_probabilities(plan: Plan, logits: object) -> None:
    """Says so where the outputs are probabilities, of which a function of logits takes a softmax once more."""
    again = [name for name, quantity in plan.quantities.items() if quantity in WITH_SOFTMAX]
    if again and isinstance(logits, Tensor) and (kind := normalised(logits)) and logits.min() >= 0:
        warn(
            f"Probe(model): expected logits, got {kind}; {' and '.join(again)} would take a softmax of them again. "
            f"Let the network end before its softmax.",
            UserWarning,
        )


def normalised(outputs: Float[Tensor, "n *c"]) -> str | None:
    """The kind of outputs that are not logits: probabilities, or their logarithms; None if neither."""
    axis = of_classes(outputs)
    if outputs.shape[axis] < 2 or not outputs.is_floating_point():
        return None
    values = outputs.detach().cpu().double()  # which not every accelerator has
    if values.min() >= 0 and ((values.sum(axis) - 1).abs() < CLOSE).all():
        return "probabilities, as a softmax puts them out"
    if values.max() <= 0 and (values.logsumexp(axis).abs() < CLOSE).all():
        return "logarithms of probabilities, as log_softmax puts them out"
    return None


def of_classes(outputs: Tensor) -> int:
    """The axis of the classes: the last, but for images the second."""
    return 1 if outputs.ndim == 4 else -1
