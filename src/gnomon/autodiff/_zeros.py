"""Second derivatives that are zero, and need not be propagated through the forward pass."""

from torch import Tensor

from gnomon.autodiff._tape import Tape, reached, sources

PIECEWISE = {
    f"{layer}BackwardBackward0"
    for layer in (
        *("Threshold", "LeakyRelu", "Hardtanh", "PreluKernel"),
        *("MaxPool2DWithIndices", "MaxPool3DWithIndices", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D"),
    )
}
"""The double-backward nodes of layers without curvature; the second edge of each leads to the layer's input."""


def spare_zeros(tape: Tape, derivative: Tensor) -> None:
    """Keeps the zero second derivatives of layers such as ReLU out of backward passes through this tape's gradients.

    Torch sends a tensor of zeros to the input of a layer without curvature, which is then propagated back through the
    complete forward pass, product by product, even where there is no other gradient. Here nothing is sent.
    """
    start = [] if derivative.grad_fn is None else [derivative.grad_fn]
    for node in reached(start, lambda node: [source for source in sources(node) if source not in tape.uses]):
        if node.name() in PIECEWISE:
            node.register_hook(_without_zeros)


def _without_zeros(gradients: tuple[Tensor | None, ...], _: object) -> tuple[Tensor | None, ...]:
    return gradients[0], None, *gradients[2:]
