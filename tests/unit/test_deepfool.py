"""DeepFool: against the plain algorithm, closed forms, and the exact boundaries of piecewise affine networks."""

import pytest
import torch
from torch import nn

import gnomon
from gnomon import deepfool
from gnomon.errors import EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.models import mlp, resnet18
from gnomon.regions import Plane, boundary_distance, decision_boundary, slice_regions
from tests.contract.of_robustness import algorithm_2


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def net(*widths, seed=0):
    return mlp(widths, bias=True, scale=2.0, generator=seeded(seed)).double()


@pytest.mark.parametrize("seed", range(5))
def test_equals_the_plain_algorithm(seed):
    model, x = nn.Sequential(nn.Flatten(), net(6, 24, 24, 5, seed=seed)), normal(20, 2, 3, seed=seed)
    found = deepfool(model, x, overshoot=0.05)
    expected = [algorithm_2(model, sample, 0.05, 50) for sample in x]
    torch.testing.assert_close(found.perturbation, torch.stack([r for r, _ in expected]))
    assert found.steps.tolist() == [steps for _, steps in expected]
    assert found.steps.unique().numel() > 1


def test_a_linear_classifier_has_a_closed_form():
    """The distance to the nearest of the half-spaces of the other classes, in one step."""
    layer, x = net(6, 4), normal(30, 6)
    found = deepfool(layer, x, overshoot=0.02)
    weight, outputs = layer[0].weight.detach(), layer(x)
    for sample, logits in enumerate(outputs.tolist()):
        y = logits.index(max(logits))
        apart = [(logits[y] - logits[k]) / float((weight[y] - weight[k]).norm()) for k in range(4) if k != y]
        torch.testing.assert_close(float(found.norm[sample]), 1.02 * min(apart))
    assert (found.steps == 1).all()
    assert found.flipped.all()
    torch.testing.assert_close(found.robustness, found.norm / x.norm(dim=1))


def test_one_step_without_biases_is_the_robust_radius():
    model, x = mlp((6, 16, 4), generator=seeded()).double(), normal(30, 6)
    found = deepfool(model, x, max_steps=1)
    radius = gnomon.robust_radius(gnomon.input_jacobian(model, x).detach(), x)
    torch.testing.assert_close(found.norm, 1.02 * radius)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_perturbed_samples_are_of_the_class_that_is_said(dtype):
    model = resnet18(1, 10, width=4, generator=seeded()).eval().to(dtype)
    x = torch.randn(12, 1, 12, 12, generator=seeded(), dtype=dtype)
    found = deepfool(model, x)
    assert found.norm.dtype == found.robustness.dtype == found.perturbation.dtype == dtype
    assert torch.equal(model(x).argmax(1), found.left)
    assert torch.equal(model(x + found.perturbation).argmax(1), found.reached)
    assert torch.equal(found.flipped, found.left != found.reached)
    assert found.flipped.all()
    torch.testing.assert_close(found.norm, found.perturbation.flatten(1).norm(dim=1))


@pytest.mark.parametrize("seed", range(3))
def test_never_nearer_than_the_exact_boundary_and_exact_inside_a_region(seed):
    """The perturbation ends in another class, so the exact boundary of a plane's partition is nearer, or as near."""
    model, x, overshoot = net(2, 16, 16, 3, seed=seed), normal(600, 2, seed=seed), 1e-6
    found = deepfool(model, x, overshoot=overshoot)
    # Far enough that no way to a class leads outside.
    half = 3 * float(x.abs().max() + found.norm.max())
    plane = Plane(torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))
    lines = decision_boundary(slice_regions(model.eval(), plane, (-half, half, -half, half)))
    exact = torch.stack([to_line(x, line) for line in lines]).amin(0)
    assert (found.norm[found.flipped] >= exact[found.flipped]).all()
    # A boundary that is nearer than where the network bends is where its one affine piece says.
    inside = exact * (1 + 2 * overshoot) < boundary_distance(model, x)
    assert 10 < inside.sum() < len(x)
    torch.testing.assert_close(found.norm[inside], exact[inside] * (1 + overshoot))
    assert (found.steps[inside] == 1).all()


