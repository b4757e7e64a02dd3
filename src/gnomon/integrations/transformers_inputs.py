"""Networks of the transformers library as maps from real numbers to logits, which is what a probe reads."""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from gnomon.errors import DataError, GnomonError, RangeError, UnsupportedModuleError, public, within
from gnomon.integrations._padding import padding_in
from gnomon.probe import in_eval_mode, whole

Network = Any
"""A network of the transformers library, typed as any callable: importing its class would take seconds."""
BATCH = 32
"""Texts that are compared at once."""
TOGETHER = 256
"""Texts that are embedded at once."""


class Logits(nn.Module):
    """A network of the transformers library, as a map from one of its inputs to its logits.

        Probe(Logits(model, "pixel_values"), (pixels, labels), [accuracy, centroid_alignment])

    Args:
        model: a network that returns something with `logits`, as an attribute or as a key.
        inputs: the name of the argument that is its input, such as `pixel_values`. With `input_ids` it is given an
            attention mask too, 0 where the `pad_token_id` of its configuration stands before or after a text; it warns
            where that token may be none. For derivatives in embeddings see `TextLogits`.
    """

    def __init__(self, model: Network, inputs: str) -> None:
        super().__init__()
        self.model: Network = model
        self.inputs = inputs

    def forward(self, x: Shaped[Tensor, "n *d"]) -> Float[Tensor, "n c"]:
        """The logits."""
        mask = {}
        if self._tokens and (padding := padding_in(self.model, x)).any():
            mask = {"attention_mask": (~padding).long()}
        return _logits(self.model(**{self.inputs: x}, **mask))

    @property
    def gnomon_padding(self) -> Callable[[Tensor], Tensor] | None:
        """Which places of tokens are padding, as `TextLogits` has it; None if the input is none."""
        return partial(padding_in, self.model) if self._tokens else None

    @property
    def _tokens(self) -> bool:
        return self.inputs == "input_ids"


class TextLogits(nn.Module):
    """A text network of the transformers library, as a map from the embeddings of its tokens to its logits.

    What the network adds to the embeddings, such as positions, it adds here too. Places whose embedding is zero are
    padding: no other place sees them, and the gradient there is zero. The mask is thus part of x, and goes where its
    samples go.

        tokens = tokenizer(texts, padding=True, return_tensors="pt")
        Probe(TextLogits(model), EmbeddedTexts(model, labels, **tokens), [accuracy, centroid_alignment])

    `EmbeddedTexts` embeds at each reading. `embeddings` gives x as a tensor: for one reading, or if the embeddings are
    not trained.

    The network is called with tokens, and x replaces their embeddings: called with `inputs_embeds`, a decoder would
    read its logits at the last place, padding or not.

    Args:
        model: a network for sequence classification, or a language model, of whose places a probe's `positions` says
            which are read.
    Raises:
        UnsupportedModuleError: if it lacks what networks of the library have, `get_input_embeddings` or `config`.
    """

    @within("TextLogits")
    def __init__(self, model: Network) -> None:
        _require_text_network(model)
        super().__init__()
        self.model: Network = model

    @property
    def gnomon_embedding(self) -> nn.Module:
        """What makes x of tokens: a probe warns if it is trained and x is a tensor, which does not follow."""
        embedding: nn.Module = self.model.get_input_embeddings()
        return embedding

    @within("TextLogits")
    def forward(self, x: Float[Tensor, "n t d"]) -> Float[Tensor, "n c"]:
        """The logits.

        Raises:
            UnsupportedModuleError: if the network does not call the embedding that it names.
        """
        there = ~self.gnomon_padding(x)
        padding = self.model.config.get_text_config().pad_token_id
        # Any tokens: all that matters is whether they are padding.
        tokens = torch.where(there, int(padding == 0), padding or 0)
        with embedding_replaced(self.model, x):
            return _logits(self.model(input_ids=tokens, attention_mask=there.long()))

    def gnomon_padding(self, x: Float[Tensor, "n t d"]) -> Bool[Tensor, "n t"]:
        """Which places are padding: a probe refuses to read a language model there."""
        return (x.detach() == 0).all(-1)


class EmbeddedTexts:
    """Texts as the samples of `TextLogits(model)`, embedded at each reading by the embeddings of that moment.

    In training, which changes the embeddings too, a tensor of them is soon no longer what the network sees.

        Probe(TextLogits(model), EmbeddedTexts(model, labels, **tokens), [accuracy, jacobian_norm], every(100))

    Args:
        model: the network, which `TextLogits` holds; it is not kept alive.
        labels: one per text (n,) or, for a language model, per token (n, t); None without labels.
        input_ids: the tokens, on any device.
        attention_mask: 0 at padding, 1 elsewhere; without one nothing is padding.
        others: other inputs that the network is given in training, such as `token_type_ids`.
    Raises:
        DataError, RangeError, UnsupportedModuleError: as `embeddings`, of the network as it is now.
    """

    @public
    def __init__(
        self,
        model: Network,
        labels: Tensor | None,
        input_ids: Int[Tensor, "n t"],
        attention_mask: Int[Tensor, "n t"] | None = None,
        **others: Tensor,
    ) -> None:
        device = next(model.parameters()).device
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        self.input_ids, self.attention_mask = input_ids.to(device), mask.to(device)
        others = {name: value.to(device) for name, value in others.items()}
        embeddings(model, self.input_ids, self.attention_mask, **others)
        self.model = weakref.ref(model)  # a probe looks for generators in all that its data hold
        self.labels = labels

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        """Batches of embeddings (n t d), with labels if there are any."""
        if (model := self.model()) is None:
            raise DataError("model", "a network that is still there", "one that is gone", "Keep a reference to it.")
        for start in range(0, len(self.input_ids), TOGETHER):
            rows = slice(start, start + TOGETHER)
            x = whole(model, partial(self._embedded, model, rows))
            yield (x,) if self.labels is None else (x, self.labels[rows])

    @torch.no_grad()
    def _embedded(self, model: Network, rows: slice) -> Float[Tensor, "n t d"]:
        device = model.get_input_embeddings().weight.device
        return _embedded(model, self.input_ids[rows].to(device), self.attention_mask[rows].to(device))


