"""The features at convergence theorem: exact where training rests, layer by layer, and what it is of patches."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss, one_hot, unfold

from gnomon import Probe, fact_table, nfa_table
from gnomon.errors import EmptyError, RangeError
from gnomon.models import OneLayerTransformer, cnn, mlp

DECAY = 0.02


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rest(model, loss, x, labels):
    """To where the gradient of loss and weight decay is gone: nearly there, and the rest of the way by Newton's."""

    def objective(flat):
        sizes = [part.numel() for part in model.parameters()]
        named = zip(model.named_parameters(), flat.split(sizes), strict=True)
        outputs = torch.func.functional_call(model, {name: own.view_as(part) for (name, part), own in named}, x)
        return loss(outputs, labels) + DECAY / 2 * flat.square().sum()

    flat = nn.utils.parameters_to_vector(model.parameters()).detach().requires_grad_()
    optimizer = torch.optim.LBFGS([flat], max_iter=300, tolerance_change=0, line_search_fn="strong_wolfe")

    def closure():
        (flat.grad,) = torch.autograd.grad(value := objective(flat), flat)
        return value

    optimizer.step(closure)
    flat = flat.detach()
    for _ in range(3):
        hessian, gradient = torch.func.hessian(objective)(flat), torch.func.grad(objective)(flat)
        flat = flat - torch.linalg.solve(hessian, gradient)
    assert torch.func.grad(objective)(flat).abs().max() < 1e-14
    nn.utils.vector_to_parameters(flat, model.parameters())


LOSSES = {"cross_entropy": cross_entropy, "mse": lambda logits, labels: mse_loss(logits, one_hot(labels, 3).double())}


@pytest.mark.parametrize("loss", LOSSES)
def test_it_is_exact_where_training_rests(loss):
    """In float64; and not at the start, nor is the ansatz beside it, though that is close."""
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters()):
            parameter.copy_(drawn(*parameter.shape, seed=place))
    x = drawn(20, 4, seed=9)
    labels = x[:, :3].argmax(1)
    asked = partial(fact_table, weight_decay=DECAY, loss=loss)
    assert (asked(model, x, labels).residual > 0.1).all()
    rest(model, LOSSES[loss], x, labels)
    table = asked(model, x, labels)
    assert table.layers == ("0.weight", "2.weight")
    assert (table.residual < 1e-12).all()
    for correlation in (table.pearson, table.cosine, table.pearson_root):
        torch.testing.assert_close(correlation, torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-12)
    assert (nfa_table(model, x).pearson_root < 0.999).all()
    # With another weight decay than that of training only the correlations stay.
    other = fact_table(model, x, labels, weight_decay=3 * DECAY, loss=loss)
    torch.testing.assert_close(other.residual, torch.full((2,), 0.5, dtype=torch.float64))
    torch.testing.assert_close(other.pearson, table.pearson)
    without = fact_table(model, x, labels, weight_decay=0, loss=loss)
    torch.testing.assert_close(without.residual, torch.ones(2, dtype=torch.float64))
    assert all(part.grad is None for part in model.parameters())


def test_at_initialisation_it_says_nothing_of_the_weights_as_the_ansatz_does():
    model, x = mlp((64, 128, 128, 128, 10), generator=torch.Generator().manual_seed(0)), drawn(200, 64).float()
    table = fact_table(model, x, torch.arange(200) % 10, weight_decay=0.01)
    assert table.pearson.abs().max() < 0.1
    assert 0.5 < table.pearson_root.min() < table.pearson_root.max() < 0.95
    assert nfa_table(model, x).pearson_root.min() > 0.7


def test_of_a_convolution_it_is_the_sum_over_patches():
    model = cnn((2, 4, 5, 3)).double()
    x, labels = drawn(6, 2, 16, 16), torch.arange(6) % 3
    name, layer = next((name, part) for name, part in model.named_modules() if isinstance(part, nn.Conv2d))
    seen = {}
    handle = layer.register_forward_hook(lambda _, given, output: seen.update(given=given[0], output=output))
    loss = cross_entropy(model(x), labels)
    handle.remove()
    (behind,) = torch.autograd.grad(loss, seen["output"])
    settings = {"padding": layer.padding, "stride": layer.stride}
    patches = unfold(seen["given"], layer.kernel_size, **settings).transpose(1, 2).flatten(0, 1).detach()
    said = -(behind.flatten(2).transpose(1, 2).flatten(0, 1) @ layer.weight.flatten(1)).detach().T @ patches / DECAY
    gram = (layer.weight.flatten(1).T @ layer.weight.flatten(1)).detach()
    for memory in (None, 2**12):
        table = fact_table(model, x, labels, weight_decay=DECAY, memory=memory)
        place = table.layers.index(f"{name}.weight")
        expected = (gram - said).norm() / (gram.norm() + said.norm())
        torch.testing.assert_close(table.residual[place], expected)
        torch.testing.assert_close(table.cosine[place], (gram * said).sum() / (gram.norm() * said.norm()))


