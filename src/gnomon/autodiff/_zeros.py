"""Second derivatives that are zero, and need not be taken through the forward pass."""

from torch import Tensor

from gnomon.autodiff._tape import Tape, reached, sources

PIECEWISE = {
    f"{layer}BackwardBackward0"
    for layer in (
        *("Threshold", "LeakyRelu", "Hardtanh", "PreluKernel"),
        *("MaxPool2DWithIndices", "MaxPool3DWithIndices", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D"),
    )
}
"""The nodes of the gradient of a gradient of layers without curvature; the second they go to is the layer's input."""


def spare_zeros(tape: Tape, derivative: Tensor) -> None:
    """Lets what is computed from gradients of this tape go back past layers without curvature, such as ReLU.

    To the input of such a layer torch sends a tensor of zeros, which then goes back through the whole forward pass,
    product by product, where no other gradient goes along. Here nothing is sent.
    """
    start = [] if derivative.grad_fn is None else [derivative.grad_fn]
    for node in reached(start, lambda node: [source for source in sources(node) if source not in tape.uses]):
        if node.name() in PIECEWISE:
            node.register_hook(_without_zeros)


def _without_zeros(gradients: tuple[Tensor | None, ...], _: object) -> tuple[Tensor | None, ...]:
    return gradients[0], None, *gradients[2:]