def to_line(x, line):
    """The distance of each point to a line of segments."""
    start, along = line[:-1], line.diff(dim=0)
    share = ((x[:, None] - start) * along).sum(2) / along.square().sum(1)
    return (x[:, None] - start - share.clamp(0, 1)[..., None] * along).norm(dim=2).amin(1)


def test_what_does_not_flip_is_said_and_is_not_nan():
    """Where all outputs move together no step helps; too few steps may not suffice; a tie is no distance at all."""
    model = net(3, 8, 4)
    with torch.no_grad():
        model[-1].weight[:] = model[-1].weight[:1]
    found = deepfool(model, normal(5, 3))
    assert not found.flipped.any()
    assert (found.steps == 1).all()
    assert (found.norm == 0).all()
    assert (found.robustness == 0).all()

    model, x = net(6, 24, 24, 5, seed=2), normal(60, 6)
    short, long = deepfool(model, x, max_steps=1), deepfool(model, x)
    assert 0 < short.flipped.sum() < len(x)
    assert torch.equal(short.flipped, long.steps == 1)
    assert long.flipped.all()
    assert (short.norm > 0).all()
    torch.testing.assert_close(short.norm[short.flipped], long.norm[short.flipped])

    tie = nn.Linear(2, 2, bias=False).double()
    found = deepfool(tie, torch.zeros(1, 2, dtype=torch.float64))
    assert not found.flipped.any()
    assert found.robustness.tolist() == [0]


def test_where_there_is_no_other_class_the_search_ends():
    """Towards the zero of a square, Newton's steps halve forever."""
    found = deepfool(lambda x: torch.cat([x.square(), -x.square()], 1), torch.tensor([[1.0], [-3.0]]), max_steps=20)
    assert not found.flipped.any()
    assert found.steps.tolist() == [20, 20]
    assert found.norm.isfinite().all()


def test_two_equal_outputs_hide_no_third_class():
    twins = nn.Linear(2, 3, bias=False).double()
    with torch.no_grad():
        twins.weight[:] = torch.tensor([[3.0, 4.0], [3.0, 4.0], [0.0, 0.0]])
    found = deepfool(twins, torch.tensor([[3.0, 4.0]], dtype=torch.float64), overshoot=0.1)
    assert found.reached.tolist() == [2]
    torch.testing.assert_close(found.norm, torch.tensor([5.5], dtype=torch.float64))


def test_the_prediction_is_left_whatever_the_label():
    """A perturbed sample is one that is misclassified at the start: it is led away from where it is."""
    model, x = net(6, 24, 5), normal(20, 6)
    fooled = x + deepfool(model, x).perturbation
    again = deepfool(model, fooled)
    assert torch.equal(again.left, model(fooled).argmax(1))
    assert (again.left != model(x).argmax(1)).all()
    assert again.flipped.all()


def test_a_zero_sample_has_infinite_robustness():
    found = deepfool(net(3, 8, 4), torch.zeros(1, 3, dtype=torch.float64))
    assert found.flipped.all()
    assert found.robustness.tolist() == [torch.inf]


def test_scaling_and_common_outputs_change_nothing():
    model, x, common = net(6, 24, 5), normal(20, 6), net(6, 8, 1, seed=1)
    expected = deepfool(model, x).perturbation
    torch.testing.assert_close(deepfool(lambda points: 1e-3 * model(points), x).perturbation, expected)
    torch.testing.assert_close(deepfool(lambda points: model(points) + common(points), x).perturbation, expected)


@pytest.mark.parametrize("size", [2.0**-83, 2.0**83])
def test_outputs_whose_squares_are_beyond_the_range_of_float32(size):
    """By powers of two, so that there is no rounding."""
    model, x = net(6, 24, 5).float(), normal(20, 6).float()
    expected, found = deepfool(model, x), deepfool(lambda points: size * model(points), x)
    assert expected.flipped.all()
    torch.testing.assert_close(vars(found), vars(expected))


