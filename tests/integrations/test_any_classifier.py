"""Networks of every kind, read by a probe: each quantity is right, or refused before training in one sentence."""

import copy
import gc
import inspect
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

import gnomon
from gnomon import Probe
from gnomon.errors import DataError, GnomonError, RangeError, UnsupportedModuleError
from gnomon.integrations import transformers_inputs
from gnomon.integrations.transformers import ProbeCallback
from gnomon.integrations.transformers_inputs import EmbeddedTexts, Logits, TextLogits, embeddings
from gnomon.models import mlp, resnet18
from gnomon.probe import unavailable

N, CLASSES, TOKENS = 24, 3, 6
LABELS = torch.arange(N) % CLASSES
SIZES = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT = {"vocab_size": 30, "num_labels": CLASSES, "pad_token_id": 0}


class Case(NamedTuple):
    """A network, what a probe reads of it, and how it is called in training."""

    model: nn.Module
    x: Tensor
    labels: Tensor
    network: nn.Module
    given: dict[str, Tensor]
    head: nn.Linear

    def outputs(self):
        return self.network(**self.given).logits if self.given else self.network(self.x)


def plain(network, shape, head, labels=LABELS):
    x = torch.randn(N, *shape, dtype=torch.float64)
    return Case(network.double(), x, labels, network, {}, head(network))


def vision():
    config = transformers.ViTConfig(image_size=4, patch_size=2, num_channels=1, num_labels=CLASSES, **SIZES)
    network = transformers.ViTForImageClassification(config).double()
    pixels = torch.randn(N, 1, 4, 4, dtype=torch.float64)
    return Case(Logits(network, "pixel_values"), pixels, LABELS, network, {"pixel_values": pixels}, network.classifier)


def tokens(left=False):
    """Texts of two to six tokens, padded."""
    lengths = 2 + torch.arange(N) % (TOKENS - 1)
    there = (torch.arange(TOKENS) < lengths[:, None]).long()
    there = there.flip(1) if left else there
    return {"input_ids": torch.randint(5, 30, (N, TOKENS)) * there, "attention_mask": there}


def text(network, head, left=False):
    network = network.double()
    given = tokens(left)
    return Case(TextLogits(network), embeddings(network, **given), LABELS, network, given, head(network))


def bert(**settings):
    config = transformers.BertConfig(max_position_embeddings=TOKENS, **TEXT, **SIZES, **settings)
    return transformers.BertForSequenceClassification(config)


def distilbert():
    sizes = {"dim": 8, "hidden_dim": 16, "n_layers": 2, "n_heads": 2, "max_position_embeddings": TOKENS}
    return transformers.DistilBertForSequenceClassification(transformers.DistilBertConfig(**TEXT, **sizes))


def gpt2(**settings):
    sizes = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": TOKENS, "bos_token_id": 1, "eos_token_id": 1}
    return transformers.GPT2ForSequenceClassification(transformers.GPT2Config(**TEXT, **sizes, **settings))


def numbers(*shape):
    return torch.randn(N, *shape, dtype=torch.float64)


BUILDERS = {
    "mlp": lambda: plain(mlp((6, 5, 4, CLASSES), bias=True), (6,), lambda network: network[-1]),
    "conv": lambda: plain(resnet18(1, CLASSES, width=2), (1, 6, 6), lambda network: network.head),
    "vision transformer": vision,
    "bert": lambda: text(bert(), lambda network: network.classifier),
    "distilbert": lambda: text(distilbert(), lambda network: network.classifier),
    "gpt2": lambda: text(gpt2(), lambda network: network.score),
    "gpt2, eager, padded on the left": lambda: text(
        gpt2(attn_implementation="eager"), lambda network: network.score, left=True
    ),
    "regression, one output": lambda: plain(mlp((6, 5, 4, 1)), (6,), lambda network: network[-1], numbers()),
    "regression, two outputs": lambda: plain(mlp((6, 5, 4, 2)), (6,), lambda network: network[-1], numbers(2)),
}


