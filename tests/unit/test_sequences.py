"""Logits at several positions of a sample: language models, and networks that segment images."""

import functools
import re

import pytest
import torch
from torch import nn

import gnomon
from gnomon import Probe, accuracy, class_moments
from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.probe import unavailable
from tests.drawn import normal

N, T, D, C, P = 12, 5, 4, 6, 7


class Language(nn.Module):
    """Each position sees those up to it; (n t d) to (n t c)."""

    def __init__(self):
        super().__init__()
        self.mix = nn.GRU(D, P, batch_first=True)
        self.body = nn.Sequential(nn.Linear(P, P), nn.Tanh())
        self.head = nn.Linear(P, C)

    def hidden(self, x):
        return self.body(self.mix(x)[0])

    def forward(self, x):
        return self.head(self.hidden(x))


class AtOne(nn.Module):
    """The logits at one position, as anyone would write it."""

    def __init__(self, model, place):
        super().__init__()
        self.model, self.place = model, place

    def forward(self, x):
        return self.model(x)[:, self.place]


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Language().double()


@pytest.fixture
def labels():
    found = torch.arange(N * T).view(N, T) % C
    return found.masked_fill(normal(N, T, seed=1) > 0.8, -100)


@pytest.mark.unchecked  # labels are declared as signed
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
def test_bytes_are_labels_of_which_none_is_ignored(dtype):
    """In uint8 -100 would be 156, and 256 classes none."""
    x, labels = torch.eye(256), torch.arange(256, dtype=dtype)
    layer = nn.Linear(256, 256)
    sequences = nn.Sequential(nn.Unflatten(1, (1, 256)), layer)
    assert Probe(layer, (x, labels), [accuracy]).read().values["accuracy"].shape == (256,)
    reading = Probe(sequences, (x, labels[:, None]), [accuracy], positions="all").read()
    assert reading.values["accuracy"].shape == (256,)


COLLAPSE = [gnomon.nc1, gnomon.nc1_trace_ratio, gnomon.equinorm, gnomon.maximal_equiangularity, gnomon.nc2_etf]
OF_ROWS = [accuracy, *COLLAPSE, gnomon.self_duality, gnomon.nearest_mean_disagreement]


def expected_of(model, hidden, labels):
    """Of rows of hidden states and their labels."""
    logits = model.head(hidden)
    moments = class_moments(hidden, labels, C)
    found = {each.__name__: each(moments) for each in COLLAPSE[:2]}
    found |= {each.__name__: each(moments.centred_means) for each in COLLAPSE[2:4]}
    found["nc2_etf"] = gnomon.nc2_etf(moments.means)
    found["accuracy"] = accuracy(logits, labels)
    found["self_duality"] = gnomon.self_duality(model.head.weight, moments)
    found["nearest_mean_disagreement"] = gnomon.nearest_mean_disagreement(hidden, logits, moments)
    return found


def as_loader(x, labels, size):
    return [*zip(x.split(size), labels.split(size), strict=True)]


@pytest.mark.parametrize("form", ["tensors", "batches", "chunks"])
@pytest.mark.parametrize("places", ["all", [1, -1]])
def test_all_positions_with_a_label_are_samples(model, labels, places, form):
    x = normal(N, T, D)
    data = as_loader(x, labels, 5) if form == "batches" else (x, labels)
    memory = 10_000 if form == "chunks" else None
    found = Probe(model, data, OF_ROWS, positions=places, memory=memory).read().values
    taken = slice(None) if places == "all" else places
    there = labels[:, taken] != -100
    assert 0 < there.sum() < there.numel()
    with torch.no_grad():
        expected = expected_of(model, model.hidden(x)[:, taken][there], labels[:, taken][there])
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)


def test_positions_of_one_label_all(model):
    x, labels = normal(N, T, D), torch.arange(N * T).view(N, T) % C
    found = Probe(model, (x, labels), [accuracy, gnomon.nc1], positions="all").read().values
    expected = expected_of(model, model.hidden(x).flatten(0, 1).detach(), labels.flatten())
    torch.testing.assert_close(found["accuracy"], expected["accuracy"])
    assert found["accuracy"].shape == (N * T,)
    torch.testing.assert_close(found["nc1"], expected["nc1"])


