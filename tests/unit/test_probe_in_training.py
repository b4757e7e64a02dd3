"""Networks as people train them: whatever they do of their own, a probe reads what is there and leaves it so."""

import copy
import math
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint

import gnomon
from gnomon import Probe, accuracy, centroid_alignment, jacobian_norm, nc1, plateau, stop_when
from gnomon.errors import ConvergenceError, RangeError, UnsupportedModuleError
from gnomon.models import mlp
from tests.unit.test_harmless import Merging

X = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(12) % 3


class Fresh(Merging):
    """The update of an adapter before its first step, beside a weight that is not trained."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.weight.requires_grad_(False)
        nn.init.zeros_(self.up)


class Rebinding(nn.Linear):
    """Keeps a mean in a new buffer each time, in eval mode too; and one that is not there yet, and one of NaN."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("seen", torch.zeros(0))
        self.register_buffer("unknown", torch.full((2,), math.nan))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.seen.resize_(3).fill_(1)
        return super().forward(x - self.mean) * self.unknown.isnan().all()


class Attending(nn.Module):
    """Attention that is computed again in the backward pass, in eval mode too."""

    def __init__(self, again=True):
        super().__init__()
        self.again, self.head = again, nn.Linear(5, 3)

    def attend(self, x):
        return functional.scaled_dot_product_attention(x, x, x)

    def forward(self, x):
        x = torch.stack([x, x.roll(1, 1)], 1).unsqueeze(1)  # with an axis of heads, which the fused kernels want
        x = checkpoint(self.attend, x, use_reentrant=False) if self.again else self.attend(x)
        return self.head(x.mean((1, 2)))


@pytest.mark.parametrize("build", [Fresh, Rebinding], ids=["merges weights", "rebinds buffers"])
def test_training_is_the_same_where_eval_mode_does_things_of_its_own(build):
    def trained(probed):
        torch.manual_seed(0)
        model = nn.Sequential(build(5, 8), nn.ReLU(), nn.Linear(8, 3))
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.5)
        probe = Probe(model, (X, LABELS), [accuracy, nc1, jacobian_norm]) if probed else None
        for step in range(4):
            loss = functional.cross_entropy(model(X), LABELS)
            if probe:
                probe(step)  # between the passes: a graph notices whatever is written to
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return model.state_dict()

    for before, after in zip(trained(False).values(), trained(True).values(), strict=True):
        torch.testing.assert_close(after, before, rtol=0, atol=0, equal_nan=True)


def test_a_buffer_without_a_shape_is_without_one_afterwards():
    model = Rebinding(5, 3)
    Probe(model, (X, LABELS), [accuracy]).read()
    assert model.seen.shape == (0,)


def test_autocast_of_the_loop_does_not_reach_the_reading():
    """In bfloat16 the parts of the loss lose all their digits, and nc1's pseudo-inverse is none."""
    model = mlp((5, 8, 3), generator=torch.Generator().manual_seed(0))
    probe = Probe(model, (X, LABELS), [nc1, gnomon.mse_decomposition, centroid_alignment])
    plain = probe.read().scalars()
    with torch.autocast("cpu", torch.bfloat16):
        assert model(X).dtype == torch.bfloat16
        torch.testing.assert_close(probe.read().scalars(), plain, rtol=0, atol=0)
        assert model(X).dtype == torch.bfloat16


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated")  # torch.compile's own
@pytest.mark.parametrize("in_place", [True, False])
def test_a_compiled_part_is_read_uncompiled(in_place):
    """What is compiled cannot be differentiated twice, and calls no hooks."""
    model = mlp((5, 8, 3), generator=torch.Generator().manual_seed(0))
    quantities = [jacobian_norm, nc1, gnomon.nfa_table]
    plain = Probe(model, (X, LABELS), quantities).read().scalars()
    if in_place:
        model.compile(backend="aot_eager")
        compiled = model
    else:
        compiled = nn.Sequential(torch.compile(model, backend="aot_eager"))
    torch.testing.assert_close(Probe(compiled, (X, LABELS), quantities).read().scalars(), plain)
    for quantity in (gnomon.hessian_trace, gnomon.gauss_newton_trace):
        torch.testing.assert_close(quantity(compiled, X, LABELS).value, quantity(model, X, LABELS).value)


