"""Input noise: its level, its moments, its memory."""

import math

import numpy as np
import pytest
import torch

from gnomon.errors import CheckpointError, RangeError, ShapeError
from gnomon.models import mlp
from gnomon.steer import InputNoise, input_noise, noise_level
from gnomon_lab.runs.checkpoint import load_checkpoint, save_checkpoint


@pytest.mark.parametrize(("accuracy", "level"), [(0.0, 0.06), (0.25, 0.045), (0.5, 0.03), (0.8, 0.03), (1.0, 0.03)])
def test_level_is_the_closed_form(accuracy, level):
    assert noise_level(accuracy) == pytest.approx(level, rel=1e-15)


def test_level_of_several_seeds_is_that_of_each():
    accuracies = torch.linspace(0, 1, 11, dtype=torch.float64)
    truth = torch.tensor([max(2.0 * (1 - a), 0.5) for a in accuracies.tolist()], dtype=torch.float64)
    torch.testing.assert_close(noise_level(accuracies, 2.0, 0.5), truth)


@pytest.mark.parametrize("accuracy", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_moments_are_those_of_the_level(accuracy, dtype, generator):
    """Mean 0, variance σ², fourth moment 3 σ⁴, and neighbours that know nothing of each other, in units of σ."""
    n = 200_000
    noise = input_noise(torch.zeros(n, dtype=dtype), accuracy, generator=generator).double() / noise_level(accuracy)
    for powers, truth in ((noise, 0), (noise**2, 1), (noise**4, 3), (noise[1:] * noise[:-1], 0)):
        error = powers.std() / math.sqrt(len(powers))
        assert error < 0.025
        torch.testing.assert_close(powers.mean().item(), float(truth), rtol=0, atol=5 * error.item())


def test_noise_is_added_to_the_inputs(generator):
    """The same draws whatever the inputs and the level: x + σ ε."""
    x = torch.randn(5, 3, 2, generator=generator, dtype=torch.float64)

    def draw(x, accuracy):
        return input_noise(x, accuracy, generator=torch.Generator().manual_seed(3))

    expected = torch.randn(5, 3, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    torch.testing.assert_close(draw(x, 0.2), x + 0.048 * expected)
    torch.testing.assert_close(draw(x, 0.9), x + 0.03 * expected)


def test_seeds_on_one_axis_have_their_own_levels():
    x = torch.zeros(3, 4, 2, dtype=torch.float64)
    accuracy = torch.tensor([0.0, 0.4, 1.0])
    noisy = input_noise(x, accuracy[:, None, None], generator=torch.Generator().manual_seed(3))
    expected = torch.randn(x.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for seed, level in enumerate((0.06, 0.036, 0.03)):
        torch.testing.assert_close(noisy[seed], level * expected[seed], rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtype_stays_and_inputs_are_untouched(dtype, generator):
    x = torch.randn(4, 3, generator=generator).to(dtype).requires_grad_()
    before = x.detach().clone()
    for accuracy in (0.5, torch.tensor(0.5, dtype=torch.float64)):
        noisy = input_noise(x, accuracy, generator=generator)
        assert noisy.dtype == dtype
        torch.testing.assert_close(x.detach(), before, rtol=0, atol=0)
        (gradient,) = torch.autograd.grad(noisy.sum(), x)
        torch.testing.assert_close(gradient, torch.ones_like(x))


def test_memory_is_the_function_at_the_last_accuracy():
    x = torch.zeros(20, dtype=torch.float64)
    noise = InputNoise(2.0, 0.5, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    torch.testing.assert_close(noise(x), input_noise(x, 0.0, 2.0, 0.5, generator))
    noise.train_accuracy = 0.4
    for _ in range(2):
        torch.testing.assert_close(noise(x), input_noise(x, 0.4, 2.0, 0.5, generator))


@pytest.mark.parametrize("tensor", [True, False])
def test_resumed_run_is_the_unbroken_one(tmp_path, tensor):
    """Bit for bit, with the generator beside it: the accuracy is that of the last pass, looked at every third step."""
    data = torch.Generator().manual_seed(1)
    x, labels = torch.randn(16, 4, generator=data), torch.randint(3, (16,), generator=data)

    def parts():
        model = mlp((4, 8, 3), generator=torch.Generator().manual_seed(0))
        generator = torch.Generator().manual_seed(7)
        return model, torch.optim.AdamW(model.parameters(), 1e-2), InputNoise(2.0, 0.1, generator)

    def train(model, optimizer, noise, steps):
        for step in steps:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(noise(x)), labels).backward()
            optimizer.step()
            if step % 3 == 0:
                accuracy = (model(x).argmax(1) == labels).double().mean()
                noise.train_accuracy = accuracy[None] if tensor else accuracy.item()

    unbroken, killed, resumed = parts(), parts(), parts()
    train(*unbroken, range(12))
    train(*killed, range(5))
    states = [part.state_dict() for part in killed] + [killed[2].generator.get_state()]
    save_checkpoint(tmp_path / "checkpoint", states)
    *states, drawn = load_checkpoint(tmp_path / "checkpoint")
    for part, state in zip(resumed, states, strict=True):
        part.load_state_dict(state)
    resumed[2].generator.set_state(drawn)
    train(*resumed, range(5, 12))
    for one, other in zip(unbroken[0].parameters(), resumed[0].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert unbroken[2].train_accuracy > 0
    torch.testing.assert_close(resumed[2].train_accuracy, unbroken[2].train_accuracy, rtol=0, atol=0)


@pytest.mark.parametrize("accuracy", [-0.1, 1.1, math.nan, 85.0, torch.tensor([0.5, 1.5])])
def test_bad_accuracies_are_errors(accuracy):
    for call in (noise_level, lambda a: input_noise(torch.zeros(2), a), lambda a: InputNoise(train_accuracy=a)):
        with pytest.raises(
            RangeError, match=r"noise_level: expected train_accuracy in \[0, 1\], got (-?\d|nan|tensor)"
        ):
            call(accuracy)


def test_bad_settings_are_listed_together():
    with pytest.raises(RangeError, match=r"largest finite and at least 0, got -1.0; least .*, got inf. Change these"):
        InputNoise(-1.0, math.inf)


@pytest.mark.bad_input
def test_the_least_level_is_not_above_the_largest():
    x = torch.zeros(2)
    for call in (lambda level: noise_level(0.0, level), lambda level: input_noise(x, 0.0, level), InputNoise):
        with pytest.raises(RangeError, match=r"noise_level: expected least at most largest, 0\.01, got 0\.03\. Change"):
            call(0.01)
    assert noise_level(0.0, 0.02, 0.02) == noise_level(1.0, 0.02, 0.02) == 0.02


@pytest.mark.bad_input
def test_bad_inputs_are_named():
    with pytest.raises(RangeError, match=r"input_noise\(x\): expected a floating-point tensor, got torch.int64"):
        input_noise(torch.zeros(2, dtype=torch.long), 0.5)
    for shape in ((3, 1, 1), (3,)):
        with pytest.raises(ShapeError, match=rf"input_noise\(train_accuracy\): .* x, \(4, 2\), got \({shape[0]},"):
            input_noise(torch.zeros(4, 2), torch.zeros(shape))


@pytest.mark.bad_input  # no type checker lets it through
def test_an_accuracy_of_numpy_is_one():
    noise = InputNoise(least=0.0)
    noise.train_accuracy = np.float32(1)
    torch.testing.assert_close(noise(torch.ones(2)), torch.ones(2))


@pytest.mark.bad_input
def test_a_state_whose_accuracy_is_none_is_refused_when_it_is_loaded():
    noise = InputNoise()
    with pytest.raises(CheckpointError, match=r"expected a train_accuracy in \[0, 1\], got 1.5. Load a state of the"):
        noise.load_state_dict({"train_accuracy": 1.5})
    assert noise.train_accuracy == 0.0
    with pytest.raises(CheckpointError, match=r"expected a train_accuracy in \[0, 1\]"):
        noise.load_state_dict({"train_accuracy": torch.tensor([0.5, 1.5])})
    for accuracy in (1.0, 0.0):
        noise.load_state_dict({"train_accuracy": accuracy})
        assert noise.train_accuracy == accuracy


@pytest.mark.bad_input
def test_a_list_of_accuracies_is_no_tensor():
    with pytest.raises(
        TypeError, match=r"noise_level\(train_accuracy\): expected a tensor of real .*, got list\. Pass one"
    ):
        noise_level([0.5, 1.0])