@pytest.mark.parametrize(("places", "place"), [("last", -1), (1, 1), (-2, -2)])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.filterwarnings("ignore:.* classes without samples")
def test_one_position_is_read_as_any_network_is(model, labels, places, place, whole):
    x = normal(N, T, D)
    quantities = [*OF_ROWS, gnomon.centroid_alignment, gnomon.jacobian_alignment, gnomon.jacobian_norm]
    quantities += [gnomon.explained_variance_ratio, gnomon.effective_rank, gnomon.ntk]
    its = labels[:, place]
    there = its != -100
    data = (x, labels) if whole else (x[there], its[there])
    found = Probe(model, data, quantities, positions=places).read()
    assert found == Probe(AtOne(model, place), (x[there], its[there]), quantities).read()
    jacobian = gnomon.input_jacobian(AtOne(model, place), x[there])
    assert jacobian.shape[1:] == (C, T, D)
    torch.testing.assert_close(found.values["jacobian_norm"], gnomon.jacobian_norm(jacobian))


class AllAtOnce(nn.Module):
    """The way that the error about several positions names: a text is one sample."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).flatten(1)


def of_all_positions(outputs, labels):
    return nn.functional.cross_entropy(outputs.unflatten(1, (T, C)).mT, labels, reduction="none").mean(1)


def test_all_positions_at_once_are_the_whole_loss_and_all_logits(model):
    x, labels = normal(N, T, D), torch.arange(N * T).view(N, T) % C
    asked = {"batch_gradients": functools.partial(gnomon.batch_gradients, loss=of_all_positions)}
    asked |= {"gradient_norm": gnomon.gradient_norm, "jacobian_norm": gnomon.jacobian_norm}
    asked["curvature"] = functools.partial(gnomon.hessian_trace, loss=of_all_positions, rtol=0.01, passes=4000)
    found = Probe(AllAtOnce(model), (x, labels), asked).read().values
    weights = {name: weight.detach() for name, weight in model.named_parameters()}

    def loss(*values):
        logits = torch.func.functional_call(model, dict(zip(weights, values, strict=True)), (x,))
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    values = tuple(weight.requires_grad_() for weight in weights.values())
    gradient = torch.cat([part.flatten() for part in torch.autograd.grad(loss(*values), values)])
    torch.testing.assert_close(found["gradient_norm"], gradient.norm())
    rows = torch.autograd.functional.hessian(loss, values)
    blocks = [rows[i][i].reshape(each.numel(), each.numel()) for i, each in enumerate(values)]
    trace = sum(block.trace() for block in blocks)
    torch.testing.assert_close(found["curvature"].value, trace, rtol=0.05, atol=0)
    jacobian = torch.stack([torch.autograd.functional.jacobian(model, each[None])[0, :, :, 0] for each in x])
    torch.testing.assert_close(found["jacobian_norm"], jacobian.flatten(1).norm(dim=1))


def test_one_position_of_many_outputs_goes_by_products():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(D, 16), nn.Tanh(), nn.Linear(16, 200)).double()
    x = normal(4, T, D)
    found = Probe(model, x, [gnomon.jacobian_norm], positions="last").read().values["jacobian_norm"]
    exact = gnomon.jacobian_norm(gnomon.input_jacobian(AtOne(model, -1), x))
    assert isinstance(found, gnomon.Estimate)
    assert ((found.value - exact).abs() < 0.1 * exact).all()


@pytest.mark.parametrize("places", ["all", "last"])
def test_a_layer_that_is_named_is_read_at_the_same_positions(model, places):
    x, labels = normal(N, T, D), torch.arange(N * T).view(N, T) % C
    taken = slice(None) if places == "all" else [-1]
    found = Probe(model, (x, labels), [gnomon.nc1], positions=places, layers=["body.0", "head"]).read().values
    states = {"body.0": model.mix(x)[0].detach(), "head": model.hidden(x).detach()}
    for layer, state in states.items():
        moments = class_moments(state[:, taken].flatten(0, 1), labels[:, taken].flatten(), C)
        torch.testing.assert_close(found[f"{layer}/nc1"], gnomon.nc1(moments))


@pytest.mark.parametrize("own", [True, lambda tokens, pad: tokens == pad])
def test_a_networks_own_is_padding_is_its_own_affair(model, own):
    """An attribute or a method of any kind: a probe asks `gnomon_padding`, a name that nobody else uses."""
    x, asked = normal(N, T, D), {"seen": lambda logits: logits}
    model.is_padding = own
    found = Probe(model, x, asked, positions="last").read().values["seen"]
    torch.testing.assert_close(found, model(x)[:, -1].detach())
    model.gnomon_padding = lambda x: torch.ones(x.shape[:2], dtype=torch.bool)
    with pytest.raises(RangeError, match=rf"expected tokens at the positions .* got padding in {N} of {N}\."):
        Probe(model, x, asked, positions="last")


def test_images_that_are_segmented():
    """Outputs (n c h w), labels (n h w), the classifier a convolution of single pixels."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, P, 3, padding=1), nn.Tanh(), nn.Conv2d(P, C, 1)).double()
    x, labels = normal(N, 2, 3, 4), torch.arange(N * 12).view(N, 3, 4) % C
    labels[0, 1] = -100
    found = Probe(model, (x, labels), [accuracy, gnomon.nc1, gnomon.self_duality], positions="all").read().values
    there = labels != -100
    hidden = model[:2](x).movedim(1, -1)[there].detach()
    moments = class_moments(hidden, labels[there], C)
    torch.testing.assert_close(found["nc1"], gnomon.nc1(moments))
    torch.testing.assert_close(found["self_duality"], gnomon.self_duality(model[2].weight.detach().flatten(1), moments))
    right = model(x).argmax(1) == labels
    torch.testing.assert_close(found["accuracy"], right[there].double())


