"""Heads that are linear maps by more than a weight of their own, such as layers with adapters, and what is none."""

import pytest
import torch
from torch import nn
from torch.nn.functional import linear, normalize

import gnomon
from gnomon import Probe, classifier_equinorm, nc1, self_duality
from gnomon.errors import UnsupportedModuleError

N, CLASSES, WIDTH = 12, 3, 5
LABELS = torch.arange(N) % CLASSES
READ = {
    "seen": lambda features: features,
    "w": lambda classifier: classifier,
    "b": lambda bias: torch.zeros(CLASSES, dtype=torch.float64) if bias is None else bias,
    "nc1": nc1,
    "duality": self_duality,
}


def samples(*shape):
    return torch.randn(N, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def body(*, inputs=4):
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.Tanh())


class Adapted(nn.Module):
    """A layer with an adapter beside it, as PEFT writes it."""

    def __init__(self, base, down, up, scaling=2.0):
        super().__init__()
        self.base_layer, self.lora_dropout, self.scaling = base, nn.Dropout(0.5), scaling
        self.lora_A, self.lora_B = down, up

    def forward(self, x):
        return self.base_layer(x) + self.lora_B(self.lora_A(self.lora_dropout(x))) * self.scaling


def adapted(scaling=2.0):
    down, up = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, CLASSES, bias=False)
    return Adapted(nn.Linear(WIDTH, CLASSES), down, up, scaling)


def adapted_pixels():
    return Adapted(nn.Conv2d(WIDTH, CLASSES, 1), nn.Conv2d(WIDTH, 2, 1, bias=False), nn.Conv2d(2, CLASSES, 1))


class Subclass(nn.Linear):
    """A linear layer whose own forward has an adapter of parameters."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.down, self.up = nn.Parameter(torch.randn(2, sizes[0])), nn.Parameter(torch.randn(sizes[1], 2))

    def forward(self, x):
        return super().forward(x) + x @ self.down.T @ self.up.T


class Product(nn.Module):
    """Two weights, one after the other, without a bias."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Parameter(torch.randn(2, WIDTH)), nn.Parameter(torch.randn(CLASSES, 2))

    def forward(self, x):
        return linear(linear(x, self.down), self.up)


def hooked():
    layer = nn.Linear(WIDTH, CLASSES)
    layer.register_forward_hook(lambda layer, inputs, output: output * torch.tensor([1.0, 2.0, 3.0]))
    return layer


class Cosine(nn.Module):
    """The cosines between features and weights, as of ArcFace."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(CLASSES, WIDTH))

    def forward(self, x):
        return linear(normalize(x), normalize(self.weight))


def network(head):
    torch.manual_seed(0)
    return nn.Sequential(body(), head()).double().eval()


def by_sequence(rows):
    torch.manual_seed(0)
    return nn.Sequential(body(inputs=2), adapted(), rows).double().eval()


class Last(nn.Module):
    def forward(self, x):
        return x[:, -1]


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


def of_pixels():
    torch.manual_seed(0)
    parts = nn.Conv2d(2, WIDTH, 3, padding=1), adapted_pixels(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*parts).double().eval()


BUILDERS = {
    "adapter": (lambda: network(adapted), samples(4), lambda h: h),
    "adapter that is not scaled": (lambda: network(lambda: adapted(1.0)), samples(4), lambda h: h),
    "adapter of parameters": (lambda: network(lambda: Subclass(WIDTH, CLASSES)), samples(4), lambda h: h),
    "two weights": (lambda: network(Product), samples(4), lambda h: h),
    "hook": (lambda: network(hooked), samples(4), lambda h: h),
    "adapter at the last position": (lambda: by_sequence(Last()), samples(6, 2), lambda h: h[:, -1]),
    "adapter at all positions, averaged": (lambda: by_sequence(Mean()), samples(6, 2), lambda h: h.mean(1)),
    "adapter of a convolution, then pooled": (of_pixels, samples(2, 3, 4), lambda h: h.mean((2, 3))),
}


@pytest.mark.parametrize("named", [None, "1"])
@pytest.mark.parametrize("name", BUILDERS)
def test_the_weight_is_that_of_the_whole_map(name, named):
    build, x, at = BUILDERS[name]
    model = build()
    expected = at(model[0](x)).detach()
    read = Probe(model, (x, LABELS), READ, head=named).read().values
    torch.testing.assert_close(read["seen"], expected)
    torch.testing.assert_close(linear(expected, read["w"], read["b"]), model(x).detach())
    # Of the map rather than of what it does to these samples alone, which do not span its inputs' space.
    others = 10 * torch.randn(N, *x.shape[1:], dtype=torch.float64)
    torch.testing.assert_close(linear(at(model[0](others)), read["w"], read["b"]), model(others))
    torch.testing.assert_close(
        read["duality"], self_duality(read["w"], gnomon.class_moments(expected, LABELS, CLASSES))
    )
    torch.testing.assert_close(gnomon.features(model, x), at(model[0](x)))


class Wrapper(nn.Module):
    """Passes the samples on as they are."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)


