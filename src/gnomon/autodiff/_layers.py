"""What goes into a layer."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from jaxtyping import Float
from torch import Tensor, nn

from gnomon.autodiff._graph import Graph, Model
from gnomon.autodiff._head import first_tensor, goes_on, linear_map
from gnomon.errors import RangeError, UnsupportedModuleError

WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""Layers that multiply a weight with each row, or each patch, of what they are given."""


def multiplies(layer: nn.Module) -> bool:
    """Whether a layer multiplies its weight with its input and does nothing else but add a bias.

    Not subclasses, nor a layer with a forward of its own, which may compute something else.
    """
    return type(layer) in WEIGHTED and "forward" not in vars(layer)


def weight_of(layer: nn.Module) -> Float[Tensor, "q *p"]:
    """What the layer multiplied with in its last pass: a parameter, or what pruning or another hook made of some."""
    weight: Tensor = layer.weight  # type: ignore[assignment]
    return weight.detach()


def layer_named(where: str, model: Model, layer: str) -> nn.Module:
    """The layer of this name.

    Raises:
        RangeError: if the network has no such layer.
    """
    modules = modules_of(model)
    if layer not in modules:
        names = ", ".join(name for name in modules if name)
        raise RangeError("layer", f"one of {names or 'no layers'}", repr(layer), "Choose one.", where=where)
    return modules[layer]


def modules_of(model: Model) -> dict[str, nn.Module]:
    """All parts by name; of a plain function none."""
    return dict(model.named_modules()) if isinstance(model, nn.Module) else {}


class Entered:
    """What went into a layer in the last forward pass; of a head, what the logits of that pass follow from."""

    def __init__(self, where: str, model: nn.Module, layer: nn.Module, *, head: bool) -> None:
        self.where = where
        self.model = model
        self.layer = layer
        self.head = head
        self.seen: list[Tensor] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks at every forward pass inside, and forgets the one before."""

        def note(layer: nn.Module, inputs: tuple[object, ...], named: dict[str, object], output: object) -> None:
            self.seen += first_tensor(inputs, named)

        with ExitStack() as stack:
            begin = self.model.register_forward_pre_hook(lambda model, inputs: self.seen.clear(), prepend=True)
            stack.callback(begin.remove)
            stack.callback(self.layer.register_forward_hook(note, with_kwargs=True).remove)
            yield

    def features(self, graph: Graph) -> Float[Tensor, "n *p"]:
        """The layer's input in the pass of this graph.

        Raises:
            UnsupportedModuleError: if the pass did not come to the layer, or a head did not put out the logits.
        """
        seen, self.seen = self.seen, []
        if not seen:
            raise UnsupportedModuleError(
                "layer",
                "a layer that the forward pass calls",
                "one that it does not",
                "Choose another.",
                where=self.where,
            )
        if len(graph.x) == 1:
            # A lone sample has run beside itself.
            seen = [given[: len(given) // 2] for given in seen]
        features = self._followed(seen, graph.logits) if self.head else seen[-1]
        return features if graph.create_graph else features.detach()

    def _followed(self, seen: list[Tensor], logits: Float[Tensor, "n c"]) -> Float[Tensor, "n p"]:
        """Of what the layer was given that from which the logits follow."""
        for given in reversed(seen):
            found = linear_map(self.layer, given[: len(logits)], logits)
            if found is not None:
                return found.features
        raise goes_on(self.where)


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal, where a network has diverged too."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())