def test_attention_that_a_checkpoint_computes_again_is_read():
    torch.manual_seed(0)
    again = Attending()
    plain = Attending(again=False)
    plain.load_state_dict(again.state_dict())
    read = [Probe(model, (X, LABELS), [jacobian_norm, gnomon.agop]).read().scalars() for model in (again, plain)]
    torch.testing.assert_close(*read)


@pytest.mark.filterwarnings("ignore:.torch.nn.utils.weight_norm. is deprecated")  # it is still what people use
@pytest.mark.parametrize(
    "made_by", [weight_norm, spectral_norm, lambda head: prune.l1_unstructured(head, "weight", amount=0.3)]
)
def test_a_weight_that_a_hook_makes_is_that_of_the_parameters_now(made_by):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), made_by(nn.Linear(4, 3)))
    probe = Probe(model, X, {"asked": lambda classifier: classifier})
    with torch.no_grad():
        for parameter in model[2].parameters():
            parameter.mul_(torch.rand_like(parameter))
    read = probe.read().values["asked"]
    model.eval()(X)
    torch.testing.assert_close(read, model[2].weight.detach(), rtol=0, atol=0)


def test_readings_stay_what_they_were():
    model = mlp((5, 3))
    quantities = {
        "last": lambda classifier: classifier,
        "first": lambda parameters: next(iter(parameters.values())),
        "rows": lambda parameters: next(iter(parameters.values()))[:2],
        "inputs": lambda x: x,
    }
    x = X.clone()
    reading = Probe(model, x, quantities).read()
    before = {name: value.clone() for name, value in reading.values.items()}
    with torch.no_grad():
        for tensor in (x, *model.parameters()):
            tensor.zero_()
    torch.testing.assert_close(reading.values, before, rtol=0, atol=0)


@pytest.mark.bad_input
def test_an_average_without_gradients_is_read_as_it_follows_training():
    """Of a copy the whole history would be that of its first step."""
    live, x, labels = mlp((4, 3)), torch.ones(2, 4), torch.tensor([0, 1])
    average = copy.deepcopy(live).requires_grad_(False)
    with pytest.raises(
        UnsupportedModuleError, match=r"got none\. Call model\.requires_grad_\(\); a copy would not foll"
    ):
        Probe(average, (x, labels), [gnomon.gradient_norm])
    probe = Probe(average.requires_grad_(), (x, labels), [gnomon.gradient_norm])
    probe(0)
    with torch.no_grad():
        for mean, parameter in zip(average.parameters(), live.parameters(), strict=True):
            mean.lerp_(3 * parameter, 0.5)
    at_last = gnomon.gradient_norm(gnomon.batch_gradients(average, x, labels))
    assert probe(1).values["gradient_norm"] == at_last != probe.history["gradient_norm"][0]


def test_training_goes_on_where_a_quantity_has_no_value():
    """In a loop it is NaN, and said once; asked for by itself it is an error, as everywhere."""
    model = mlp((5, 8, 3), generator=torch.Generator().manual_seed(0))
    quantities = {"nc1": nc1, "half": lambda nc1: nc1 / 2, "singular": gnomon.singular_values, "n": lambda x: x.sum(1)}
    probe = Probe(model, (X, LABELS), quantities)
    good = {name: value.clone() for name, value in model.state_dict().items()}
    assert probe(0).missing == {}
    with torch.no_grad():
        model[0].weight.fill_(math.nan)
    message = r"Probe: nc1 is NaN at step 1: .* So are half, singular: `Reading\.missing` says why\."
    with pytest.warns(UserWarning, match=message) as said:
        reading = probe(1)
    assert len(said) == 1
    assert reading.missing["half"] == reading.missing["nc1"]
    assert "expected finite numbers, got nan" in reading.missing["nc1"]
    assert "singular_values(jacobian): expected finite numbers, got nan" in reading.missing["singular"]
    scalars = reading.scalars()
    assert [name for name, value in scalars.items() if math.isnan(value)] == ["nc1", "half", "singular"]
    assert scalars["n"] == X.sum(1).double().mean().item()
    assert probe(2).missing.keys() == {"nc1", "half", "singular"}
    with pytest.raises(RangeError, match="expected finite numbers, got nan"):
        probe.read(2)
    model.load_state_dict(good)
    assert probe(3).missing == {}