class Swapped(nn.Module):
    """A convolution, then channels last: a norm, and linear layers."""

    def __init__(self, convolution, width):
        super().__init__()
        self.first, self.second = (convolution(k, width, 3, padding=1) for k in (2, width))
        self.norm, self.body, self.head = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, C)
        self.double()

    def forward(self, x):
        rows = self.second(self.first(x).tanh()).movedim(1, -1)
        outputs = self.head(self.body(self.norm(rows)).tanh())
        return outputs if x.ndim == 3 else outputs.movedim(-1, 1)


@pytest.mark.parametrize(("convolution", "sides"), [(nn.Conv1d, [4]), (nn.Conv2d, [4, 4])])
@pytest.mark.parametrize("width", [4, 5])
def test_channels_are_told_from_as_many_positions_by_the_layer(convolution, sides, width):
    model, x, given = Swapped(convolution, width), normal(N, 2, *sides), {}
    for name in ("second", "body", "head"):
        layer = model.get_submodule(name)
        layer.register_forward_pre_hook(lambda _, inputs, name=name: given.update({name: inputs[0].detach()}))
    model(x)
    given["second"] = given["second"].movedim(1, -1)
    expected = {name: rows.flatten(0, -2).norm(dim=1) for name, rows in given.items()}
    found = Probe(model, x, [gnomon.feature_norm], positions="all", layers=list(expected)).read().values
    for name, norms in expected.items():
        torch.testing.assert_close(found[f"{name}/feature_norm"], norms)
    of_head = Probe(model, x, [gnomon.feature_norm], positions="all").read().values["feature_norm"]
    torch.testing.assert_close(of_head, expected["head"])


@pytest.mark.bad_input
def test_channels_that_may_be_positions_are_refused():
    model = Swapped(nn.Conv2d, 4)
    with pytest.raises(ShapeError, match="linear or a convolution if it has as many channels"):
        Probe(model, normal(N, 2, 4, 4), [gnomon.feature_norm], positions="all", layers="norm")


def test_lengths_may_differ_between_batches(model):
    x, longer = normal(N, T, D), normal(N, 2 * T, D, seed=3)
    labels = torch.arange(3 * N * T) % C
    data = [(x, labels[: N * T].view(N, T)), (longer, labels[N * T :].view(N, 2 * T))]
    found = Probe(model, data, [gnomon.nc1, accuracy], positions="all").read().values
    hidden = torch.cat([model.hidden(part).flatten(0, 1) for part in (x, longer)]).detach()
    torch.testing.assert_close(found["nc1"], gnomon.nc1(class_moments(hidden, labels, C)))
    assert found["accuracy"].shape == (3 * N * T,)


def test_a_lone_sequence(model):
    x, labels = normal(1, T, D), torch.arange(T).view(1, T) % 2
    with pytest.warns(RuntimeWarning, match="4 of 6 classes without samples"):
        found = Probe(model, (x, labels), [accuracy, gnomon.nc1], positions="all").read().values
    assert found["accuracy"].shape == (T,)


def test_tokens_of_a_language_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(C, P), nn.Linear(P, P), nn.Tanh(), nn.Linear(P, C))
    tokens = torch.arange(N * T).view(N, T).square() % C
    following = torch.cat([tokens[:, 1:], torch.full((N, 1), -100)], 1)
    with pytest.warns(RuntimeWarning, match="of 6 classes without samples"):
        found = Probe(model, (tokens, following), [accuracy, gnomon.nc1], positions="all").read().values
    assert found["accuracy"].shape == (N * (T - 1),)
    with pytest.raises(RangeError, match=r"jacobian_norm: .*pass their embeddings"):
        Probe(model, tokens, [gnomon.jacobian_norm], positions="last")


