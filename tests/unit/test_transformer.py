"""The one-layer transformer: the same by PyTorch's own attention, twice differentiable, and penalised through."""

import math

import pytest
import torch
from torch.nn import functional

from gnomon import GrokAlign, Probe, centroid_alignment, input_jacobian, jacobian_norm
from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.models import OneLayerTransformer


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def tiny(tokens=6, outputs=5, width=4, heads=2, hidden=7, seed=0):
    """In float64, with biases that are not zero."""
    sizes = {"width": width, "heads": heads, "hidden": hidden}
    model = OneLayerTransformer(tokens, outputs, **sizes, generator=seeded(seed)).double()
    for bias in (model.b_in, model.b_out):
        torch.nn.init.normal_(bias, generator=seeded(seed + 1))
    return model


def some_tokens(n=4, tokens=6):
    return torch.randint(tokens, (n, 3), generator=seeded(2))


def by_the_book(model, tokens):
    """One sequence at a time, all places, causal mask, fused attention: what the last place says."""
    heads, width = model.heads, len(model.W_Q)
    rows = []
    for sequence in tokens.tolist():
        x = torch.stack([model.W_E[token] + model.W_pos[place] for place, token in enumerate(sequence)])
        query, key, value = (
            (x @ weight.T).reshape(len(x), heads, width // heads).transpose(0, 1)
            for weight in (model.W_Q, model.W_K, model.W_V)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + mixed.transpose(0, 1).reshape(len(x), width) @ model.W_O.T
        x = x + functional.linear(
            functional.relu(functional.linear(x, model.W_in, model.b_in)), model.W_out, model.b_out
        )
        rows.append((x @ model.W_U.T)[-1])
    return torch.stack(rows)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_it_is_a_causal_transformer_read_at_the_last_token(heads):
    model, tokens = tiny(heads=heads), some_tokens()
    torch.testing.assert_close(model(model.embed(tokens)), by_the_book(model, tokens))
    assert model.embed(tokens).shape == (4, 3, 4)


def test_of_tokens_is_the_same_network():
    model, tokens = tiny(), some_tokens(20)
    targets = torch.randn(20, 5, generator=seeded(3)).double()
    found = {}
    for name, outputs in (("tokens", model.of_tokens(tokens)), ("embeddings", model(model.embed(tokens)))):
        gradients = torch.autograd.grad((outputs * targets).sum(), [*model.parameters()])
        found[name] = (outputs, *gradients)
    torch.testing.assert_close(found["tokens"], found["embeddings"], rtol=1e-12, atol=1e-12)


def test_weights_are_drawn_as_in_the_source():
    model = OneLayerTransformer(114, 113, generator=seeded())
    again = OneLayerTransformer(114, 113, generator=seeded())
    for (name, parameter), (_, same) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        torch.testing.assert_close(parameter, same, rtol=0, atol=0)
        if name.startswith("b_"):
            assert not parameter.any()
        else:
            deviation = 1 / math.sqrt(113 if name == "W_U" else 128)
            assert parameter.std().item() == pytest.approx(deviation, rel=5 / math.sqrt(2 * parameter.numel()))


def test_it_has_second_derivatives():
    model = tiny()
    # Softplus in place of ReLU would test no more: away from its kinks ReLU is smooth.
    x = model.embed(some_tokens(2)).detach().requires_grad_()
    assert torch.autograd.gradcheck(model, x)
    assert torch.autograd.gradgradcheck(model, x)


@pytest.mark.parametrize("estimator", ["exact", "projection"])
@pytest.mark.parametrize("learned", [True, False])
def test_gradients_of_loss_and_penalty_reach_the_embedding(estimator, learned):
    """Against central differences, the embeddings a node of the graph (learned) or a leaf (fixed)."""
    model, tokens, labels = tiny(), some_tokens(), torch.tensor([0, 3, 1, 4])
    fixed = {} if learned else {"W_E", "W_U"}
    parameters = {name: p for name, p in model.named_parameters() if name not in fixed}
    untouched = model.embed(tokens).detach()

    def objective():
        x = model.embed(tokens) if learned else untouched
        logits, penalty = GrokAlign(0.7, estimator, generator=seeded(4)).logits_and_penalty(model, x)
        return functional.cross_entropy(logits, labels) + penalty

    torch.autograd.backward(objective(), inputs=list(parameters.values()))
    assert {name for name, p in model.named_parameters() if p.grad is not None} == set(parameters)
    for number, parameter in enumerate(parameters.values()):
        direction = torch.randn(parameter.shape, generator=seeded(number), dtype=torch.float64)
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter += sign * 1e-6 * direction
            values.append(objective().item())
            with torch.no_grad():
                parameter -= sign * 1e-6 * direction
        slope = (parameter.grad * direction).sum().item()
        assert slope == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-6, abs=1e-8)


def test_probes_look_from_the_embeddings():
    model, tokens = tiny(), some_tokens()
    x = model.embed(tokens).detach()
    values = Probe(model, x, [centroid_alignment, jacobian_norm]).read().values
    jacobian = torch.autograd.functional.jacobian(model, x).diagonal(dim1=0, dim2=2).permute(3, 0, 1, 2)
    torch.testing.assert_close(input_jacobian(model, x), jacobian)
    torch.testing.assert_close(values["jacobian_norm"], jacobian.flatten(1).norm(dim=1))
    cosines = torch.cosine_similarity(jacobian.sum(1).flatten(1), x.flatten(1))
    torch.testing.assert_close(values["centroid_alignment"], cosines)


def test_sizes_are_checked():
    with pytest.raises(RangeError, match="OneLayerTransformer: expected hidden a whole number of at least 1, got 0"):
        OneLayerTransformer(3, 2, hidden=0)
    with pytest.raises(RangeError, match=r"OneLayerTransformer\(heads\): expected a divisor of the width, 6, got 4"):
        OneLayerTransformer(3, 2, width=6)


@pytest.mark.bad_input
@pytest.mark.parametrize("sizes", [{"heads": 2.0}, {"tokens": 6.5}, {"width": "8"}])
def test_sizes_are_whole(sizes):
    ((name, size),) = sizes.items()
    with pytest.raises(
        RangeError, match=rf"OneLayerTransformer: expected {name} a whole number of at least 1, got {size!r}"
    ):
        OneLayerTransformer(**({"tokens": 6, "outputs": 5, "width": 8} | sizes))


@pytest.mark.parametrize("shape", [(5, 1, 4), (5, 2, 4), (5, 4, 4), (5, 3, 1), (5, 3, 8), (5, 12)])
@pytest.mark.bad_input
def test_embeddings_of_another_shape_are_refused(shape):
    says = rf"OneLayerTransformer.forward\(embeddings\): expected shape \(n, 3, 4\), got \({shape[0]}, "
    with pytest.raises(ShapeError, match=says):
        tiny()(torch.zeros(shape, dtype=torch.float64))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        (torch.tensor([[-1, 0, 1]]), "expected those from 0 to 5, got -1 to 1"),
        (torch.tensor([[0, 6, 1]]), "expected those from 0 to 5, got 0 to 6"),
        (torch.ones(6, dtype=torch.bool), "expected a tensor of real numbers, got torch.bool"),
        (torch.ones(2, 3), "expected whole numbers, got torch.float32"),
    ],
)
def test_tokens_are_whole_numbers_of_the_vocabulary(tokens, says):
    with pytest.raises(RangeError, match=rf"OneLayerTransformer.embed\(tokens\): {says}"):
        tiny().embed(tokens)