def test_a_matrix_that_cannot_be_decomposed_is_said_with_its_quantity():
    probe = Probe(mlp((5, 3)), X, {"inverse": lambda x: torch.linalg.inv(torch.zeros(2, 2)) * x.sum()})
    message = r"Probe\(quantities\): expected matrices in inverse that torch can decompose, got linalg\.inv: .*singular"
    with pytest.raises(ConvergenceError, match=message):
        probe.read()
    with pytest.warns(UserWarning, match=f"inverse is NaN at step 0: {message}"):
        assert probe(0).values["inverse"].isnan()


def test_a_stopping_rule_leaves_out_steps_without_values():
    model = mlp((5, 8, 3), generator=torch.Generator().manual_seed(0))
    probe = Probe(model, (X, LABELS), [gnomon.mse_decomposition, centroid_alignment])
    total = stop_when(lambda loss: len(loss) >= 2, loss="mse_decomposition.total")
    aligned = stop_when(plateau, alignment="centroid_alignment", pc1="centroid_alignment")
    good = {name: value.clone() for name, value in model.state_dict().items()}
    for step in range(5):
        model.load_state_dict({k: v * math.nan for k, v in good.items()} if step == 2 else good)
        with pytest.warns(UserWarning, match="is NaN at step 2") if step == 2 else nullcontext():
            reading = probe(step)
        assert total(reading) == (step not in (0, 2))
        aligned(reading)
    assert total.steps == aligned.steps == [0, 1, 3, 4]


@pytest.mark.parametrize("quantity", [nc1, accuracy])
def test_weights_that_training_caches_keep_their_graph(quantity):
    def trained(read):
        torch.manual_seed(1)
        x, labels = torch.randn(24, 6), torch.arange(24) % 3
        model = nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))
        optimizer, probe = torch.optim.SGD(model.parameters(), 0.1), Probe(model, (x, labels), [quantity])
        for step in range(3):
            with parametrize.cached():
                if read:
                    probe(step)
                kept = parametrize._cache
                loss = functional.cross_entropy(model(x), labels)
                optimizer.zero_grad()
                loss.backward()
                assert parametrize._cache is kept
            assert parametrize._cache_enabled == 0
            optimizer.step()
        return [*model.parameters()]

    torch.testing.assert_close(trained(True), trained(False), rtol=0, atol=0)


class AsCudnnDoes(torch.autograd.Function):
    """What cuDNN's backward pass of a recurrent layer refuses."""

    @staticmethod
    def forward(ctx, outputs, training):
        ctx.refused = torch.backends.cudnn.enabled and not training
        return outputs.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.refused:
            raise RuntimeError("cudnn RNN backward can only be called in training mode")
        return gradient, None


class AsOne(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0][:, -1]


class OnCuda(AsOne):
    def parameters(self, recurse=True):
        return iter([SimpleNamespace(is_cuda=True)])

    def forward(self, x):
        return AsCudnnDoes.apply(super().forward(x), self.training)


@pytest.mark.parametrize("quantity", [jacobian_norm, gnomon.gradient_norm, gnomon.hessian_trace])
def test_recurrent_layers_on_cuda_are_read_without_cudnn(quantity):
    """A stand-in, since tests have no GPU; other networks keep it."""
    torch.manual_seed(0)
    model, found = nn.Sequential(AsOne(4, 8, batch_first=True), nn.Linear(8, 3)), []

    def enabled(logits):
        return torch.tensor(float(torch.backends.cudnn.enabled))

    for kind in (AsOne, OnCuda):
        model[0].__class__ = kind
        found.append(Probe(model, (torch.ones(12, 5, 4), LABELS), [quantity, enabled]).read().scalars())
        assert torch.backends.cudnn.enabled
    assert [values.pop("enabled") for values in found] == [1, 0]
    torch.testing.assert_close(*found)
