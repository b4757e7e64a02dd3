"""Grokfast: the running means against their definitions, in training, across a checkpoint, and when all goes wrong."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.models import mlp
from gnomon.steer import GrokfastEMA, GrokfastMA
from gnomon_lab.runs.checkpoint import load_checkpoint, save_checkpoint

EMA, MA = {"alpha": 0.8, "lamb": 0.1}, {"window": 3, "lamb": 5.0}
METHODS = {"EMA": (GrokfastEMA, EMA), "MA": (GrokfastMA, MA)}
OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, 0.01, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, 1e-2),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, 1e-3),
}


def slow_mean(name, history):
    """Of all gradients so far: the definition, as a loop; None while there is none."""
    if name == "MA":
        return sum(history[-3:]) / 3 if len(history) >= 3 else None
    mean = history[0]
    for gradient in history:
        mean = 0.8 * mean + 0.2 * gradient
    return mean


def batches(steps, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        yield torch.randn(8, 6, generator=generator, dtype=dtype), torch.randint(3, (8,), generator=generator)


def network(dtype=torch.float64):
    return mlp((6, 8, 3), bias=True, generator=torch.Generator().manual_seed(0)).to(dtype)


def backward(model, x, labels):
    model.zero_grad()
    functional.cross_entropy(model(x), labels).backward()


def amplify(grokfast, parameter, *gradients):
    """The gradients as they come out, one after another."""
    amplified = []
    for gradient in gradients:
        parameter.grad = gradient.clone()
        grokfast()
        amplified.append(parameter.grad)
    return amplified


@pytest.fixture
def parameter():
    return nn.Parameter(torch.zeros(2, dtype=torch.float64))


@pytest.fixture
def slope(generator):
    return torch.randn(2, generator=generator, dtype=torch.float64)


def test_constant_gradient_is_a_multiple_at_once(parameter, slope):
    for amplified in amplify(GrokfastEMA([parameter], 0.98, 2.0), parameter, *[slope] * 50):
        torch.testing.assert_close(amplified, 3 * slope, rtol=0, atol=0)


def test_mean_forgets_the_first_gradient_geometrically(parameter, slope):
    """From a to b after one step: μ = b + αᵗ (a − b)."""
    first = torch.ones(2, dtype=torch.float64)
    _, *amplified = amplify(GrokfastEMA([parameter], 0.9, 2.0), parameter, first, *[slope] * 200)
    for t, gradient in enumerate(amplified, 1):
        torch.testing.assert_close(gradient, slope + 2 * (slope + 0.9**t * (first - slope)))
    torch.testing.assert_close(amplified[-1], 3 * slope)


def test_window_waits_until_it_is_full_and_holds_this_gradient(parameter):
    ramp = [torch.full((2,), float(t), dtype=torch.float64) for t in range(1, 11)]
    amplified = amplify(GrokfastMA([parameter], 4, 5.0), parameter, *ramp)
    for t, gradient in enumerate(amplified, 1):
        truth = t if t < 4 else t + 5 * (t - 1.5)
        torch.testing.assert_close(gradient, torch.full((2,), truth, dtype=torch.float64), rtol=0, atol=0)


def test_window_forgets_large_gradients_wholly(parameter, slope):
    """When the loss underflows, gradients fall by many orders; a running sum would keep the rounding of the first."""
    *_, amplified = amplify(GrokfastMA([parameter], 4, 1.0), parameter, *[1e9 * slope] * 5, *[1e-12 * slope] * 4)
    torch.testing.assert_close(amplified, 2e-12 * slope, atol=0, rtol=1e-15)


@pytest.mark.parametrize("lamb", [0.0, 2.0])
def test_no_memory_is_a_multiple_of_the_gradient(parameter, slope, lamb):
    """α = 0 and w = 1: the mean is the gradient."""
    for grokfast in (GrokfastEMA([parameter], 0.0, lamb), GrokfastMA([parameter], 1, lamb)):
        for amplified, gradient in zip(amplify(grokfast, parameter, slope, -slope), (slope, -slope), strict=True):
            torch.testing.assert_close(amplified, (1 + lamb) * gradient)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_equals_the_plain_loop(name, optimizer):
    method, settings = METHODS[name]
    ours, plain = network(), network()
    optimizers = [OPTIMIZERS[optimizer](model.parameters()) for model in (ours, plain)]
    grokfast = method(ours.named_parameters(), **settings)
    histories = [[] for _ in plain.parameters()]
    for x, labels in batches(12):
        backward(ours, x, labels)
        grokfast()
        backward(plain, x, labels)
        for parameter, history in zip(plain.parameters(), histories, strict=True):
            history.append(parameter.grad.clone())
            mean = slow_mean(name, history)
            if mean is not None:
                parameter.grad = parameter.grad + settings["lamb"] * mean
        for each in optimizers:
            each.step()
    for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", METHODS)
def test_accumulated_gradients_count_as_one(name):
    """Four quarters of a batch, then one call: the mean is that of whole batches."""
    method, settings = METHODS[name]
    model = network()
    grokfast = method(model.parameters(), **settings)
    histories = [[] for _ in model.parameters()]
    for x, labels in batches(6):
        backward(model, x, labels)
        for parameter, history in zip(model.parameters(), histories, strict=True):
            history.append(parameter.grad.clone())
        model.zero_grad()
        for quarter in range(0, 8, 2):
            (functional.cross_entropy(model(x[quarter : quarter + 2]), labels[quarter : quarter + 2]) / 4).backward()
        grokfast()
        for parameter, history in zip(model.parameters(), histories, strict=True):
            mean = slow_mean(name, history)
            expected = history[-1] if mean is None else history[-1] + settings["lamb"] * mean
            torch.testing.assert_close(parameter.grad, expected)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("set_to_none", [True, False])
def test_memory_is_its_own(name, set_to_none, slope):
    """Neither zeroing the gradients in place nor amplifying them reaches into what is remembered."""
    method, settings = METHODS[name]
    parameter = nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer, grokfast = torch.optim.SGD([parameter], 0.1), method([parameter], **settings)
    history = []
    for t in range(6):
        optimizer.zero_grad(set_to_none=set_to_none)
        (t * slope @ parameter).backward()
        history.append(t * slope)
        grokfast()
        mean = slow_mean(name, history)
        expected = t * slope + (0 if mean is None else settings["lamb"] * mean)
        torch.testing.assert_close(parameter.grad, expected)


@pytest.mark.parametrize("name", METHODS)
def test_parameters_without_gradient_rest(name, slope):
    """A layer that is frozen, or used now and then, counts only its own gradients."""
    method, settings = METHODS[name]
    often, seldom, never = (nn.Parameter(torch.zeros(2, dtype=torch.float64)) for _ in range(3))
    grokfast = method([often, seldom, never], **settings)
    history = []
    for t in range(12):
        often.grad = torch.ones_like(often)
        seldom.grad = t * slope if t % 2 == 0 else None
        grokfast()
        if seldom.grad is not None:
            history.append(t * slope)
            mean = slow_mean(name, history)
            expected = t * slope + (0 if mean is None else settings["lamb"] * mean)
            torch.testing.assert_close(seldom.grad, expected)
    assert never.grad is None


@pytest.mark.unchecked
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("done", [1, 2, 7])
def test_resumed_run_is_the_unbroken_one(tmp_path, name, optimizer, dtype, done):
    """Bit for bit, through a checkpoint file, whether the window was full or not."""
    method, settings = METHODS[name]

    def parts():
        model = network(dtype)
        return model, OPTIMIZERS[optimizer](model.parameters()), method(model.parameters(), **settings)

    def train(model, optimizer, grokfast, data):
        for x, labels in data:
            backward(model, x, labels)
            grokfast()
            optimizer.step()

    data = list(batches(12, dtype))
    unbroken, killed, resumed = parts(), parts(), parts()
    train(*unbroken, data)
    train(*killed, data[:done])
    save_checkpoint(tmp_path / "checkpoint", [part.state_dict() for part in killed])
    train(*killed, data[done:])
    for part, state in zip(resumed, load_checkpoint(tmp_path / "checkpoint"), strict=True):
        part.load_state_dict(state)
    train(*resumed, data[done:])
    for parameters in zip(*(part[0].parameters() for part in (unbroken, killed, resumed)), strict=True):
        for other in parameters[1:]:
            torch.testing.assert_close(parameters[0], other, rtol=0, atol=0)
    assert resumed[2].steps == 12


@pytest.mark.parametrize("name", METHODS)
def test_loaded_state_is_a_copy(name, parameter, slope):
    method, settings = METHODS[name]
    first, second = (method([parameter], **settings) for _ in range(2))
    amplify(first, parameter, slope)
    state = first.state_dict()
    before = copy.deepcopy(state)
    second.load_state_dict(state)
    amplify(second, parameter, -slope)
    torch.testing.assert_close(state["memory"], before["memory"], rtol=0, atol=0)
    assert state["taken"] == before["taken"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_mean_in_float32(dtype):
    """A step of 1 − α = 2⁻¹⁰ on a mean of one: half precision would not move, and then round twice."""
    parameter = nn.Parameter(torch.zeros(1, dtype=dtype))
    grokfast = GrokfastEMA([parameter], 1 - 2**-10, 1.0)
    amplified = amplify(grokfast, parameter, torch.ones(1, dtype=dtype), *[torch.full((1,), 0.5, dtype=dtype)] * 300)
    mean = 0.5 + 0.5 * (1 - 2**-10) ** 300
    torch.testing.assert_close(grokfast.state_dict()["memory"][0], torch.tensor([mean]), rtol=1e-5, atol=0)
    assert amplified[-1].dtype == dtype
    torch.testing.assert_close(amplified[-1], torch.tensor([0.5 + mean]).to(dtype), rtol=0, atol=0)


@pytest.mark.parametrize("name", METHODS)
def test_half_precision_window_and_mean_round_once(name, generator):
    method, settings = METHODS[name]
    parameter = nn.Parameter(torch.zeros(50, dtype=torch.bfloat16))
    history = list(torch.randn(8, 50, generator=generator).bfloat16())
    *_, amplified = amplify(method([parameter], **settings), parameter, *history)
    exact = history[-1].double() + settings["lamb"] * slow_mean(name, [g.double() for g in history])
    torch.testing.assert_close(amplified, exact.bfloat16(), rtol=0, atol=0)


ON_GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))


@pytest.mark.parametrize("to", [torch.float64, ON_GPU])
@pytest.mark.parametrize("name", METHODS)
def test_memory_follows_the_gradients_dtype_and_device(name, to, slope):
    """A model converted or moved between steps; the memory goes with it."""
    method, settings = METHODS[name]
    parameter = nn.Parameter(torch.zeros(2))
    grokfast = method([parameter], **settings)
    amplify(grokfast, parameter, *[slope.float()] * 3)
    parameter.grad = None
    parameter.data = parameter.data.to(to)
    (amplified,) = amplify(grokfast, parameter, slope.float().to(to))
    torch.testing.assert_close(amplified, (1 + settings["lamb"]) * slope.float().to(to))
    assert grokfast.state_dict()["memory"][0].device == parameter.device


@pytest.mark.parametrize("name", METHODS)
def test_scaled_training_is_the_unscaled_one_and_skips_overflow(name):
    """Under a GradScaler, called after unscale_: an overflowing step leaves parameters, gradients and mean alone."""
    method, settings = METHODS[name]
    plain, scaled = network(torch.float32), network(torch.float32)
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in (plain, scaled)]
    steerings = [method(model.parameters(), skip_nonfinite=True, **settings) for model in (plain, scaled)]
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for step, (x, labels) in enumerate(batches(10, torch.float32)):
        optimizers[1].zero_grad()
        scaler.scale(functional.cross_entropy(scaled(x), labels)).backward()
        overflow = step in (0, 4)
        if overflow:
            next(scaled.parameters()).grad[0, 0] = math.inf
        scaler.unscale_(optimizers[1])
        before = [parameter.grad.clone() for parameter in scaled.parameters()]
        steerings[1]()
        if overflow:
            torch.testing.assert_close([p.grad for p in scaled.parameters()], before, rtol=0, atol=0, equal_nan=True)
        scaler.step(optimizers[1])
        scaler.update()
        if not overflow:
            backward(plain, x, labels)
            steerings[0]()
            optimizers[0].step()
    torch.testing.assert_close(list(scaled.parameters()), list(plain.parameters()))
    assert steerings[1].state_dict()["taken"] == steerings[0].state_dict()["taken"]
    assert steerings[1].steps == steerings[0].steps + 2


def test_divergence_is_an_error_that_names_step_parameter_and_norms():
    """Gradient descent with too long a step on a parabola: the gradients grow until they overflow."""
    model = nn.ModuleDict({"steep": nn.Linear(1, 1, bias=False), "flat": nn.Linear(1, 1, bias=False)})
    nn.init.ones_(model["steep"].weight)
    grokfast = GrokfastEMA(model.named_parameters(), 0.8, 2.0)
    optimizer = torch.optim.SGD(model.parameters(), 10.0)
    growth = r"GrokfastEMA: .*finite.*gradient, got norm (inf|nan) \(torch.float32\) in steep.weight at step \d+"

    def train():
        for _ in range(200):
            optimizer.zero_grad()
            (model["steep"].weight.square() + 1e-3 * model["flat"].weight).sum().backward()
            grokfast()
            optimizer.step()

    with pytest.raises(
        RangeError, match=growth + r"; the memory of its \d+ gradients is of norm (\d\S*e\+3\d|inf|nan)"
    ):
        train()
    assert 10 < grokfast.steps < 100


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_gradient_changes_nothing(name, value, slope):
    method, settings = METHODS[name]
    model = nn.Linear(2, 2).double()
    grokfast = method(model.named_parameters(), **settings)
    for _ in range(3):
        model.weight.grad, model.bias.grad = torch.ones_like(model.weight), slope.clone()
        grokfast()
    model.weight.grad, model.bias.grad = torch.ones_like(model.weight), torch.tensor([1.0, value]).double()
    before = copy.deepcopy(grokfast.state_dict())
    got = rf"got norm {abs(value)} \(torch.float64\) in bias at step 4; the memory of its 3 gradients is of norm \d"
    with pytest.raises(RangeError, match=rf"Grokfast{name}: expected a finite gradient, {got}.*skip_nonfinite"):
        grokfast()
    torch.testing.assert_close(model.weight.grad, torch.ones_like(model.weight))
    torch.testing.assert_close(grokfast.state_dict()["memory"], before["memory"], rtol=0, atol=0)
    assert grokfast.state_dict()["taken"] == before["taken"]


def test_opposite_infinities_are_seen(parameter):
    with pytest.raises(RangeError, match=r"got norm inf .* in parameter 0 at step 1; .* 0 gradients is empty"):
        amplify(GrokfastEMA([parameter]), parameter, torch.tensor([math.inf, -math.inf]).double())


def test_large_but_finite_gradients_pass():
    """Their sum overflows; they do not."""
    parameter = nn.Parameter(torch.zeros(4))
    (amplified,) = amplify(GrokfastEMA([parameter], lamb=0.1), parameter, torch.full((4,), 2e38))
    torch.testing.assert_close(amplified, torch.full((4,), 2.2e38))


def test_amplification_beyond_the_dtype_is_an_error():
    parameter = nn.Parameter(torch.zeros(2, dtype=torch.float16))
    with pytest.raises(RangeError, match=r"finite amplified gradient, got norm inf \(torch.float16\).*norm 4.24e\+04"):
        amplify(GrokfastEMA([parameter]), parameter, torch.full((2,), 3e4, dtype=torch.float16))


def test_damaged_memory_is_named(parameter, slope):
    grokfast = GrokfastEMA([("weight", parameter)])
    amplify(grokfast, parameter, slope)
    state = grokfast.state_dict()
    state["memory"][0] = torch.full((2,), math.nan, dtype=torch.float64)
    grokfast.load_state_dict(state)
    with pytest.raises(RangeError, match=r"amplified gradient, got norm nan .* in weight at step 2; .* is of norm nan"):
        amplify(grokfast, parameter, slope)


def test_bad_settings_are_listed_together(parameter):
    with pytest.raises(RangeError, match=r"GrokfastEMA: expected alpha in \[0, 1\), got 1.0; lamb .*, got nan"):
        GrokfastEMA([parameter], 1.0, math.nan)
    with pytest.raises(RangeError, match=r"GrokfastMA: expected window a whole .*, got 0; lamb .*, got -1.0"):
        GrokfastMA([parameter], 0, -1.0)


@pytest.mark.bad_input
def test_a_window_is_a_whole_number(parameter):
    with pytest.raises(RangeError, match=r"GrokfastMA: expected window a whole number of at least 1, got 2.5"):
        GrokfastMA([parameter], 2.5)


@pytest.mark.parametrize("name", METHODS)
def test_bad_parameters_are_errors(name, parameter):
    method, _ = METHODS[name]
    with pytest.raises(EmptyError, match=rf"Grokfast{name}\(parameters\): expected at least one, got none"):
        method([])
    with pytest.raises(RangeError, match=r"leaf tensors, got the result of an operation as parameter 0.*named_param"):
        method([2 * parameter])
    with pytest.raises(RangeError, match=r"expected each once, got some twice"):
        method([parameter, parameter])


@pytest.mark.parametrize("name", METHODS)
def test_calls_in_the_wrong_place_are_errors(name, parameter):
    method, _ = METHODS[name]
    with pytest.raises(EmptyError, match=rf"Grokfast{name}: expected gradients, got none on all 1 .* backward\(\)"):
        method([parameter])()
    embedding = nn.Embedding(4, 2, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RangeError, match=r"expected dense gradients, got torch.sparse_coo in weight.*sparse=False"):
        method(embedding.named_parameters())()


def test_states_of_others_are_errors(parameter, slope):
    ema, ma = GrokfastEMA([parameter]), GrokfastMA([parameter], 3)
    for grokfast in (ema, ma):
        amplify(grokfast, parameter, slope)
    with pytest.raises(
        ShapeError, match=r"GrokfastEMA\(state_dict\): expected \(2,\) for parameter 0, got shape \(3, 2\)"
    ):
        ema.load_state_dict(ma.state_dict())
    with pytest.raises(
        ShapeError, match=r"GrokfastMA\(state_dict\): expected \(4, 2\) for parameter 0, got shape \(3, 2"
    ):
        GrokfastMA([parameter], 4).load_state_dict(ma.state_dict())
    two = GrokfastEMA([parameter, other := nn.Parameter(torch.zeros(1))])
    other.grad = torch.ones(1)
    two()
    with pytest.raises(ShapeError, match=r"expected nothing for parameter 1, got shape \(1,\)"):
        ema.load_state_dict(two.state_dict())
