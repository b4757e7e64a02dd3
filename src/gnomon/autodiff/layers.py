"""What goes into a layer, and above all into the linear layer at the end."""

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import Float
from torch import Tensor, nn

from gnomon.autodiff.graph import Graph, Model
from gnomon.errors import RangeError, UnsupportedModuleError


def linear_head(where: str, model: Model) -> nn.Linear:
    """The last linear layer of a network, by the order in which its parts were made.

    Raises:
        UnsupportedModuleError: if there is none.
    """
    layers = [module for module in modules_of(model).values() if isinstance(module, nn.Linear)]
    if not layers:
        raise UnsupportedModuleError(
            f"{where}(model): expected a network with a linear layer at its end, got {type(model).__name__} without "
            f"one. Name the layer whose input is meant."
        )
    return layers[-1]


def layer_named(where: str, model: Model, layer: str | None) -> nn.Module:
    """The layer of this name, the linear head if there is none given.

    Raises:
        RangeError: if the network has no such layer.
        UnsupportedModuleError: if no name is given, and the network has no linear layer.
    """
    if layer is None:
        return linear_head(where, model)
    modules = modules_of(model)
    if layer not in modules:
        names = ", ".join(name for name in modules if name)
        raise RangeError(f"{where}(layer): expected one of {names or 'no layers'}, got {layer!r}. Choose one.")
    return modules[layer]


def modules_of(model: Model) -> dict[str, nn.Module]:
    """All parts by name; of a plain function none."""
    return dict(model.named_modules()) if isinstance(model, nn.Module) else {}


class Entered:
    """What went into a layer in the last forward pass."""

    def __init__(self, where: str, layer: nn.Module, *, head: bool) -> None:
        self.where = where
        self.layer = layer
        self.head = head
        self.seen: tuple[Tensor, object] | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks at every forward pass inside."""

        def hook(layer: nn.Module, inputs: tuple[Tensor, ...], output: object) -> None:
            self.seen = inputs[0], output

        handle = self.layer.register_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()

    def features(self, graph: Graph) -> Float[Tensor, "n *p"]:
        """The layer's input in the pass of this graph.

        Raises:
            UnsupportedModuleError: if the pass did not come to the layer, or a head did not put out the logits.
        """
        if self.seen is None:
            raise UnsupportedModuleError(
                f"{self.where}(layer): expected a layer that the forward pass calls, got one that it does not. "
                f"Choose another."
            )
        (features, output), self.seen = self.seen, None
        if self.head and not (isinstance(output, Tensor) and same(output, graph.logits)):
            raise UnsupportedModuleError(
                f"{self.where}(model): expected a network whose last linear layer puts out the logits, got one that "
                f"goes on behind it. Name the layer whose input is meant."
            )
        return features if graph.create_graph else features.detach()


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal, where a network has diverged too."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())