@pytest.mark.parametrize("count", [N, 1])
def test_a_linear_network_is_a_head_only_if_it_is_named(count):
    torch.manual_seed(0)
    model, x = Wrapper(Product()).double(), samples(WIDTH)[:count]
    with pytest.raises(UnsupportedModuleError, match=r"features\(model\): .* got one in which no linear layer does"):
        gnomon.features(model, x)
    read = Probe(model, x, {"seen": READ["seen"], "w": READ["w"]}, head="network").read().values
    torch.testing.assert_close(read["seen"], x)
    torch.testing.assert_close(read["w"], (model.network.up @ model.network.down).detach())


def test_a_row_with_as_many_entries_along_another_axis_is_no_row_of_logits():
    """As many tokens as classes, in a layer before the head."""
    torch.manual_seed(0)
    parts = body(inputs=2), nn.Linear(WIDTH, WIDTH), nn.Tanh(), Last(), adapted()
    model, x = nn.Sequential(*parts).double().eval(), samples(CLASSES, 2)
    torch.testing.assert_close(gnomon.features(model, x), model[:-1](x))


class Autocast(nn.Module):
    """Computes in half precision and returns float32, as a network that Accelerate has prepared."""

    def __init__(self, *parts, dtype):
        super().__init__()
        self.parts, self.dtype = nn.Sequential(*parts), dtype

    def forward(self, x):
        with torch.autocast("cpu", self.dtype):
            return self.parts(x).float()


class Single(nn.Module):
    def forward(self, x):
        return x.float() * 1.01


class TwoHeads(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.one, self.two = nn.Linear(width, CLASSES), nn.Linear(width, CLASSES)

    def forward(self, x):
        return (self.one(x.relu()) + self.two((-x).relu())) / 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("head", [lambda: nn.Linear(WIDTH, CLASSES), adapted, hooked, TwoHeads])
def test_a_head_whose_input_is_not_in_half_precision_is_found_under_autocast(head, dtype):
    """As at the end of a transformer."""
    torch.manual_seed(0)
    model, x = Autocast(body(), Single(), head(), dtype=dtype).eval(), samples(4).float()
    with torch.autocast("cpu", dtype):
        given = model.parts[:-1](x)
    expected = torch.cat([given.relu(), (-given).relu()], dim=1) if head is TwoHeads else given
    torch.testing.assert_close(gnomon.features(model, x), expected)


def test_in_half_precision_one_of_two_heads_is_not_taken_for_both():
    for seed in range(5):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 100), nn.LayerNorm(100), TwoHeads(100)).bfloat16()
        assert gnomon.features(model, samples(4).bfloat16()).shape == (N, 200)


def test_the_sum_with_its_adapter_is_the_merged_weight():
    model, x = network(adapted), samples(4)
    head = model[1]
    merged = (head.base_layer.weight + 2 * head.lora_B.weight @ head.lora_A.weight).detach()
    for given in ({}, {"head": "1"}, {"layers": "1"}):
        read = Probe(model, (x, LABELS), READ, **given).read().values
        torch.testing.assert_close(read["w"], merged)
        torch.testing.assert_close(read["b"], head.base_layer.bias.detach())


def test_a_language_models_adapter_is_read_at_all_positions():
    torch.manual_seed(0)
    model = nn.Sequential(body(inputs=2), adapted()).double().eval()
    x, labels = samples(6, 2), torch.arange(6 * N).reshape(N, 6) % CLASSES
    features = model[0](x).flatten(0, 1).detach()
    moments = gnomon.class_moments(features, labels.flatten(), CLASSES)
    for named in (None, "1"):
        read = Probe(model, (x, labels), READ, positions="all", head=named).read().values
        torch.testing.assert_close(read["duality"], self_duality(read["w"], moments))
        torch.testing.assert_close(linear(features, read["w"], read["b"]), model(x).flatten(0, 1).detach())