def all_four(gram, said):
    """The four numbers by their definitions."""
    values, vectors = torch.linalg.eigh(said @ said.T)
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    pearson = [torch.corrcoef(torch.stack([gram.flatten(), one.flatten()]))[0, 1] for one in (said, root)]
    cosine = torch.cosine_similarity(gram.flatten(), said.flatten(), 0)
    return torch.stack([(gram - said).norm() / (gram.norm() + said.norm()), pearson[0], cosine, pearson[1]])


def of(table, name):
    place = table.layers.index(name)
    return torch.stack([part[place] for part in (table.residual, table.pearson, table.cosine, table.pearson_root)])


class Words(nn.Module):
    """The embedding of three words and a linear layer; with vectors in place of words, their products with it."""

    def __init__(self, words, *, sparse=False):
        super().__init__()
        self.embedding, self.head = nn.Embedding(words, 2, sparse=sparse), nn.Linear(6, 3)
        self.double()

    def forward(self, words):
        vectors = words @ self.embedding.weight if words.is_floating_point() else self.embedding(words)
        return self.head(vectors.flatten(1).tanh())


@pytest.mark.parametrize("words", [4, 20])
@pytest.mark.parametrize("sparse", [True, False])
def test_of_an_embedding_it_is_of_the_words(words, sparse):
    """From the gradients with respect to one-hot vectors; 20 words are more than twice as many as its dimensions."""
    torch.manual_seed(0)
    model, labels = Words(words, sparse=sparse), torch.arange(30) % 3
    x = torch.randint(words, (30, 3))
    vectors = one_hot(x, words).double().requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(model(vectors), labels), vectors)
    said = -(gradient.flatten(0, 1).T @ vectors.detach().flatten(0, 1)) / DECAY
    weight = model.embedding.weight.detach()
    for memory in (None, 2**12):
        found = of(fact_table(model, x, labels, weight_decay=DECAY, memory=memory), "embedding.weight")
        torch.testing.assert_close(found, all_four(weight @ weight.T, said))


def test_a_vocabulary_is_not_squared():
    model, x = Words(10**6), torch.randint(10**6, (30, 3))
    assert fact_table(model, x, torch.arange(30) % 3, weight_decay=DECAY).residual[0] <= 1