@contextmanager
def embedding_replaced(model: Network, x: Float[Tensor, "n t d"]) -> Iterator[None]:
    """Inside this context, the embedding of the tokens outputs x."""
    calls: list[nn.Module] = []

    def replace(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        calls.append(module)
        return x

    handle = model.get_input_embeddings().register_forward_hook(replace)
    try:
        yield
    finally:
        handle.remove()
    if not calls:
        raise UnsupportedModuleError(
            "model",
            "a network that calls the embedding it names",
            f"{type(model).__name__}, which does not",
            "Wrap what follows the embedding in a module of your own.",
        )


@public
def embeddings(
    model: Network, input_ids: Int[Tensor, "n t"], attention_mask: Int[Tensor, "n t"] | None = None, **others: Tensor
) -> Float[Tensor, "n t d"]:
    """The embeddings of tokens, zero at padding: the samples at which to read `TextLogits(model)`.

    These are the network's current embeddings, and they stay fixed while it trains: `EmbeddedTexts` follows it.

    Args:
        model: the classifier.
        input_ids: the tokens.
        attention_mask: 0 at padding, 1 elsewhere; without one nothing is padding.
        others: other inputs that the network is given in training, such as `token_type_ids`.
    Raises:
        DataError: if the logits at these embeddings are not those at the tokens: something other than embeddings and
            padding matters, such as which of two texts a token is in.
        RangeError: if an embedding that is not padding is zero.
        UnsupportedModuleError: if the network cannot work without tokens.
    Cost: two forward passes.
    """
    _require_text_network(model)
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    given = {name: value for name, value in {"attention_mask": attention_mask, **others}.items() if value is not None}

    def checked() -> Tensor:
        x = _embedded(model, input_ids, mask)
        if not torch.equal((x != 0).any(2), mask.bool()):
            raise RangeError(
                "attention_mask",
                "embeddings other than zero where there is no padding",
                "a zero one",
                "Mask it, or start its embedding elsewhere.",
            )
        for start in range(0, len(x), BATCH):
            rows = slice(start, start + BATCH)
            wanted = _logits(model(input_ids=input_ids[rows], **{name: value[rows] for name, value in given.items()}))
            found = _read(model, x[rows])
            if wanted.ndim == 3 and wanted.shape[:2] == mask[rows].shape:
                there = mask[rows].bool()  # those at padding, which nothing reads, may differ
                found, wanted = found[there], wanted[there]
            apart = (found - wanted).abs().max()
            if not apart <= torch.finfo(wanted.dtype).eps ** 0.5 * wanted.abs().max():
                raise DataError(
                    "model",
                    "logits that follow from embeddings and padding",
                    f"others at the tokens, by up to {apart.item():.1g}",
                    "Give one text per sample, with nothing but its mask.",
                )
        return x

    return whole(model, lambda: in_eval_mode(model, checked)[0])


def _embedded(model: Network, input_ids: Int[Tensor, "n t"], mask: Int[Tensor, "n t"]) -> Float[Tensor, "n t d"]:
    """The embeddings, zero at padding."""
    x: Tensor = model.get_input_embeddings()(input_ids) * mask.unsqueeze(2)
    return x


def _logits(outputs: Any) -> Tensor:  # noqa: ANN401 - a dictionary, or a class of the library
    """The logits in what a network returns."""
    return outputs["logits"] if isinstance(outputs, Mapping) else outputs.logits


def _require_text_network(model: Network) -> None:
    """Raises unless the network says what its embedding and its padding are."""
    for name in ("get_input_embeddings", "config"):
        if not hasattr(model, name):
            raise UnsupportedModuleError(
                "model",
                "a text network of the transformers library",
                f"{type(model).__name__}, which has no {name}",
                "Wrap what follows the embedding in a module of your own, and read it at the embeddings.",
            )


def _read(model: Network, x: Float[Tensor, "n t d"]) -> Float[Tensor, "n c"]:
    """The logits at embeddings, or an error that says what keeps this network from giving them."""
    try:
        return TextLogits(model)(x)
    except GnomonError:
        raise
    except Exception as cause:  # whatever the user's network raises
        raise UnsupportedModuleError(
            "model",
            "a network that gives logits without its tokens",
            f"{type(model).__name__}, which says {type(cause).__name__}: {cause}",
            "Wrap what is behind its embedding in a module of your own.",
        ) from cause