@pytest.mark.parametrize("away", [2.0**-83, 2.0**83])
def test_distances_whose_squares_are_beyond_the_range_of_float32(away):
    model, x = net(6, 24, 5).float(), normal(20, 6).float()
    with torch.no_grad():
        for layer in (model[0], model[2]):
            layer.bias.zero_()
    expected, found = deepfool(model, x), deepfool(model, x * away)
    assert expected.flipped.all()
    torch.testing.assert_close(found.norm / away, expected.norm)
    torch.testing.assert_close(found.robustness, expected.robustness)
    assert torch.equal(found.reached, expected.reached)


def test_a_distance_that_float32_does_not_hold_is_none():
    """Of outputs 1 and 0 and slopes 1e-30 the distance is 1e30, of slopes 1e-40 1e40."""
    for slope, flips in ((1e-30, True), (1e-40, False)):
        found = deepfool(lambda x, slope=slope: torch.cat([1 + slope * x, -slope * x], 1), torch.zeros(3, 1))
        assert (found.flipped == flips).all()
        torch.testing.assert_close(found.norm, torch.full((3,), 0.51e30 if flips else 0.0))


@pytest.mark.parametrize("size", [1, 3, 20])
def test_any_partition_and_any_budget_give_the_same(size):
    model, x = net(6, 24, 24, 5), normal(20, 6)
    expected = deepfool(model, x)
    parts = [deepfool(model, part, memory=1) for part in x.split(size)]
    for name in vars(expected):
        torch.testing.assert_close(torch.cat([getattr(part, name) for part in parts]), getattr(expected, name))


@pytest.mark.unchecked
def test_model_and_samples_are_untouched():
    model, x = resnet18(1, 3, width=2, generator=seeded()).eval(), torch.randn(3, 1, 8, 8, generator=seeded())
    model.head.train()
    before, state = x.clone(), {name: value.clone() for name, value in model.state_dict().items()}
    x.requires_grad_()
    found = deepfool(model, x)
    assert x.grad is None
    assert torch.equal(x, before)
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert not found.perturbation.requires_grad
    assert torch.is_grad_enabled()
    assert [name for name, module in model.named_modules() if module.training] == ["head"]
    torch.testing.assert_close(dict(model.state_dict()), state, rtol=0, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(deepfool(model, x).norm, found.norm)


@pytest.mark.bad_input
def test_bad_input_is_named():
    model, x = net(3, 4), normal(5, 3)
    with pytest.raises(RangeError, match=r"deepfool: expected overshoot finite and above 0, got 0; max_steps a whole"):
        deepfool(model, x, overshoot=0, max_steps=0)
    with pytest.raises(RangeError, match=r"deepfool: expected max_steps a whole number of at least 1, got 2.5"):
        deepfool(model, x, max_steps=2.5)
    with pytest.raises(ShapeError, match=r"deepfool\(model\): expected at least 2 outputs, got 1. Add a class."):
        deepfool(net(3, 1), x)
    with pytest.raises(ShapeError, match=r"deepfool\(x\): expected at least 2 axes, samples first, got shape \(5,\)"):
        deepfool(model, x[:, 0])
    with pytest.raises(ShapeError, match=r"deepfool\(model\): expected outputs of shape \(n, c\)"):
        deepfool(lambda points: points[:, None], x)
    with pytest.raises(EmptyError, match=r"deepfool\(x\): expected at least one sample, got none"):
        deepfool(model, x[:0])
    with pytest.raises(RangeError, match=r"deepfool\(x\): expected finite numbers, got nan at index \(0, 1\)"):
        deepfool(model, torch.tensor([[0.0, torch.nan, 0.0]], dtype=torch.float64))
    with pytest.raises(RangeError, match=r"deepfool\(x\): expected a floating-point tensor, got torch.int64"):
        deepfool(model, torch.ones(2, 3, dtype=torch.long))
    with pytest.raises(RangeError, match=r"deepfool\(logits\): expected finite numbers, got inf at index \(0, 0\)"):
        deepfool(lambda points: points / 0, x.abs())
    with pytest.raises(RangeError, match=r"deepfool\(jacobian\): expected finite numbers, got nan at index \(0, 0, 0"):
        deepfool(lambda points: torch.cat([1 + points, points.sqrt()], 1), torch.zeros(1, 1))
    with pytest.raises(UnsupportedModuleError, match=r"deepfool\(model\): .* got BatchNorm1d '1' normalising"):
        deepfool(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double(), x)