class Inline(nn.Module):
    """Two layers that are added up in the network itself, on features and on what becomes of them."""

    def __init__(self, between):
        super().__init__()
        self.body, self.between = body(), between
        self.base, self.beside = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        features = self.body(x)
        return self.base(features) + self.beside(self.between(features))


@pytest.mark.parametrize(
    "between",
    [
        lambda: nn.Identity(),
        lambda: nn.Linear(WIDTH, WIDTH),
        lambda: nn.Sequential(nn.Linear(WIDTH, 2), nn.Dropout(), nn.Linear(2, WIDTH)),
    ],
)
def test_layers_that_are_one_map_are_not_taken_side_by_side(between):
    torch.manual_seed(0)
    model = Inline(between()).double().eval()
    said = "none given a linear map of what another is given, got 'base' and 'beside', .* Add them up in a module"
    for given, argument in (({}, "model"), ({"head": ["base", "beside"]}, "head")):
        with pytest.raises(UnsupportedModuleError, match=rf"Probe\({argument}\): expected added layers, {said}"):
            Probe(model, (samples(4), LABELS), [nc1], **given)
    with pytest.raises(UnsupportedModuleError, match=r"features\(model\): expected added layers, none given"):
        gnomon.features(model, samples(4))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("count", [N, 1])
def test_layers_with_a_nonlinearity_between_their_inputs_stand_side_by_side(in_place, count):
    torch.manual_seed(0)
    model = Inline(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=in_place))).double()
    x = samples(4)[:count]
    features = model.body(x)
    torch.testing.assert_close(gnomon.features(model, x), torch.cat([features, model.between(features)], 1))


class Tokens(nn.Module):
    """Heads of two tokens that are equal, as those of a distilled transformer before training."""

    def __init__(self):
        super().__init__()
        self.body, self.heads = body(), nn.ModuleList(nn.Linear(WIDTH, CLASSES) for _ in range(2))

    def forward(self, x):
        tokens = self.body(torch.stack([x, x], 1))
        return sum(head(tokens[:, place]) for place, head in enumerate(self.heads)) / 2


def test_equal_inputs_from_different_places_stand_side_by_side():
    torch.manual_seed(0)
    model, x = Tokens().double(), samples(4)
    for named in (None, ["heads.0", "heads.1"]):
        read = Probe(model, (x, LABELS), READ, head=named).read().values
        torch.testing.assert_close(read["seen"], torch.cat([model.body(x)] * 2, 1).detach())


def test_a_named_layer_that_does_more_than_multiply_is_refused():
    model, x = network(Cosine), samples(4)
    said = r"Probe\(head\): expected layers that multiply .*, got '1', a Cosine, which does something else. Do that in"
    with pytest.raises(UnsupportedModuleError, match=said):
        Probe(model, (x, LABELS), [classifier_equinorm], head="1")
    read = Probe(model, (x, LABELS), {"seen": READ["seen"]}, layers="1").read().values
    torch.testing.assert_close(read["seen"], model[0](x).detach())
    layer = nn.Linear(WIDTH, CLASSES)
    layer.register_forward_hook(lambda layer, inputs, output: output.exp())
    with pytest.raises(UnsupportedModuleError, match="got '1', a Linear, which does something else"):
        Probe(network(lambda: layer), (x, LABELS), [classifier_equinorm], head="1")


class Tied(nn.Module):
    """Logits by the weight of an embedding, in the network itself or by a layer."""

    def __init__(self, head=None):
        super().__init__()
        self.embedding, self.head = nn.Embedding(CLASSES, WIDTH), head
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        if head is not None:
            head.weight = self.embedding.weight

    def forward(self, tokens):
        features = self.body(self.embedding(tokens).mean(1))
        return linear(features, self.embedding.weight) if self.head is None else self.head(features)


@pytest.mark.bad_input
def test_a_product_without_a_layer_is_said_to_have_none():
    torch.manual_seed(0)
    tokens = torch.randint(CLASSES, (N, WIDTH))
    said = "got one in which no linear layer does, for all samples. .* by F.linear, multiply by it in a module"
    with pytest.raises(UnsupportedModuleError, match=said):
        Probe(Tied().double(), (tokens, LABELS), [nc1])
    with pytest.raises(UnsupportedModuleError, match=r"Probe\(head\): .* got 'embedding', a Embedding"):
        Probe(Tied().double(), (tokens, LABELS), [nc1], head="embedding")
    tied = Tied(nn.Linear(WIDTH, CLASSES, bias=False)).double()
    read = Probe(tied, (tokens, LABELS), READ).read().values
    torch.testing.assert_close(read["w"], tied.embedding.weight.detach())