@pytest.mark.bad_input
def test_tokens_are_rows():
    tokens = some_tokens()
    with pytest.raises(
        ShapeError, match=r"OneLayerTransformer.embed\(tokens\): expected two axes, got shape \(1, 4, 3\)"
    ):
        tiny().embed(tokens[None])
    with pytest.raises(ShapeError, match=r"OneLayerTransformer.embed\(tokens\): expected at least 2 axes"):
        tiny().embed(tokens[0])
    with pytest.raises(EmptyError, match=r"OneLayerTransformer.embed\(tokens\): expected at least one sample"):
        tiny().embed(tokens[:0])
    with pytest.raises(
        ShapeError, match=r"OneLayerTransformer.of_tokens\(tokens\): expected shape \(n, 3\), got \(4, 2\)"
    ):
        tiny().of_tokens(tokens[:, :2])
    with pytest.raises(RangeError, match=r"OneLayerTransformer.of_tokens\(tokens\): expected those from 0 to 5, got"):
        tiny().of_tokens(tokens + 6)


def test_tokens_of_any_whole_dtype():
    model, tokens = tiny(), torch.tensor([[1, 0, 1], [5, 2, 5]])
    for dtype in (torch.uint8, torch.int8, torch.int32):
        assert model.embed(tokens.to(dtype)).equal(model.W_E[tokens])
    # As a mask to index by, this would give a vector of 24 numbers.
    assert model.embed(torch.ones(6, 4, dtype=torch.uint8)).equal(model.W_E[1].expand(6, 4, 4))
