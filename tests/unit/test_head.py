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


class Averaged(nn.Module):
    """The mean of two heads, as that of distilled transformers."""

    def __init__(self):
        super().__init__()
        self.body, self.head, self.other = body(), nn.Linear(5, CLASSES), nn.Linear(5, CLASSES)

    def forward(self, x):
        features = self.body(x)
        return (self.head(features) + self.other(features)) / 2


def pooled(features):
    return features.mean((2, 3))


BUILDERS = {
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
    doubled = Network(body(), nn.Linear(5, CLASSES)).double()
    doubled.first.register_forward_hook(lambda layer, inputs, output: 2 * output)
    for model in (doubled, Averaged().double(), Network(body(), nn.Linear(5, CLASSES), nn.Softmax(1)).double()):
        with pytest.raises(UnsupportedModuleError, match=r"features\(model\): .* final linear layer puts out"):
            gnomon.features(model, X)
        with pytest.raises(UnsupportedModuleError, match=r"Probe\(model\): .* Name the layer whose input is meant"):
            Probe(model, (X, LABELS), [nc1])
        name = "head" if isinstance(model, Averaged) else "first"
        read = Probe(model, (X, LABELS), {"seen": lambda features: features, "nc1": nc1}, layers=name).read().values
        torch.testing.assert_close(read["seen"], model.body(X).detach())


def test_the_head_may_be_named_too():
    model = Network(body(), nn.Linear(5, CLASSES)).double()
    named, found = (Probe(model, (X, LABELS), [self_duality], layers=layer).read() for layer in ("first", None))
    assert named == found
    with pytest.raises(
        UnsupportedModuleError, match=r"self_duality: Probe\(layers\): .* looks at its weight .* 'last'"
    ):
        Probe(model, (X, LABELS), [self_duality], layers="last")


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