def test_the_network_is_left_as_it_was(model, labels):
    hooks = dict(model._forward_hooks)
    probe = Probe(model, (normal(N, T, D), labels), [accuracy], positions="all")
    probe.read()
    assert model._forward_hooks == hooks
    assert model(normal(2, T, D)).shape == (2, T, C)


@pytest.mark.bad_input
def test_bad_input_is_named(model, labels):
    x = normal(N, T, D)
    for quantity, of in (
        (gnomon.jacobian_norm, "jacobian"),
        (gnomon.centroid_alignment, "centroid"),
        (gnomon.ntk, "x"),
    ):
        expected = (
            rf"Probe\(positions\): expected one position per sample for quantities that use its {of}, got several\."
            r" Name one, .* To differentiate all, let the network return logits\.flatten\(1\), bind a loss of that"
        )
        with pytest.raises(RangeError, match=expected):
            Probe(model, (x, labels), [quantity], positions="all")
    with pytest.raises(RangeError, match=r"expected positions 'all', 'last', a whole number, .* got 'first'"):
        Probe(model, (x, labels), [accuracy], positions="first")
    with pytest.raises(RangeError, match=r"expected positions 'all', 'last', a whole number, .* got \[\]"):
        Probe(model, (x, labels), [accuracy], positions=[])
    with pytest.raises(RangeError, match=r"\(positions\): expected -5 to 4, got 5\. Name some of these"):
        Probe(model, (x, labels[:, 0]), [accuracy], positions=5)
    with pytest.raises(
        ShapeError, match=r"\(positions\): expected outputs \(n, t, c\) of sequences .*got shape \(\d, 6\)"
    ):
        Probe(AtOne(model, 0), (x, labels), [accuracy], positions="all")
    with pytest.raises(
        ShapeError, match=r"\(labels\): expected shape \(2, 5\), as the outputs' positions have, got \(2,"
    ):
        Probe(model, (x, labels[:, 1:]), [accuracy], positions="all")
    with pytest.raises(ShapeError, match=r"got shape \(n, 5, 6\)\. .* or read it by a Probe with positions"):
        Probe(model, (x, labels), [accuracy])
    with pytest.raises(EmptyError, match=r"\(labels\): expected positions that have one, got -100 at all"):
        Probe(model, (x, torch.full((N, T), -100)), [accuracy], positions="all").read()


@pytest.mark.bad_input
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_another_number_at_positions_that_are_no_samples_is_said(model, dtype):
    """Before training, and after it in a later batch; what the error advises does."""
    right = (torch.arange(N * T).view(N, T) % C).to(dtype)
    void = right.clone()
    void[-1] = 255
    says = r"expected classes 0 to 5, got 0 to 255 .* A position .* no sample has label -100: (torch\.where.*\)), if"
    x = normal(N, T, D)
    with pytest.raises(RangeError, match=says) as caught:
        Probe(model, (x, void.flip(0)), [accuracy], positions="all")
    later = Probe(model, [(x, right), (x, void)], [accuracy], positions="all")
    with pytest.raises(RangeError, match=says):
        later.read()
    advised = eval(re.search(says, str(caught.value))[1], {"torch": torch, "labels": void})
    assert Probe(model, (x, advised), [accuracy], positions="all").read().values["accuracy"].shape == ((N - 1) * T,)
    with pytest.raises(RangeError, match=r"expected classes 0 to 5, got 0 to 255") as caught:
        Probe(AtOne(model, 0), (x, void.flip(0)[:, 0]), [accuracy])
    assert "-100" not in str(caught.value)


def test_an_interrupt_leaves_the_network_as_it_was(model, labels):
    probe = Probe(model, (normal(N, T, D), labels), [accuracy], positions="all")
    model.train()

    def interrupt(*_):
        raise KeyboardInterrupt(len(model._forward_hooks))

    handle = model.head.register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt, match="1"):  # what takes the positions was there
        probe.read()
    handle.remove()
    assert not model._forward_hooks
    assert model.training


def test_what_cannot_be_had_of_several_positions_is_told_apart(model, labels):
    asked = [accuracy, gnomon.nc1, gnomon.jacobian_norm, gnomon.effective_rank]
    why = unavailable(model, (normal(N, T, D), labels), asked, positions="all")
    assert why.keys() == {"jacobian_norm", "effective_rank"}
    assert unavailable(model, (normal(N, T, D), labels), asked, positions="last") == {}