def case(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        built = BUILDERS[name]()
    built.model.eval()
    return built


# Why quantities cannot be had, where they cannot.

EVERYWHERE = dict.fromkeys(
    (
        *("centroid_influence", "centroid_rate", "distance_from_start", "fact_table", "fourier_losses"),
        *("ntk_to_point", "start_cka", "top_eigenvectors"),
    ),
    "to be among .*, got",
)
CUMULATIVE = ("activation_misalignment", "cumulative_parameters", "truncated_inputs", "truncation_map")
NO_SEQUENTIAL = EVERYWHERE | dict.fromkeys(
    (*CUMULATIVE, "layer_centroids", "truncation_sectors"), "expected an nn.Sequential"
)
NO_SEQUENTIAL["nfa_correlation"] = "expected a network whose samples enter one linear layer"
BRANCHES = {"layer_collapse": "expected layers one after the other"}
CLASSIFIER = ("classifier_equiangularity", "classifier_maximal_equiangularity")
HEAD = (
    *("cdnv", "central_path_distance", "class_moments", "equiangularity", "equinorm", "label_cka"),
    "least_squares_classifier",
    *("maximal_equiangularity", "mse_decomposition", "nc1", "nc1_trace_ratio", "nc2_etf", "nc2_orthogonal"),
    *("nearest_mean_disagreement", "self_duality", "snr", "snr_singular_values", "spectral_mse"),
)
OF_CLASSES = (
    *(*HEAD, "accuracy", "layer_collapse", "log_probability", "margin", "normalised_margin", "training_loss"),
    *("truncation_sectors", "hessian_eigenvalues", "hessian_trace", "gauss_newton_eigenvalues", "gauss_newton_trace"),
    *("gradient_sharpness", "commutator_defect", "local_learning_coefficient"),
    *("batch_gradients", "gradient_disparity", "gradient_noise_scale", "gradient_norm"),
)
REFUSED = {
    "mlp": EVERYWHERE,
    "conv": NO_SEQUENTIAL | BRANCHES,
    "vision transformer": NO_SEQUENTIAL | BRANCHES,
    "bert": NO_SEQUENTIAL | BRANCHES,
    "distilbert": NO_SEQUENTIAL | BRANCHES,
    "gpt2": NO_SEQUENTIAL,
    "gpt2, eager, padded on the left": NO_SEQUENTIAL,
    "regression, one output": EVERYWHERE
    | dict.fromkeys(
        (*OF_CLASSES, *CLASSIFIER),
        "expected (classes (0 to 0|at least 2|a whole number of at least 2)|.* at least 2 classes)",
    )
    | {"deepfool": "expected at least 2 outputs"},
    "regression, two outputs": EVERYWHERE | dict.fromkeys(OF_CLASSES, r"\(labels\): expected"),
}
PUBLIC = [getattr(gnomon, name) for name in gnomon.__all__]
QUANTITIES = {q.__name__: q for q in PUBLIC if inspect.isfunction(q) and q.__module__.startswith("gnomon.measure")}
# What takes long is asked for less: how good it is then, is not the question here.
LESS = {
    "commutator_defect": {"pairs": 6},
    "deepfool": {"max_steps": 4},
    "gauss_newton_eigenvalues": {"passes": 16},
    "gauss_newton_trace": {"passes": 16},
    "hessian_eigenvalues": {"passes": 16},
    "hessian_trace": {"passes": 16},
    "local_learning_coefficient": {"chains": 2, "draws": 4, "burn_in": 0},
}
QUANTITIES |= {name: partial(QUANTITIES[name], **less) for name, less in LESS.items()}


@pytest.mark.bad_input
@pytest.mark.parametrize("name", BUILDERS)
def test_every_quantity_is_read_or_refused_before_training(name):
    model, x, labels, *_ = case(name)
    allowed = {quantity: QUANTITIES[quantity] for quantity in QUANTITIES if quantity not in REFUSED[name]}
    assert len(allowed) + len(REFUSED[name]) == len(QUANTITIES)
    for key, value in Probe(model, (x, labels), allowed).read().scalars().items():
        assert value == value, key
    for quantity, why in REFUSED[name].items():
        with pytest.raises(GnomonError, match=why) as refused:
            Probe(model, (x, labels), [QUANTITIES[quantity]])
        assert quantity in str(refused.value)


def jacobian_row_by_row(model, x):
    """The Jacobian of each sample alone, by torch."""
    return torch.stack(
        [torch.autograd.functional.jacobian(lambda s: model(s[None])[0], sample) for sample in x.unbind()]
    )


def features_of(built):
    """What goes into the head as the network is called in training."""
    seen = []
    handle = built.head.register_forward_hook(lambda head, inputs, output: seen.append(inputs[0].detach()))
    built.outputs()
    handle.remove()
    rows = seen[0]
    if rows.ndim == 2:
        return rows
    # A decoder's logits are those of the last token that is no padding.
    tokens = (built.x != 0).any(2) * torch.arange(rows.shape[1])
    return rows[torch.arange(len(rows)), tokens.argmax(1)]


def nc1_by_loops(features, labels):
    means = [features[labels == k].mean(0) for k in range(CLASSES)]
    within, between = (torch.zeros(features.shape[1], features.shape[1], dtype=torch.float64) for _ in range(2))
    for row, label in zip(features, labels, strict=True):
        within += torch.outer(row - means[label], row - means[label]) / N
    for mean in means:
        between += torch.outer(mean - features.mean(0), mean - features.mean(0)) / CLASSES
    return (within @ torch.linalg.pinv(between, rtol=1e-10)).trace() / CLASSES


def ntk_by_loops(model, x):
    def gradient(sample, output):
        value = model(sample[None])[0, output]
        return torch.autograd.grad(value, [*model.parameters()], materialize_grads=True, allow_unused=True)

    rows = [[torch.cat([g.flatten() for g in gradient(s, c)]) for c in range(len(model(s[None])[0]))] for s in x]
    return torch.stack(
        [torch.stack([sum(a @ b for a, b in zip(one, two, strict=True)) for two in rows]) for one in rows]
    )


@pytest.mark.parametrize("name", BUILDERS)
def test_what_is_read_is_right(name):
    """Logits as in training, and the rest by plain loops."""
    built = case(name)
    model, x, labels, *_ = built
    quantities = {"seen": lambda logits: logits} | {
        quantity: QUANTITIES[quantity]
        for quantity in ("centroid", "jacobian_norm", "jacobian_alignment", "nc1", "accuracy")
        if quantity not in REFUSED[name]
    }
    values = Probe(model, (x, labels), quantities, memory=2**17).read().values
    torch.testing.assert_close(values["seen"], built.outputs().detach())
    some = slice(0, 8)
    jacobian = jacobian_row_by_row(model, x[some])
    torch.testing.assert_close(values["centroid"][some], jacobian.sum(1))
    torch.testing.assert_close(values["jacobian_norm"][some], jacobian.flatten(1).norm(dim=1))
    rows, points = jacobian.flatten(2), x[some].flatten(1)
    along = torch.stack(
        [(row @ point).norm() / (row.norm() * point.norm()) for row, point in zip(rows, points, strict=True)]
    )
    # Where all units are off there is no direction: 0 by definition.
    torch.testing.assert_close(values["jacobian_alignment"][some], along.nan_to_num())
    if "nc1" in values:
        torch.testing.assert_close(values["nc1"], nc1_by_loops(features_of(built), labels))
    if "accuracy" in values:
        torch.testing.assert_close(values["accuracy"].mean(), (built.outputs().argmax(1) == labels).double().mean())
    if "ntk" not in REFUSED[name]:
        found = Probe(model, x[:4], [gnomon.ntk]).read().values["ntk"]
        torch.testing.assert_close(found, ntk_by_loops(model, x[:4]))


@pytest.mark.parametrize("name", BUILDERS)
def test_training_is_the_same_with_and_without(name):
    """Bit for bit, dropout's random stream too, from a probe made while the network is in training mode."""

    def train(probed):
        built = case(name)
        model, x, labels, network, *_ = built
        network.train()
        torch.manual_seed(1)
        optimizer = torch.optim.AdamW(network.parameters(), 1e-2)
        allowed = [
            QUANTITIES[q]
            for q in ("accuracy", "centroid_alignment", "nc1", "ntk", "nfa_table")
            if q not in REFUSED[name]
        ]
        texts = isinstance(model, TextLogits)
        data = EmbeddedTexts(network, labels, **built.given) if texts else (x, labels)
        probe = Probe(model, data, allowed) if probed else lambda step: None
        for step in range(2):
            probe(step)
            outputs = built.outputs()
            loss = (
                mse_loss(outputs, labels.reshape(outputs.shape))
                if labels.is_floating_point()
                else cross_entropy(outputs, labels)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert all(module.training for module in network.modules())
        return [*network.state_dict().values(), *(p.grad for p in network.parameters()), torch.rand(1)]

    for ours, theirs in zip(train(True), train(False), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("build", [bert, distilbert, gpt2])
def test_padding_changes_nothing(build):
    """A padded text among others: its logits and its Jacobian are those of the text alone, with none at padding."""
    torch.manual_seed(0)
    network = build().double().eval()
    given = tokens()
    x = embeddings(network, **given)
    model = TextLogits(network)
    torch.testing.assert_close(model(x), network(**given).logits)
    jacobian = gnomon.input_jacobian(model, x).detach()
    for sample, ids, there, rows in zip(x, *given.values(), jacobian, strict=True):
        real = there.bool()
        alone = {"input_ids": ids[None, real], "attention_mask": there[None, real]}
        torch.testing.assert_close(model(sample[None]), network(**alone).logits)
        torch.testing.assert_close(rows[:, real], gnomon.input_jacobian(model, sample[None, real])[0].detach())
        assert not rows[:, ~real].any()


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("build", [bert, distilbert, gpt2])
def test_padded_tokens_are_masked(build, left):
    """Each text as its tokenizer's mask has it, whatever stands beside it; a network of images has no padding."""
    torch.manual_seed(0)
    network, given = build().double().eval(), tokens(left)
    ids, mask = given.values()
    assert (mask == 0).any()
    model = Logits(network, "input_ids")
    with torch.no_grad():
        expected = network(**given).logits
        if left or build is not gpt2:  # whose texts see nothing of what follows
            assert (network(input_ids=ids).logits - expected).abs().max() > 1e-6
        torch.testing.assert_close(model(ids), expected)
        torch.testing.assert_close(model(torch.cat([ids, ids.flip(1)]))[:N], expected)
    torch.testing.assert_close(model.gnomon_padding(ids), mask == 0)
    found = Probe(model, (ids, LABELS), [gnomon.training_loss, gnomon.gradient_norm]).read().values
    torch.testing.assert_close(found["training_loss"], cross_entropy(expected, LABELS, reduction="none"))
    assert Logits(network, "pixel_values").gnomon_padding is None
    network.config.pad_token_id = None
    with torch.no_grad():
        torch.testing.assert_close(model(ids[:1]), network(input_ids=ids[:1]).logits)


@pytest.mark.parametrize(
    ("ids", "settings", "says"),
    [
        ([[1, 5, 0, 6]], {}, None),
        ([[1, 5, 0, 6, 0]], {}, "within texts or on both sides"),
        ([[0, 5, 7, 6, 0]], {}, "within texts or on both sides"),
        ([[1, 5, 7, 0, 0]], {"eos_token_id": [3, 0]}, "which is its eos_token_id too"),
        ([[1, 5, 0, 6]], {"eos_token_id": 0}, None),
    ],
)
def test_tokens_that_may_be_words_are_not_masked(ids, settings, says):
    network = bert(**settings).double().eval()
    model, ids = Logits(network, "input_ids"), torch.tensor(ids)
    warned = nullcontext() if says is None else pytest.warns(UserWarning, match=rf"got token 0, {says}: it is read as")
    with warned, torch.no_grad():
        torch.testing.assert_close(model(ids), network(input_ids=ids).logits)


def test_padding_among_tokens_is_not_read_as_a_position():
    network, ids = language_model(), torch.tensor([[1, 2, 0, 0], [2, 1, 2, 1]])
    network.config.update({"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1})
    model, asked = Logits(network, "input_ids"), [gnomon.accuracy]
    labels = torch.tensor([[2, -100, -100, -100], [1, 2, 1, -100]])
    with pytest.raises(RangeError, match=r"expected tokens at the positions that are read, got padding in 1 of 2"):
        Probe(model, (ids, labels.abs() % CLASSES), asked, positions="all")
    assert Probe(model, (ids, labels), asked, positions="all").read().values["accuracy"].shape == (4,)


def test_what_is_not_in_the_embeddings_is_refused():
    torch.manual_seed(0)
    network = bert().double().eval()
    given = tokens()
    second = torch.ones_like(given["input_ids"])
    with pytest.raises(
        DataError, match=r"embeddings\(model\): expected logits that follow from embeddings and padding"
    ):
        embeddings(network, **given, token_type_ids=second)
    embeddings(network, **given, token_type_ids=0 * second)
    with pytest.raises(RangeError, match=r"embeddings\(attention_mask\): expected embeddings other than zero"):
        embeddings(network, given["input_ids"])
    network.get_input_embeddings = lambda: nn.Embedding(30, 8).double()
    with pytest.raises(UnsupportedModuleError, match=r"expected a network that calls the embedding it names, got Bert"):
        TextLogits(network)(torch.ones(2, 3, 8, dtype=torch.float64))
    assert len(network.bert.embeddings.word_embeddings._forward_hooks) == 0
    sizes = {"d_model": 8, "n_layer": 1, "n_head": 2, "d_inner": 8}
    sideways = transformers.XLNetForSequenceClassification(transformers.XLNetConfig(**TEXT, **sizes)).double()
    with pytest.raises(UnsupportedModuleError, match=r"logits without its tokens, got XLNetFor.*, which says Runtime"):
        embeddings(sideways, **given)
    assert len(sideways.transformer.word_embedding._forward_hooks) == 0


@pytest.mark.parametrize("build", [bert, gpt2])
def test_attention_by_any_kernel_can_be_steered_by_a_jacobian(build):
    """Fused attention has no second derivative; in gnomon's calls torch takes the kernel that has."""
    penalties = []
    for kernel in ("eager", "sdpa"):
        torch.manual_seed(0)
        network = build(attn_implementation=kernel).double().eval()
        x = embeddings(network, **tokens())
        penalty = gnomon.input_jacobian(TextLogits(network), x).square().sum()
        penalties.append((penalty, *torch.autograd.grad(penalty, [*network.parameters()], materialize_grads=True)))
    torch.testing.assert_close(*penalties)


def trained_on_texts(tmp_path, data_of, *, bf16=False):
    """What is logged of a text classifier that the trainer trains, and the network's own values at the end."""
    built = case("bert")
    given, network = built.given, built.network.float()
    names = ["input_ids", "attention_mask", "labels"]
    samples = [dict(zip(names, row, strict=True)) for row in zip(*given.values(), LABELS, strict=True)]
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        max_steps=30,
        learning_rate=0.02,
        bf16=bf16,
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = transformers.Trainer(network, arguments, train_dataset=samples)
    quantities = [gnomon.accuracy, gnomon.centroid_alignment, gnomon.nc1, gnomon.training_loss]

    def build(model):
        return Probe(TextLogits(model), data_of(model, given), quantities, gnomon.every(15))

    trainer.add_callback(ProbeCallback(build, trainer.log))
    trainer.train()
    with torch.no_grad():
        loss = cross_entropy(network.eval()(**given).logits, LABELS)
    return [entry for entry in trainer.state.log_history if "nc1" in entry], loss.item()


@pytest.mark.parametrize("bf16", [False, True])
def test_a_text_classifier_is_read_in_the_trainer(tmp_path, bf16):
    """The example of the documentation, in the precision in which the trainer's network computes."""

    def data_of(model, given):
        return EmbeddedTexts(model, LABELS, **given)

    logged, loss = trained_on_texts(tmp_path, data_of, bf16=bf16)
    assert [entry["step"] for entry in logged] == [0, 15, 30]
    assert all(entry["nc1"] > 0 for entry in logged)
    assert abs(logged[0]["training_loss"] - loss) > 0.1
    assert logged[-1]["training_loss"] == pytest.approx(loss, rel=0.02 if bf16 else 1e-5)


def test_embeddings_that_do_not_follow_training_are_warned_of(tmp_path):
    """In a training of them, once; not if they are frozen, nor of a single reading."""

    def data_of(model, given):
        return embeddings(model, **given).detach(), LABELS

    with pytest.warns(UserWarning, match=r"Probe\(data\): expected embeddings as they are at each reading") as seen:
        logged, loss = trained_on_texts(tmp_path, data_of)
    assert len(seen) == 1
    assert abs(logged[-1]["training_loss"] - loss) > 0.1

    def frozen(model, given):
        model.get_input_embeddings().weight.requires_grad_(False)
        return data_of(model, given)

    logged, loss = trained_on_texts(tmp_path, frozen)
    assert logged[-1]["training_loss"] == pytest.approx(loss, rel=1e-5)
    built = case("bert")
    Probe(built.model, (built.x.detach(), LABELS), [gnomon.accuracy]).read()


@pytest.mark.parametrize("labels", [LABELS, None])
def test_texts_are_embedded_in_batches_as_the_network_then_is(monkeypatch, labels):
    monkeypatch.setattr(transformers_inputs, "TOGETHER", 10)
    built = case("gpt2, eager, padded on the left")
    texts = EmbeddedTexts(built.network, labels, **built.given)
    assert [len(batch[0]) for batch in texts] == [10, 10, 4]
    probe = Probe(built.model, texts, {"seen": lambda logits: logits, "at": lambda x: x})
    with torch.no_grad():
        built.network.get_input_embeddings().weight.mul_(2)
        found = probe.read().values
        torch.testing.assert_close(found["at"], embeddings(built.network, **built.given))
        torch.testing.assert_close(found["seen"], built.outputs())


@pytest.mark.bad_input
def test_texts_of_a_network_that_is_gone_are_refused():
    built = case("bert")
    texts = EmbeddedTexts(copy.deepcopy(built.network), LABELS, **built.given)
    gc.collect()
    with pytest.raises(DataError, match=r"expected a network that is still there, got one that is gone"):
        next(iter(texts))


@pytest.mark.bad_input
def test_texts_whose_padding_is_not_given_are_refused():
    built = case("bert")
    with pytest.raises(RangeError, match=r"embeddings\(attention_mask\): expected embeddings other than zero"):
        EmbeddedTexts(built.network, LABELS, built.given["input_ids"])


def test_a_padded_language_model_is_compared_where_there_is_text():
    """At padding its logits do differ: there it sees the padding token's embedding."""
    network = language_model()
    ids = torch.randint(0, CLASSES, (2, 6), generator=torch.Generator().manual_seed(0))
    for mask in ([1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]):
        given = {"input_ids": ids, "attention_mask": torch.tensor([[1] * 6, mask])}
        there = given["attention_mask"].bool()
        x = embeddings(network, **given)
        with torch.no_grad():
            torch.testing.assert_close(TextLogits(network)(x)[there], network(**given).logits[there])
    with pytest.raises(DataError, match=r"expected logits that follow from embeddings and padding"):
        embeddings(network, **given, token_type_ids=torch.ones_like(ids))


def language_model():
    settings = {"vocab_size": CLASSES, "n_embd": 8, "n_layer": 2, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings)).double().eval()


def test_a_language_model_is_not_read_at_padding():
    network, ids = language_model(), torch.tensor([[1, 2, 0, 0], [2, 1, 2, 1]])
    right = embeddings(network, ids, (ids > 0).long())
    left = embeddings(network, ids.roll(2, 1), (ids.roll(2, 1) > 0).long())
    asked, model = {"seen": lambda logits: logits}, TextLogits(network)
    says = r"expected tokens at the positions that are read, got padding in 1 of 2\. Pad on the left to read the last"
    labels = torch.tensor([[2, -100, -100, -100], [1, 2, 1, -100]])
    for data, places in ((right, "last"), (right, 2), ((right, torch.tensor([0, 1])), "last"), (right, [0, 2])):
        with pytest.raises(RangeError, match=rf"Probe\(positions\): {says}"):
            Probe(model, data, asked, positions=places)
    with pytest.raises(RangeError, match=r"positions.*: expected tokens .* got padding in 1 of 1"):
        Probe(model, [(left[1:],), (right[:1],)], asked, positions="all").read()
    with pytest.raises(RangeError, match=rf"positions.*{says}"):
        unavailable(model, right, asked, positions="last")
    # GPT-2 numbers the places of padding too: the same text begins at place 2 here.
    assert Probe(model, left, asked, positions="last").read().values["seen"].shape == (2, CLASSES)
    with torch.no_grad():
        expected = network(input_ids=ids, attention_mask=(ids > 0).long()).logits
    for places in (0, -3):
        found = Probe(model, right, asked, positions=places).read().values["seen"]
        torch.testing.assert_close(found, expected[:, places])
    found = Probe(model, (right, labels), asked, positions="all").read().values["seen"]
    torch.testing.assert_close(found, expected[labels != -100])


@pytest.mark.parametrize("places", ["all", "last"])
def test_a_language_model_is_read_at_its_positions(places):
    network = language_model()
    tokens = torch.randint(0, CLASSES, (N, TOKENS), generator=torch.Generator().manual_seed(0))
    following = torch.randint(0, CLASSES, (N, TOKENS), generator=torch.Generator().manual_seed(1))
    following[::2, 2] = -100
    x = embeddings(network, tokens).detach()
    quantities = [gnomon.accuracy, gnomon.nc1, gnomon.self_duality]
    found = Probe(TextLogits(network), (x, following), quantities, positions=places).read().values
    taken = slice(None) if places == "all" else [-1]
    there = following[:, taken] != -100
    with torch.no_grad():
        hidden = network.transformer(tokens).last_hidden_state[:, taken][there]
        logits = network(tokens).logits[:, taken][there]
    labels = following[:, taken][there]
    moments = gnomon.class_moments(hidden, labels, CLASSES)
    torch.testing.assert_close(found["accuracy"], gnomon.accuracy(logits, labels))
    torch.testing.assert_close(found["nc1"], gnomon.nc1(moments))
    torch.testing.assert_close(found["self_duality"], gnomon.self_duality(network.lm_head.weight.detach(), moments))


class Own(nn.Module):
    """A network of one's own that returns a dictionary, as those of the library do on request."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, CLASSES)

    def forward(self, pixels):
        return {"logits": self.linear(pixels)}


def test_networks_of_ones_own_are_read_by_their_dictionary_or_refused_in_a_sentence():
    model, x = Own(), torch.randn(N, 4)
    read = Probe(Logits(model, "pixels"), (x, LABELS), [gnomon.accuracy]).read()
    torch.testing.assert_close(read.values["accuracy"], gnomon.accuracy(model.linear(x), LABELS))
    says = "expected a text network of the transformers library, got Own, which has no get_input_embeddings"
    with pytest.raises(UnsupportedModuleError, match=rf"TextLogits\(model\): {says}"):
        TextLogits(model)
    with pytest.raises(UnsupportedModuleError, match=rf"embeddings\(model\): {says}"):
        embeddings(model, torch.zeros(2, 3, dtype=torch.int64))