@pytest.mark.parametrize("groups", [1, 2])
def test_of_a_transposed_convolution_it_is_of_its_pixels(groups):
    """Strides as large as the kernel; of groups the sum of each one's own, as for other convolutions."""
    layer = nn.ConvTranspose2d(4, 6, 2, stride=2, groups=groups, bias=False)
    model = nn.Sequential(layer, nn.Tanh(), nn.Flatten(), nn.Linear(6 * 36, 3)).double()
    x, labels = drawn(10, 4, 3, 3).requires_grad_(), torch.arange(10) % 3
    (gradient,) = torch.autograd.grad(cross_entropy(model(x), labels), x)
    pixels, pulls = (part.detach().movedim(1, -1).reshape(-1, groups, 4 // groups) for part in (x, gradient))
    said = -torch.einsum("igj,igk->jk", pulls, pixels) / DECAY
    weight = layer.weight.detach().unflatten(0, (groups, -1)).flatten(2)
    found = of(fact_table(model, x.detach(), labels, weight_decay=DECAY), "0.weight")
    torch.testing.assert_close(found, all_four(torch.einsum("gjp,gkp->jk", weight, weight), said))


@pytest.mark.parametrize("width", [5, 784])
def test_of_weights_that_are_all_alike_there_is_no_correlation_but_the_cosine(width):
    """Whatever the width: what rounding leaves of a constant matrix is no structure."""
    layer, x = nn.Linear(width, 1, bias=False).double(), drawn(9, width)
    for value in (0.1, 0.37, 1 / 3):
        nn.init.constant_(layer.weight, value)
        table = fact_table(layer, x, drawn(9, 1, seed=1), weight_decay=DECAY, loss="mse")
        assert table.pearson == table.pearson_root == 0
        assert table.cosine.abs() > 0


def test_of_a_wide_weight_it_is_what_it_is_of_others():
    layer, x, labels = nn.Linear(40, 3).double(), drawn(9, 40) + 0.5, torch.arange(9) % 3
    (gradient,) = torch.autograd.grad(cross_entropy(layer(x), labels), layer.weight)
    weight = layer.weight.detach()
    expected = all_four(weight.T @ weight, -weight.T @ gradient / DECAY)
    torch.testing.assert_close(of(fact_table(layer, x, labels, weight_decay=DECAY), "weight"), expected)


def test_weights_that_are_no_layer_s_are_read_in_a_probe():
    """All of a transformer's, and those alone that are trained."""
    generator = torch.Generator().manual_seed(0)
    model = OneLayerTransformer(6, 5, width=8, heads=2, hidden=16, generator=generator)
    model.W_E.requires_grad_(False)
    tokens = torch.cartesian_prod(torch.arange(5), torch.arange(5), torch.tensor([5]))
    x, labels = model.embed(tokens).detach(), tokens[:, :2].sum(1) % 5
    probe = Probe(model, (x, labels), [partial(fact_table, weight_decay=0.1)])
    read = probe.read()
    table = read.values["fact_table"]
    assert table.layers == ("W_pos", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "W_U")
    assert "fact_table.residual.max" in read.scalars()
    model.zero_grad()
    cross_entropy(model(x), labels).backward()
    for name, residual in zip(table.layers, table.residual, strict=True):
        weight = getattr(model, name)
        gram, said = weight.T @ weight, -weight.T @ weight.grad / 0.1
        expected = (gram - said).norm() / (gram.norm() + said.norm())
        torch.testing.assert_close(residual.float(), expected.detach(), rtol=1e-4, atol=1e-5)


def test_training_is_the_same_bit_for_bit_with_and_without():
    """Modes, running statistics, dropout's random numbers and gradients."""
    x, labels = drawn(12, 4).float(), torch.arange(12) % 3

    def trained(*, probed):
        torch.manual_seed(0)
        layers = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(6, 3)
        model = nn.Sequential(*layers)
        probe = Probe(model, (x, labels), [partial(fact_table, weight_decay=0.1)])
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        for step in range(3):
            optimizer.zero_grad()
            cross_entropy(model(x), labels).backward()
            if probed:
                probe(step)
            optimizer.step()
        assert model.training
        return [*model.state_dict().values(), *(part.grad for part in model.parameters()), torch.rand(1)]

    torch.testing.assert_close(trained(probed=True), trained(probed=False), rtol=0, atol=0)


def test_the_residual_is_one_where_both_pull_the_same_way_or_one_of_them_alone():
    layer = nn.Linear(2, 1, bias=False).double()
    nn.init.constant_(layer.weight, 0.5)
    x, target = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double(), torch.tensor([[-1.0], [-1.0]]).double()
    both = fact_table(layer, x, target, weight_decay=1.5, loss="mse")
    assert (both.residual.item(), both.cosine.item()) == pytest.approx((1, -1))
    alone = fact_table(layer, x, target, weight_decay=0, loss="mse")
    rest = fact_table(layer, x, torch.full((2, 1), 0.5).double(), weight_decay=1, loss="mse")
    assert alone.residual == rest.residual == 1


def test_of_one_row_the_root_is_the_weight_s_whatever_the_loss_says():
    model, x = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).double(), drawn(9, 4)
    table = fact_table(model, x, drawn(9, 1, seed=1), weight_decay=DECAY, loss="mse")
    torch.testing.assert_close(table.pearson_root[1], torch.tensor(1.0).double())
    assert table.pearson_root[0] < 0.99


def test_of_nothing_it_is_zero():
    layer = nn.Linear(3, 2, bias=False)
    nn.init.zeros_(layer.weight)
    table = fact_table(layer, torch.zeros(4, 3), torch.arange(4) % 2, weight_decay=1)
    assert [column.item() for column in (table.residual, table.pearson, table.cosine, table.pearson_root)] == [0.0] * 4


@pytest.mark.bad_input
def test_bad_input_is_named():
    model, x, labels = mlp((3, 4, 2)), torch.randn(5, 3), torch.arange(5) % 2
    with pytest.raises(RangeError, match=r"fact_table: expected weight_decay finite and at least 0, got -1"):
        fact_table(model, x, labels, weight_decay=-1)
    with pytest.raises(RangeError, match=r"fact_table\(labels\): expected classes 0 to 1, got 0 to 2"):
        fact_table(model, x, torch.arange(5) % 3, weight_decay=1)
    with pytest.raises(EmptyError, match=r"fact_table\(model\): expected a weight of two axes or more .*, got none"):
        fact_table(nn.BatchNorm1d(3).eval(), x, labels, weight_decay=1)
