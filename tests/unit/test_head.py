"""The final linear layer: found by what a pass does, wherever it is registered and whatever it is called."""

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

import gnomon
from gnomon import Probe, accuracy, nc1, self_duality
from gnomon.errors import RangeError, UnsupportedModuleError

N, CLASSES = 12, 3
X = torch.randn(N, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
IMAGES = torch.randn(N, 2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
LABELS = torch.arange(N) % CLASSES


class Transposed(nn.Module):
    """A weight the other way round, by another name, as that of a dense layer of Keras."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.parts = nn.ParameterDict({"kernel": torch.randn(inputs, outputs), "offset": torch.randn(outputs)})

    def forward(self, x):
        return x @ self.parts["kernel"] + self.parts["offset"]


class Network(nn.Module):
    """A body and a head of one's choice, and another linear layer registered first or last."""

    def __init__(self, body, head, end=None):
        super().__init__()
        self.first = head
        self.body, self.end = body, end or nn.Identity()
        self.last = nn.Linear(5, CLASSES)

    def forward(self, x):
        features = self.body(x)
        self.last(torch.zeros(len(x), 5, dtype=x.dtype))  # another head, whose logits are for another loss
        return self.end(self.first(features))


def body():
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh())


def pixels():
    return nn.Sequential(nn.Conv2d(2, 5, 3, padding=1), nn.Tanh())


class ByName(nn.Linear):
    def forward(self, given):
        return super().forward(given)


class Naming(nn.Module):
    """Calls its head by an argument's name."""

    def __init__(self):
        super().__init__()
        self.head, self.body = ByName(5, CLASSES), body()

    def forward(self, x):
        return self.head(given=self.body(x))


class Several(nn.Module):
    """Heads on features of their own, as those of distilled transformers."""

    def __init__(self, *heads, combine, unused=False):
        super().__init__()
        self.unused = nn.Linear(4, CLASSES) if unused else None
        self.body, self.other, self.heads = body(), nn.Linear(4, 7), nn.ModuleList(heads)
        self.combine = combine

    def features(self, x):
        return [self.body(x), self.other(x).tanh(), x][: len(self.heads)]

    def forward(self, x):
        if self.unused is not None:
            self.unused(x)
        return self.combine([head(each) for head, each in zip(self.heads, self.features(x), strict=True)])


def mean(outputs):
    return sum(outputs) / len(outputs)


def normalising(head):
    """A head behind a BatchNorm, as LeViT's."""
    return nn.Sequential(nn.BatchNorm1d(head.in_features), head)


class Rows(nn.Module):
    """A head that is called at every position of a sequence, of which the logits are those of one."""

    def __init__(self, pick):
        super().__init__()
        self.body, self.head, self.pick = nn.Sequential(nn.Linear(2, 5), nn.Tanh()), nn.Linear(5, CLASSES), pick

    def forward(self, x):
        return self.pick(self.head(self.body(x)), x)


def largest(rows, x):
    """Of each sample the row at another position, as sequences of several lengths have them."""
    return rows[torch.arange(len(x)), x[:, :, 0].argmax(1)]


SEQUENCES = torch.randn(N, 6, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def pooled(features):
    return features.mean((2, 3))


def side_by_side(model):
    return torch.cat(model.features(X), 1)


BUILDERS = {
    "two, averaged": (
        lambda: Several(nn.Linear(5, CLASSES), nn.Linear(7, CLASSES), combine=mean, unused=True),
        side_by_side,
        X,
    ),
    "three, added up, one without a bias": (
        lambda: Several(nn.Linear(5, 3), nn.Linear(7, 3, bias=False), nn.Linear(4, 3), combine=sum),
        side_by_side,
        X,
    ),
    "two behind layers of their own": (
        lambda: Several(normalising(nn.Linear(5, 3)), normalising(nn.Linear(7, 3)), combine=mean).eval(),
        lambda m: torch.cat([head[0](each) for head, each in zip(m.heads, m.features(X), strict=True)], 1),
        X,
    ),
    "at the last position": (lambda: Rows(lambda rows, x: rows[:, -1]), lambda m: m.body(SEQUENCES)[:, -1], SEQUENCES),
    "at positions of each sample's": (
        lambda: Rows(largest),
        lambda m: largest(m.body(SEQUENCES), SEQUENCES),
        SEQUENCES,
    ),
    "at all positions, averaged": (
        lambda: Rows(lambda rows, x: rows.mean(1)),
        lambda m: m.body(SEQUENCES).mean(1),
        SEQUENCES,
    ),
    "made before the body": (lambda: Network(body(), nn.Linear(5, CLASSES)), lambda m: m.body(X), X),
    "transposed": (lambda: Network(body(), Transposed(5, CLASSES)), lambda m: m.body(X), X),
    "called by a name": (Naming, lambda m: m.body(X), X),
    "of a convolution, then pooled": (
        lambda: Network(pixels(), nn.Conv2d(5, CLASSES, 1), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())),
        lambda m: pooled(m.body(IMAGES)),
        IMAGES,
    ),
    "pooled, then of a convolution": (
        lambda: Network(nn.Sequential(pixels(), nn.AdaptiveAvgPool2d(1)), nn.Conv2d(5, CLASSES, 1), nn.Flatten()),
        lambda m: pooled(m.body(IMAGES)),
        IMAGES,
    ),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_features_weight_and_bias_are_those_that_the_logits_follow_from(name):
    torch.manual_seed(0)
    build, features, x = BUILDERS[name]
    model = build().double()
    expected = features(model).detach()
    torch.testing.assert_close(gnomon.features(model, x), features(model))
    asked = {"features_read": lambda features: features, "w": lambda classifier: classifier, "b": lambda bias: bias}
    read = Probe(model, (x, LABELS), asked | {"nc1": nc1, "duality": self_duality}).read().values
    torch.testing.assert_close(read["features_read"], expected)
    torch.testing.assert_close(linear(expected, read["w"], read["b"]), model(x).detach())
    moments = gnomon.class_moments(expected, LABELS, CLASSES)
    torch.testing.assert_close(read["nc1"], nc1(moments))
    torch.testing.assert_close(read["duality"], self_duality(read["w"], moments))


def test_what_the_logits_do_not_follow_from_is_refused_until_it_is_named():
    uneven = Several(nn.Linear(5, 3), nn.Linear(7, 3), combine=lambda both: both[0] + 0.3 * both[1]).double()
    for model in (uneven, Network(body(), nn.Linear(5, CLASSES), nn.Softmax(1)).double()):
        with pytest.raises(UnsupportedModuleError, match=r"features\(model\): .* final linear layer outputs"):
            gnomon.features(model, X)
        with pytest.raises(UnsupportedModuleError, match=r"Probe\(model\): .* Name the layer whose input is meant"):
            Probe(model, (X, LABELS), [nc1])
        name = "heads.0" if model is uneven else "first"
        read = Probe(model, (X, LABELS), {"seen": lambda features: features, "nc1": nc1}, layers=name).read().values
        torch.testing.assert_close(read["seen"], model.body(X).detach())


class Tasks(nn.Module):
    """A head for each of two tasks, chosen by the sign of the first number."""

    def __init__(self):
        super().__init__()
        self.body, self.one, self.other = body(), nn.Linear(5, CLASSES), nn.Linear(5, CLASSES)

    def forward(self, x):
        features = self.body(x)
        return torch.where(x[:, :1] > 0, self.other(features), self.one(features))


@pytest.mark.parametrize("blocks", [None, 1])
def test_the_logits_of_all_samples_follow_from_the_head(blocks, monkeypatch):
    if blocks is not None:
        monkeypatch.setattr("gnomon.autodiff._linear_map.ENTRIES", blocks)
    torch.manual_seed(0)
    model, x = Tasks().double(), torch.randn(200, 4, dtype=torch.float64)
    by_task = x[x[:, 0].argsort()]
    one = by_task[by_task[:, 0] <= 0]
    torch.testing.assert_close(gnomon.features(model, one), model.body(one))
    rare = torch.cat([one, one, by_task[-1:]])
    for samples in (by_task, by_task.flip(0), rare):
        with pytest.raises(
            UnsupportedModuleError, match=r"features\(model\): .* final linear layer outputs the logits"
        ):
            gnomon.features(model, samples)
        with pytest.raises(UnsupportedModuleError, match=r"Probe\(model\): .* Name the layer whose input is meant"):
            Probe(model, (samples, torch.arange(len(samples)) % CLASSES), [self_duality]).read()
        read = Probe(model, samples, {"seen": lambda features: features}, layers="one").read()
        torch.testing.assert_close(read.values["seen"], model.body(samples).detach())


def test_the_head_may_be_named_too():
    model = Network(body(), nn.Linear(5, CLASSES)).double()
    named, found = (Probe(model, (X, LABELS), [self_duality], layers=layer).read() for layer in ("first", None))
    assert named == found
    with pytest.raises(UnsupportedModuleError, match=r"self_duality: Probe\(layers\): .* use its weight .* 'last'"):
        Probe(model, (X, LABELS), [self_duality], layers="last")


def test_layers_that_are_named_are_the_head_whatever_goes_on_behind_them():
    """As SqueezeNet's convolution, of which the outputs go through a ReLU before the mean."""
    torch.manual_seed(0)
    end = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    squeezed = Network(pixels(), nn.Conv2d(5, CLASSES, 1), end).double()
    with pytest.raises(UnsupportedModuleError, match="got one in which no linear layer does"):
        Probe(squeezed, (IMAGES, LABELS), [self_duality])
    asked = {"seen": lambda features: features, "w": lambda classifier: classifier, "b": lambda bias: bias}
    read = Probe(squeezed, (IMAGES, LABELS), asked | {"duality": self_duality}, head="first").read().values
    expected = pooled(squeezed.body(IMAGES)).detach()
    torch.testing.assert_close(read["seen"], expected)
    torch.testing.assert_close(read["w"], squeezed.first.weight.detach().flatten(1))
    torch.testing.assert_close(read["b"], squeezed.first.bias.detach())
    moments = gnomon.class_moments(expected, LABELS, CLASSES)
    torch.testing.assert_close(read["duality"], self_duality(read["w"], moments))


def test_a_named_head_does_not_depend_on_which_samples_come_first():
    """As where a ReLU passes the first two samples only, whose logits then follow from the layer."""
    torch.manual_seed(0)
    model, x = Tasks().double(), torch.randn(20, 4, dtype=torch.float64)
    by_task = x[x[:, 0].argsort()]
    for samples in (by_task, by_task.flip(0)):
        read = Probe(model, samples, {"seen": lambda features: features}, head="one").read().values
        torch.testing.assert_close(read["seen"], model.body(samples).detach())
    with torch.no_grad():
        model.body[0].weight.fill_(float("nan"))
    read = Probe(model, by_task.flip(0), {"seen": lambda features: features}, head="one").read().values
    torch.testing.assert_close(read["seen"], model.body(by_task).detach(), equal_nan=True)


@pytest.mark.parametrize("memory", [None, 2_000])
def test_several_that_are_named_stand_side_by_side(memory):
    torch.manual_seed(0)
    model = Several(nn.Linear(5, 3), nn.Linear(7, 3), combine=mean).double()
    asked = {"seen": lambda features: features, "w": lambda classifier: classifier, "duality": self_duality}
    names = ["heads.1", "heads.0"]
    given = (model, (X, LABELS), asked)
    named, found = (Probe(*given, head=head, memory=memory).read().values for head in (names, None))
    torch.testing.assert_close(named["seen"], torch.cat(model.features(X)[::-1], 1).detach())
    torch.testing.assert_close(named["w"], torch.cat([model.heads[1].weight, model.heads[0].weight], 1).detach() / 2)
    torch.testing.assert_close(named["duality"], found["duality"])
    uneven = Several(nn.Linear(5, 3), nn.Linear(7, 3), combine=lambda both: both[0] + 0.3 * both[1]).double()
    read = Probe(uneven, (X, LABELS), asked, head=names[::-1]).read().values
    torch.testing.assert_close(read["seen"], side_by_side(uneven).detach())


@pytest.mark.parametrize(
    ("head", "error", "words"),
    [
        ("nowhere", RangeError, "expected one of first, body.*got 'nowhere'"),
        (["first", "nowhere"], RangeError, "got 'nowhere'"),
        ("body.0", UnsupportedModuleError, "weight of 3 rows, as many as there are outputs, got 'body.0', a Linear"),
        ("body.1", UnsupportedModuleError, "got 'body.1', a Tanh. Name those from which the logits come"),
        ("unused", UnsupportedModuleError, "a layer that the forward pass calls, got one that it does not"),
    ],
)
def test_heads_that_are_none_are_refused(head, error, words):
    model = Network(body(), nn.Linear(5, CLASSES))
    model.unused = nn.Linear(5, CLASSES)
    with pytest.raises(error, match=words):
        Probe(model.double(), (X, LABELS), [self_duality], head=head)


def test_a_layer_beside_the_head_that_was_named_is_refused():
    model = Several(nn.Linear(5, 3), nn.Linear(7, 3), combine=mean).double()
    with pytest.raises(UnsupportedModuleError, match=r"self_duality: Probe\(layers\): .* use its weight"):
        Probe(model, (X, LABELS), [self_duality], layers="heads.0")
    first = Probe(model, (X, LABELS), [self_duality], layers="heads.0", head="heads.0").read()
    assert first == Probe(model, (X, LABELS), [self_duality], head="heads.0").read()


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_layers_that_torch_jit_compiled_are_passed_over_and_named():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, CLASSES)).double()
    partly = nn.Sequential(torch.jit.script(model[:2]), model[2])
    torch.testing.assert_close(gnomon.features(partly, X), gnomon.features(model, X))
    for name in ("0", "0.0"):
        with pytest.raises(
            UnsupportedModuleError, match=rf"features\(layer\): .* hooks, got '{name}', which torch.jit"
        ):
            gnomon.features(partly, X, layer=name)
        with pytest.raises(
            UnsupportedModuleError, match=rf"update\(layers\): .* '{name}', .* Pass the network that was"
        ):
            gnomon.AGOP([name]).update(partly, X)
    with pytest.raises(UnsupportedModuleError, match="linear layer at its end, got RecursiveScriptModule without one"):
        gnomon.features(torch.jit.script(model), X)
    with pytest.raises(UnsupportedModuleError, match=r"Probe\(model\): .* can be restored, got a part that torch.jit"):
        Probe(partly, X, [gnomon.jacobian_norm])


@pytest.mark.bad_input
def test_tokens_are_read_where_no_derivative_in_them_is_taken():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 6), nn.Flatten(), nn.Linear(24, 5), nn.Tanh(), nn.Linear(5, CLASSES)).double()
    tokens = torch.randint(7, (N, 4))
    read = Probe(model, (tokens, LABELS), [accuracy, nc1, self_duality]).read().values
    features = model[:-1](tokens).detach()
    torch.testing.assert_close(gnomon.features(model, tokens).detach(), features)
    torch.testing.assert_close(read["accuracy"], accuracy(model(tokens).detach(), LABELS))
    torch.testing.assert_close(read["nc1"], nc1(gnomon.class_moments(features, LABELS, CLASSES)))
    with pytest.raises(RangeError, match=r"jacobian_norm: .*expected a floating-point .* pass their embeddings"):
        Probe(model, (tokens, LABELS), [accuracy, gnomon.jacobian_norm])
