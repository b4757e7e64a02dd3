"""GrokAlign's rivals: closed forms, the plainest loop over each definition, checkpoints, and what is refused."""

import contextlib
import copy
import functools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import prune

import gnomon
from gnomon.errors import ArgumentTypeError, CheckpointError, EmptyError, RangeError, ShapeError
from gnomon.models import mlp
from gnomon.steer import (
    SAM,
    EgalitarianGradients,
    GrokAlign,
    OrthoGrad,
    SpectralNormPenalty,
    WeightNormConstraint,
    stablemax_cross_entropy,
)
from gnomon.steer._parameters import joint_norm
from gnomon_lab.runs.checkpoint import load_checkpoint, save_checkpoint

OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, 1e-2, weight_decay=0.1),
}
ATTACHED = {
    "OrthoGrad": OrthoGrad,
    "EgalitarianGradients": EgalitarianGradients,
    "WeightNormConstraint": WeightNormConstraint,
}


def network(dtype=torch.float64):
    return mlp((6, 8, 3), bias=True, generator=torch.Generator().manual_seed(0)).to(dtype)


def batches(steps):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(8, 6, generator=generator, dtype=torch.float64)
        yield x, torch.randint(3, (8,), generator=generator)


def backward(model, x, labels):
    model.zero_grad()
    functional.cross_entropy(model(x), labels).backward()


def gradient(loss, weights):
    """Of a function of one tensor."""
    weights = weights.clone().requires_grad_()
    return torch.autograd.grad(loss(weights), weights)[0]


def norm_of(model):
    return math.sqrt(sum(float(parameter.detach().square().sum()) for parameter in model.parameters()))


def changed(method, weights, slope):
    """The gradient as it comes out."""
    parameter = nn.Parameter(weights.clone())
    parameter.grad = slope.clone()
    method([parameter])()
    torch.testing.assert_close(parameter.detach(), weights, rtol=0, atol=0)
    return parameter.grad


def trained(make, name, attached=True, steps=12):
    """A network after some steps with a method that is attached or called by hand."""
    model = network()
    optimizer, method = OPTIMIZERS[name](model.parameters()), make(model.named_parameters())
    if attached:
        method.attach(optimizer)
    for x, labels in batches(steps):
        backward(model, x, labels)
        if not attached and make is not WeightNormConstraint:
            method()
        optimizer.step()
        if not attached and make is WeightNormConstraint:
            method()
    return model


def assert_same(ours, others, tolerance=0):
    torch.testing.assert_close(list(ours.parameters()), list(others.parameters()), rtol=tolerance, atol=tolerance)


def test_orthograd_is_across_the_weights_and_as_long_as_before(generator):
    for shape in ((5,), (4, 3), (2, 3, 4, 4)):
        weights, slope = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
        found = changed(OrthoGrad, weights, slope)
        torch.testing.assert_close((found * weights).sum(), torch.zeros(()).double(), rtol=0, atol=1e-14)
        torch.testing.assert_close(found.norm(), slope.norm())
        # Of all directions across the weights it is the one that the slope prefers.
        along = torch.nn.functional.normalize(weights.flatten(), dim=0)
        rest = slope.flatten() - (slope.flatten() @ along) * along
        torch.testing.assert_close(found.flatten() / found.norm(), rest / rest.norm())


def test_orthograd_leaves_the_norm_to_second_order():
    """‖w − ηg‖² = ‖w‖² + η²‖g‖², where a plain step changes it by −2η wᵀg as well."""
    weights, slope = torch.tensor([3.0, 4.0]).double(), torch.tensor([1.0, 1.0]).double()
    moved = weights - 0.1 * changed(OrthoGrad, weights, slope)
    torch.testing.assert_close(moved.square().sum(), torch.tensor(25.0 + 0.01 * 2).double())


@pytest.mark.parametrize(("dtype", "factor"), [(torch.float64, -0.3), (torch.float32, -0.3), (torch.bfloat16, -0.3)])
def test_orthograd_of_what_lies_along_the_weights_is_zero(generator, dtype, factor):
    """Not rounding errors, scaled up to the gradient's norm; and weights at zero have no direction."""
    for size in (1, 2, 600):
        weights = torch.randn(size, generator=generator).to(dtype)
        assert not changed(OrthoGrad, weights, factor * weights).any()
        assert not changed(OrthoGrad, weights, 0 * weights).any()
        slope = torch.randn(size, generator=generator).to(dtype)
        torch.testing.assert_close(changed(OrthoGrad, 0 * weights, slope), slope)


def test_orthograd_keeps_what_half_precision_can_tell(generator):
    """Three hundredths across the weights, where the rounding of bfloat16 is one in 256 of each entry."""
    weights = torch.randn(600, generator=generator)
    across = torch.randn(600, generator=generator)
    across -= (across @ weights) / (weights @ weights) * weights
    slope = weights + 0.03 * across * weights.norm() / across.norm()
    found = changed(OrthoGrad, weights.bfloat16(), slope.bfloat16()).float()
    # What is left is scaled up to the gradient's norm, its rounding too.
    torch.testing.assert_close(found.norm(), slope.norm(), rtol=0.01, atol=0)
    assert torch.cosine_similarity(found, across, 0) > 0.98


@pytest.mark.parametrize(("size", "weight"), [(1e-25, 1), (1e-21, 1), (1e20, 1), (1, 1e-20), (1, 1e-16), (1, 1e20)])
def test_orthograd_of_what_has_no_squares_in_its_dtype(size, weight):
    found = changed(OrthoGrad, weight * torch.tensor([1.0, 1.0]), size * torch.tensor([7.0, 1.0]))
    torch.testing.assert_close(found / size, torch.tensor([5.0, -5.0]))
    assert not changed(OrthoGrad, torch.ones(0, 3), torch.ones(0, 3)).numel()


def test_orthograd_of_slopes_whose_norm_overflows_is_an_error_only_where_entries_do():
    along = torch.tensor([1.0, 0.0, 0.0, 0.0])
    found = changed(OrthoGrad, along, torch.tensor([1e38, 2e38, 2e38, 2e38]))
    torch.testing.assert_close(found / 1e38, 2 * (13 / 12) ** 0.5 * (1 - along))
    w = nn.Parameter(along)
    w.grad = torch.full((4,), 3e38)
    with pytest.raises(RangeError, match=r"OrthoGrad: expected a finite changed gradient, got norm inf .* at step 1"):
        OrthoGrad([w])()


def test_egalitarian_gradients_have_singular_values_of_one(generator):
    slope = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    found = changed(EgalitarianGradients, 0 * slope, slope)
    torch.testing.assert_close(found.T @ found, torch.eye(4, dtype=torch.float64))
    # (G Gᵀ)^(-1/2) G, by eigenvalues of Gᵀ G.
    values, vectors = torch.linalg.eigh(slope.T @ slope)
    torch.testing.assert_close(found, slope @ vectors @ (vectors / values.sqrt()).T)
    # Of convolutions the first axis against the others; and they do not depend on the gradient's size.
    kernel = changed(EgalitarianGradients, torch.zeros(6, 2, 2, 1).double(), 1e-3 * slope.view(6, 2, 2, 1))
    torch.testing.assert_close(kernel.flatten(1), found)


def test_egalitarian_gradients_fade_below_the_floor():
    slope = torch.diag(torch.tensor([5.0, 1e-3, 0.0])).double()
    found = changed(lambda parameters: EgalitarianGradients(parameters, floor=1e-2), 0 * slope, slope)
    torch.testing.assert_close(found.diag(), torch.tensor([1.0, 0.1, 0.0]).double())
    biases = torch.tensor([3.0, 4.0])
    torch.testing.assert_close(changed(EgalitarianGradients, biases, biases), biases, rtol=0, atol=0)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_constraint_holds_the_norm_as_a_plain_loop_does(name, alpha):
    ours, plain = network(), network()
    optimizers = [OPTIMIZERS[name](model.parameters()) for model in (ours, plain)]
    constraint = WeightNormConstraint(ours.parameters(), alpha)
    constraint.attach(optimizers[0])
    torch.testing.assert_close(list(ours.parameters()), list(plain.parameters()), rtol=0, atol=0)
    constraint()
    held = alpha * norm_of(plain)
    for step, (x, labels) in enumerate([(None, None), *batches(12)]):
        if step:
            for model, optimizer in zip((ours, plain), optimizers, strict=True):
                backward(model, x, labels)
                optimizer.step()
        now = norm_of(plain)
        with torch.no_grad():
            for parameter in plain.parameters():
                parameter.mul_(held / now)
    assert_same(ours, plain, 1e-12)
    torch.testing.assert_close(constraint.norm, torch.tensor(held).double())


@pytest.mark.parametrize("make", ATTACHED.values(), ids=ATTACHED)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_attached_is_as_called_by_hand(make, name):
    assert_same(trained(make, name), trained(make, name, attached=False))
    unsteered = network()
    optimizer = OPTIMIZERS[name](unsteered.parameters())
    for x, labels in batches(12):
        backward(unsteered, x, labels)
        optimizer.step()
    assert (trained(make, name)[0].weight - unsteered[0].weight).norm() > 0.01 * unsteered[0].weight.norm()


class Drifting(torch.optim.SGD):
    """Its step is that of the base class, and some more."""

    drift = 0.1

    def step(self, closure=None):
        loss = super().step(closure)
        if self.drift is None:
            raise KeyError
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter.add_(self.drift)
        return loss


def drifting(make, attached, closes=False, fails=False):
    """A network after some steps of which the third may fail, with a closure or without."""
    torch.optim.SGD([nn.Parameter(torch.ones(1))])  # From then on torch runs the hooks in its step too.
    model = network()
    optimizer, method = Drifting(model.parameters(), 0.1), make(model.named_parameters())
    failure = pytest.raises(KeyError) if fails else None  # Keeps what failed alive.
    if attached:
        method.attach(optimizer)
    for step, (x, labels) in enumerate(batches(6)):

        def closure(x=x, labels=labels):
            backward(model, x, labels)
            if not attached and make is not WeightNormConstraint:
                method()

        if not closes:
            closure()
        optimizer.drift = None if fails and step == 2 else 0.1
        with failure if optimizer.drift is None else contextlib.nullcontext():
            optimizer.step(closure if closes else None)
            if not attached and make is WeightNormConstraint:
                method()
    return model


@pytest.mark.parametrize("make", [gnomon.GrokfastEMA, *ATTACHED.values()])
@pytest.mark.parametrize(("closes", "fails"), [(False, False), (True, False), (False, True)])
def test_a_step_that_calls_that_of_its_base_class_is_one(make, closes, fails):
    assert_same(drifting(make, True, closes, fails), drifting(make, False, closes, fails))


@pytest.mark.unchecked
@pytest.mark.parametrize("make", ATTACHED.values(), ids=ATTACHED)
def test_a_resumed_run_is_the_unbroken_one(tmp_path, make):
    """Bit for bit, through a checkpoint file, with a constraint made of the trained weights."""

    def parts():
        model = network()
        return model, OPTIMIZERS["AdamW"](model.parameters())

    def train(model, optimizer, data):
        for x, labels in data:
            backward(model, x, labels)
            optimizer.step()

    data = list(batches(8))
    model, optimizer = parts()
    make(model.named_parameters()).attach(optimizer)
    train(model, optimizer, data[:5])
    save_checkpoint(tmp_path / "checkpoint", [model.state_dict(), optimizer.state_dict()])
    train(model, optimizer, data[5:])

    resumed, other = parts()
    states = load_checkpoint(tmp_path / "checkpoint")
    resumed.load_state_dict({name: 2 * value for name, value in states[0].items()})
    method = make(resumed.named_parameters())
    method.attach(other)
    resumed.load_state_dict(states[0])
    other.load_state_dict(states[1])
    train(resumed, other, data[5:])
    assert_same(resumed, model)
    _, bare = parts()
    with pytest.raises(CheckpointError, match=rf"{make.__name__}.attach: expected an optimizer's state with 'gnomon'"):
        other.load_state_dict(bare.state_dict())
    another = next(each for each in ATTACHED.values() if each is not make)
    stranger, last = parts()
    another(stranger.named_parameters()).attach(last)
    with pytest.raises(
        CheckpointError,
        match=rf"{another.__name__}.attach: expected a state of {another.__name__}, got .* {make.__name__}",
    ):
        last.load_state_dict(states[1])
    with pytest.raises(RangeError, match=rf"{make.__name__}.attach\(optimizer\): .* Attach once"):
        make(resumed.named_parameters()).attach(other)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sam_is_the_gradient_from_up_the_slope(name):
    ours, plain = network(), network()
    optimizers = [OPTIMIZERS[name](model.parameters()) for model in (ours, plain)]
    sam = SAM(ours.named_parameters(), 0.2)
    for x, labels in batches(6):
        backward(ours, x, labels)
        before = [parameter.clone() for parameter in ours.parameters()]
        with sam.uphill():
            assert all(parameter.grad is None for parameter in ours.parameters())
            functional.cross_entropy(ours(x), labels).backward()
        torch.testing.assert_close(list(ours.parameters()), before, rtol=0, atol=0)
        backward(plain, x, labels)
        norm = torch.cat([parameter.grad.flatten() for parameter in plain.parameters()]).norm()
        above = network()
        above.load_state_dict(
            {name: value + 0.2 * value_of(plain, name).grad / norm for name, value in plain.state_dict().items()}
        )
        backward(above, x, labels)
        for parameter, other in zip(plain.parameters(), above.parameters(), strict=True):
            parameter.grad = other.grad
        for optimizer in optimizers:
            optimizer.step()
    assert_same(ours, plain, 1e-10)


def value_of(model, name):
    return dict(model.named_parameters())[name]


def test_the_joint_norm_is_in_the_widest_dtype():
    narrow, wide = torch.zeros(2), torch.tensor([3e50, 4e50], dtype=torch.float64)
    for parts in ([narrow, wide], [wide, narrow]):
        torch.testing.assert_close(joint_norm(parts), torch.tensor(5e50, dtype=torch.float64))


def test_sam_comes_back_from_an_error_and_rests_on_flat_ground():
    w = nn.Parameter(torch.tensor([3.0, 4.0]))
    w.grad = torch.tensor([0.6, 0.8])

    def fails():
        with SAM([w], 5.0).uphill():
            torch.testing.assert_close(w.detach(), torch.tensor([6.0, 8.0]))
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert w.tolist() == [3.0, 4.0]
    w.grad = torch.zeros(2)
    with SAM([w], 5.0).uphill():
        assert w.tolist() == [3.0, 4.0]


class Refusing(torch.Tensor):
    """A gradient that goes into one product, as where memory ends."""

    products = 0

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.products += function is torch.Tensor.mul
        if cls.products > 1:
            raise torch.OutOfMemoryError
        return super().__torch_function__(function, types, args, kwargs)


def test_sam_comes_back_from_an_error_on_its_way():
    first, second = nn.Parameter(torch.tensor([3.0])), nn.Parameter(torch.tensor([4.0]))
    first.grad, second.grad = torch.tensor([1.0]), torch.tensor([1.0]).as_subclass(Refusing)
    with pytest.raises(torch.OutOfMemoryError), SAM([first, second], 5.0).uphill():
        pass
    assert (first.item(), second.item()) == (3.0, 4.0)


@pytest.mark.parametrize("scale", [2.0**-20, 1.0, 2.0**66, 2.0**120])
def test_sam_goes_as_far_at_any_scale_of_a_scaler(scale):
    w = nn.Parameter(torch.tensor([3.0, 4.0]))
    w.grad = scale * torch.tensor([0.75, 1.0])
    with SAM([w], 5.0, skip_nonfinite=True).uphill():
        torch.testing.assert_close(w.detach(), torch.tensor([6.0, 8.0]))


def test_sam_stays_where_gradients_overflow():
    w = nn.Parameter(torch.tensor([3.0, 4.0]))
    w.grad = torch.tensor([math.inf, 1.0])
    with SAM([w], 5.0, skip_nonfinite=True).uphill():
        assert w.tolist() == [3.0, 4.0]


def test_sam_goes_half_as_far_where_the_slope_is_what_is_added_to_it():
    w = nn.Parameter(torch.tensor([3.0, 4.0]).double())
    w.grad = 1e-12 * torch.tensor([0.6, 0.8]).double()
    with SAM([w], 5.0).uphill():
        torch.testing.assert_close(w.detach(), torch.tensor([4.5, 6.0]).double())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sam_warns_of_parameters_in_half_precision(dtype):
    half, frozen = nn.Parameter(torch.ones(2, dtype=dtype)), nn.Parameter(torch.ones(2, dtype=dtype), False)
    single = nn.Parameter(torch.ones(2))
    says = rf"^SAM\(parameters\): expected float32 or float64, got {dtype} in half, whose rounding loses much of"
    with pytest.warns(UserWarning, match=says):
        SAM({"frozen": frozen, "single": single, "half": half}.items())
    # Those that are frozen stay where they are. (Warnings are errors here.)
    SAM([frozen, single])


@pytest.mark.parametrize(
    ("weight", "moving", "cosine"),
    [(lambda: nn.Linear(2500, 2500).weight.detach(), 0.293, 0.729), (lambda: torch.ones(2500, 2500), 0, 0)],
    ids=["new", "ones"],
)
def test_most_of_a_bfloat16_layer_stays_where_it_is(weight, moving, cosine):
    """The numbers of SAM's docstring."""
    torch.manual_seed(0)
    w = nn.Parameter(weight().bfloat16())
    w.grad = torch.randn(2500, 2500).bfloat16()
    slope, before = w.grad.double().flatten(), w.detach().double().flatten()
    with pytest.warns(UserWarning, match="got torch.bfloat16 in parameter 0"):
        sam = SAM([w])
    with sam.uphill():
        moved = w.detach().double().flatten() - before
    assert (moved != 0).double().mean().item() == pytest.approx(moving, abs=2e-3)
    assert torch.cosine_similarity(moved, slope, 0).item() == pytest.approx(cosine, abs=2e-3)


@pytest.mark.parametrize("fails", [False, True])
def test_within_one_autocast_each_pass_sees_the_weights_as_they_are(fails):
    """It keeps their half-precision copies until it ends; one for each pass has none of another's."""
    half = functools.partial(torch.autocast, "cpu", torch.bfloat16)

    def passes(whole, single):
        model = network(torch.float32)
        optimizer, sam = torch.optim.SGD(model.parameters(), 0.1), SAM(model.parameters(), 0.5)
        ((x, labels),) = batches(1)

        def loss():
            with single():
                return functional.cross_entropy(model(x.float()), labels)

        with whole():
            (below := loss()).backward()
            with contextlib.suppress(KeyError), sam.uphill():
                (above := loss()).backward()
                if fails:
                    raise KeyError
            if not fails:
                optimizer.step()
            return below, above, loss(), model[0].weight.grad

    found, expected = passes(half, contextlib.nullcontext), passes(contextlib.nullcontext, half)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    below, above, after, _ = found
    assert after <= below < above


def test_stablemax_is_its_definition(generator):
    z = 3 * torch.randn(20, 5, generator=generator, dtype=torch.float64)
    z[0, :3] = torch.tensor([0.0, 1.0, -1.0])
    labels = torch.randint(5, (20,), generator=generator)

    def plain(z):
        s = torch.stack([v + 1 if v >= 0 else 1 / (1 - v) for v in z.flatten()]).view_as(z)
        return -sum(torch.log(s[i, labels[i]] / s[i].sum()) for i in range(len(z))) / len(z)

    torch.testing.assert_close(stablemax_cross_entropy(z, labels), plain(z))
    torch.testing.assert_close(gradient(lambda z: stablemax_cross_entropy(z, labels), z), gradient(plain, z))


def test_stablemax_learns_on_where_softmax_has_collapsed():
    """For logits z, −z, −z the slope in the first falls as z⁻³, not exponentially."""
    label = torch.zeros(1, dtype=torch.long)
    for size in (20.0, 1e3, 1e6):
        z = size * torch.tensor([[1.0, -1.0, -1.0]])
        assert gradient(lambda z: functional.cross_entropy(z, label), z)[0, 0] == 0
        torch.testing.assert_close(
            gradient(lambda z: stablemax_cross_entropy(z, label), z)[0, 0],
            torch.tensor(-1 / (1 + size) * 2 / (2 + (1 + size) ** 2)),
            rtol=1e-3,
            atol=0,
        )
    # Equal logits are equal probabilities, whatever they are.
    torch.testing.assert_close(stablemax_cross_entropy(torch.full((1, 3), -7.0), label), torch.tensor(3.0).log())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_stablemax_of_half_precision_may_be_scaled(dtype):
    """By a GradScaler's first scale, 65536: float16 ends at 65504."""
    z = torch.tensor([[3.0, -3.0]], dtype=dtype, requires_grad=True)
    loss = stablemax_cross_entropy(z, torch.tensor([1]))
    torch.testing.assert_close(loss, torch.tensor(17.0, dtype=torch.promote_types(dtype, torch.float32)).log())
    (2.0**16 * loss).backward()
    # The loss is log((1 + z₁)(1 − z₂) + 1).
    torch.testing.assert_close(z.grad, torch.tensor([[2.0**18 / 17, -(2.0**18) / 17]], dtype=dtype))


def test_spectral_norms_come_out_of_the_iteration(generator):
    torch.manual_seed(0)  # how soon depends on how far apart the two largest singular values are
    model = nn.Sequential(nn.Conv2d(2, 5, 3), nn.Flatten(), nn.Linear(20, 7)).double()
    penalty = SpectralNormPenalty(model.named_parameters(), 0.3, iterations=60, generator=generator)
    for _ in range(10):
        found = penalty()
    matrices = model[0].weight.flatten(1), model[2].weight
    expected = 0.15 * sum(torch.linalg.matrix_norm(matrix, 2).square() for matrix in matrices)
    torch.testing.assert_close(found, expected)
    weights = [model[0].weight, model[2].weight]
    torch.testing.assert_close(
        torch.autograd.grad(found, weights), torch.autograd.grad(expected, weights), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("size", [1e-14, 1e-30])
def test_spectral_norms_of_small_weights(size):
    weight = nn.Parameter(size * torch.diag(torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64)))
    penalty = SpectralNormPenalty([weight], 2.0, iterations=60)
    torch.testing.assert_close(penalty() / size / size, torch.tensor(4.0).double())


def test_a_transposed_convolution_is_penalised_as_the_convolution_that_it_transposes(generator):
    layer = nn.ConvTranspose2d(3, 5, 2, bias=False).double()
    nn.init.normal_(layer.weight, generator=generator)
    x = torch.randn(1, 3, 4, 4, dtype=torch.float64)
    y = torch.randn(1, 5, 5, 5, dtype=torch.float64)
    torch.testing.assert_close((layer(x) * y).sum(), (x * functional.conv2d(y, layer.weight)).sum())
    penalty = SpectralNormPenalty(layer.named_parameters(), 2.0, iterations=200, generator=generator)
    rows = torch.stack([layer.weight[channel].flatten() for channel in range(3)])  # one per output of the convolution
    torch.testing.assert_close(penalty(), torch.linalg.matrix_norm(rows, 2).square())


def test_a_matrix_that_begins_at_zero_is_penalised_once_it_has_grown(generator):
    """As the last layer of a residual branch, or one half of a low-rank update, begins."""
    weight = nn.Parameter(torch.zeros(6, 4, dtype=torch.float64))
    penalty = SpectralNormPenalty([weight], 2.0, iterations=30, generator=generator)
    (found,) = torch.autograd.grad(penalty(), weight)
    torch.testing.assert_close(found, torch.zeros_like(found), rtol=0, atol=0)
    nn.init.normal_(weight, generator=generator)
    for _ in range(5):
        value = penalty()
    torch.testing.assert_close(value, torch.linalg.matrix_norm(weight, 2).square())


def test_a_call_makes_one_step_from_the_direction_of_the_last(generator):
    weight = torch.randn(4, 3, generator=generator)
    penalty = SpectralNormPenalty([weight.requires_grad_()], 2.0, generator=generator)
    (u,), matrix = penalty.state_dict()["directions"], weight.detach()
    for _ in range(2):
        v = functional.normalize(matrix.T @ u, dim=0)
        u = functional.normalize(matrix @ v, dim=0)
        torch.testing.assert_close(penalty().detach(), (u @ matrix @ v).square())
    assert SpectralNormPenalty([weight], 0.0)() == 0


def test_a_spectral_penalty_comes_with_the_logits_of_any_batch(generator):
    model, x = network(), torch.randn(4, 6, generator=generator, dtype=torch.float64)
    one, other = (SpectralNormPenalty(model.parameters(), 2.0) for _ in range(2))
    other.load_state_dict(one.state_dict())
    for _ in range(2):  # the iteration advances in the same way
        logits, penalty = one.logits_and_penalty(model, x)
        torch.testing.assert_close((logits, penalty), (model(x), other()), rtol=0, atol=0)
    (logits.sum() + penalty).backward()
    assert all(parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_a_validation_loss_leaves_the_iteration_where_it_is(off):
    model, x = network(), torch.ones(4, 6, dtype=torch.float64)
    ours, plain = (SpectralNormPenalty(model.parameters(), generator=torch.Generator().manual_seed(0)) for _ in "ab")
    with off():
        value = ours()
        torch.testing.assert_close(ours.logits_and_penalty(model, x)[1], value, rtol=0, atol=0)
    torch.testing.assert_close(value, plain(), rtol=0, atol=0)
    for _ in range(2):
        found = ours()
    torch.testing.assert_close(found, plain(), rtol=0, atol=0)


def test_a_matrix_that_leaves_the_directions_of_the_iteration_is_penalised(generator):
    weight = torch.tensor([[1.0, 0.0], [0.0, 0.0]], requires_grad=True)
    penalty = SpectralNormPenalty([weight], 2.0, generator=generator)
    for _ in range(60):
        penalty()
    with torch.no_grad():
        weight.copy_(weight.flip(0, 1))
    penalty()
    torch.testing.assert_close(penalty(), torch.tensor(1.0))


def test_a_spectral_norm_comes_back_with_the_weights_that_diverged(generator):
    weight = nn.Parameter(torch.randn(6, 4, generator=generator, dtype=torch.float64))
    penalty = SpectralNormPenalty([weight], 2.0, iterations=30, generator=generator)
    expected, good = penalty(), weight.detach().clone()
    weight.data[0, 0] = math.inf
    assert penalty().isnan()
    weight.data.copy_(good)
    torch.testing.assert_close(penalty(), expected)


def test_a_spectral_norm_goes_on_where_its_matrix_was_zero(generator):
    """As that of a layer whose weights begin there: the iteration starts again as in an uninterrupted run."""
    weight = nn.Parameter(torch.zeros(4, 3))
    one, other = (SpectralNormPenalty([weight], generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    one()
    other.load_state_dict(one.state_dict())
    one(), other()
    weight.data.normal_(generator=generator)
    torch.testing.assert_close(other(), one(), rtol=0, atol=0)
    other.load_state_dict({"directions": one.state_dict()["directions"]})  # as older versions saved it


@pytest.mark.bad_input
@pytest.mark.parametrize("optimizer", [None, [], nn.Linear(2, 2)])
def test_what_is_no_optimizer_is_named(optimizer):
    message = (
        r"OrthoGrad\.attach\(optimizer\): expected a torch\.optim\.Optimizer, got (NoneType|list|Linear)\. Pass one"
    )
    with pytest.raises(TypeError, match=message):
        OrthoGrad([nn.Parameter(torch.ones(3))]).attach(optimizer)


@pytest.mark.bad_input
def test_the_parameters_of_a_parametrised_layer_are_no_weights():
    """`original0` has the rows' lengths, and the scale of `original1` changes nothing."""
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 3)), nn.Linear(3, 2))
    expected = r"^SpectralNormPenalty\(parameters\): expected the weights that .*, got 0\.parametrizations\.weight"
    with pytest.raises(RangeError, match=expected):
        SpectralNormPenalty(model.named_parameters())
    SpectralNormPenalty(pair for pair in model.named_parameters() if "parametrizations" not in pair[0])


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("change", "name"),
    [
        (nn.utils.weight_norm, "weight_g"),
        (lambda layer: nn.utils.weight_norm(layer, dim=None), "weight_v"),
        (nn.utils.spectral_norm, "weight_orig"),
        (lambda layer: prune.random_unstructured(layer, "weight", 0.5), "weight_orig"),
    ],
)
@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
def test_nor_are_those_of_the_older_functions(change, name):
    expected = rf"^SpectralNormPenalty\(parameters\): expected the weights that the network uses, got 0\.{name}\. Leave"
    with pytest.raises(RangeError, match=expected):
        SpectralNormPenalty(nn.Sequential(change(nn.Linear(5, 3))).named_parameters())
    SpectralNormPenalty([("attention.w_v", nn.Parameter(torch.ones(3, 3))), ("weight_out", nn.Linear(3, 3).weight)])


@pytest.mark.bad_input
@pytest.mark.parametrize("make", [OrthoGrad, EgalitarianGradients, gnomon.GrokfastMA, WeightNormConstraint])
def test_lbfgs_is_refused(make):
    w = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.LBFGS([w])
    with pytest.raises(RangeError, match=rf"{make.__name__}\.attach\(optimizer\): expected a first-order .*LBFGS"):
        make([w]).attach(optimizer)
    assert "gnomon" not in optimizer.state_dict()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_around_a_method_changes_no_bit(generator, dtype):
    weight = nn.Parameter(20 * torch.randn(64, 64, generator=generator))
    slope = torch.randn(64, 64, generator=generator)
    one, other = (SpectralNormPenalty([weight], generator=torch.Generator().manual_seed(0)) for _ in range(2))
    expected, plain = one(), changed(EgalitarianGradients, weight, slope)
    with torch.autocast("cpu", dtype):
        torch.testing.assert_close(other(), expected, rtol=0, atol=0)
        torch.testing.assert_close(changed(EgalitarianGradients, weight, slope), plain, rtol=0, atol=0)
    (kept,) = other.state_dict()["directions"]
    torch.testing.assert_close(kept, one.state_dict()["directions"][0], rtol=0, atol=0)


def test_the_constraint_leaves_frozen_parameters_alone():
    model = network()
    model[0].requires_grad_(False)
    before = [parameter.clone() for parameter in model[0].parameters()]
    optimizer = torch.optim.SGD(model[2].parameters(), 1.0)
    constraint = WeightNormConstraint(model.named_parameters(), 0.5)
    constraint.attach(optimizer)
    norm = torch.cat([parameter.detach().flatten() for parameter in model[2].parameters()]).norm()
    backward(model, *next(batches(1)))
    optimizer.step()
    torch.testing.assert_close(list(model[0].parameters()), before, rtol=0, atol=0)
    now = torch.cat([parameter.detach().flatten() for parameter in model[2].parameters()]).norm()
    torch.testing.assert_close(now, norm / 2)
    model.requires_grad_(False)
    with pytest.raises(EmptyError, match=r"WeightNormConstraint\(parameters\): expected one that requires gradients"):
        WeightNormConstraint(model.named_parameters())


def test_sam_outlives_the_overflows_of_a_scaler():
    """The scale doubles at each step, until the scaler finds an overflow; then the weights are as before the step."""
    w = nn.Parameter(torch.tensor([3.0, 4.0]))
    sam, optimizer = SAM([w], 0.1, skip_nonfinite=True), torch.optim.SGD([w], 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, growth_interval=1)

    def scaled():
        scaler.scale(w.square().sum()).backward()

    moved = []
    for _ in range(12):
        before = w.tolist()
        scaled()
        with sam.uphill():
            scaled()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        moved.append(w.tolist() != before)
    assert not all(moved)
    assert sum(moved) >= 6
    assert w.isfinite().all()


def test_a_resumed_iteration_goes_on_from_there(tmp_path):
    model = network()
    penalty, other = (SpectralNormPenalty(model.parameters(), 1.0) for _ in range(2))
    values = [penalty() for _ in range(3)]
    assert values[0] < values[1] < values[2]
    save_checkpoint(tmp_path / "checkpoint", penalty.state_dict())
    other.load_state_dict(load_checkpoint(tmp_path / "checkpoint"))
    torch.testing.assert_close(other(), penalty(), rtol=0, atol=0)
    with pytest.raises(ShapeError, match=r"load_state_dict\(state_dict\): expected directions \[\(8,\), \(3,\)\], got"):
        other.load_state_dict(SpectralNormPenalty([model[0].weight]).state_dict())


def test_hoffmans_jacobian_regularisation_is_half_the_square(generator):
    """½ ‖J‖_F², a mean over the batch: GrokAlign(λ / 2, squared=True)."""
    model, x = network(), torch.randn(4, 6, generator=generator, dtype=torch.float64)
    jacobians = [torch.autograd.functional.jacobian(model, sample[None]).square().sum() for sample in x]
    found = GrokAlign(0.5, estimator="exact", squared=True)(model, x)
    torch.testing.assert_close(found, sum(jacobians) / 8)


@pytest.mark.parametrize("make", [OrthoGrad, EgalitarianGradients])
def test_gradients_that_are_not_finite_change_nothing(make):
    model = nn.Linear(2, 2)
    method = make(model.named_parameters(), skip_nonfinite=False)
    model.weight.grad, model.bias.grad = torch.ones(2, 2), torch.tensor([1.0, math.inf])
    with pytest.raises(
        RangeError, match=rf"{make.__name__}: expected a finite gradient, got norm inf .* in bias at st"
    ):
        method()
    make(model.parameters(), skip_nonfinite=True)()
    assert model.weight.grad.equal(torch.ones(2, 2))
    model.zero_grad()
    with pytest.raises(EmptyError, match=rf"{make.__name__}: expected gradients, got none on all 2"):
        method()


def test_bad_settings_are_named():
    w = nn.Parameter(torch.ones(2))
    with pytest.raises(RangeError, match=r"EgalitarianGradients: expected floor finite and above 0, got 0"):
        EgalitarianGradients([w], 0.0)
    with pytest.raises(RangeError, match=r"WeightNormConstraint: expected alpha finite and above 0, got nan"):
        WeightNormConstraint([w], math.nan)
    with pytest.raises(RangeError, match=r"SAM: expected rho finite and at least 0, got -1"):
        SAM([w], -1.0)
    with pytest.raises(
        RangeError, match=r"SpectralNormPenalty: expected coefficient .*, got inf; iterations .*, got 0"
    ):
        SpectralNormPenalty([w], math.inf, 0)
    with pytest.raises(EmptyError, match=r"SpectralNormPenalty\(parameters\): expected a matrix among them, got none"):
        SpectralNormPenalty([w])
    for method in (OrthoGrad, EgalitarianGradients, WeightNormConstraint, SAM, SpectralNormPenalty):
        with pytest.raises(EmptyError, match=rf"{method.__name__}\(parameters\): expected at least one, got none"):
            method([])
        with pytest.raises(RangeError, match=rf"{method.__name__}\(parameters\): expected each once, got some twice"):
            method([w, w])


@pytest.mark.bad_input
@pytest.mark.parametrize("make", [OrthoGrad, WeightNormConstraint, SAM, SpectralNormPenalty, gnomon.GrokfastEMA])
def test_what_are_no_parameters_are_refused(make):
    """A network, its parameter groups, its state dict."""
    model = network()
    groups = [{"params": list(model.parameters()), "lr": 0.1}]
    for wrong, kind in ((model[0], "Linear"), (groups, "dict"), (model.state_dict(), "str"), (None, "NoneType")):
        with pytest.raises(
            ArgumentTypeError,
            match=rf"^{make.__name__}\(parameters\): expected tensors, or pairs of a name and one, got {kind}. Pass",
        ):
            make(wrong)


@pytest.mark.bad_input
@pytest.mark.parametrize("one", [nn.Parameter(torch.ones(3)), torch.ones(3, 2), torch.tensor(1.0)])
def test_one_tensor_is_no_iterable_of_parameters(one):
    """Its rows would be taken for them, which no training changes."""
    makes = (OrthoGrad, EgalitarianGradients, WeightNormConstraint, SAM, SpectralNormPenalty)
    for make in (*makes, gnomon.GrokfastEMA, gnomon.GrokfastMA):
        says = (
            rf"^{make.__name__}\(parameters\): expected an iterable of tensors, got one tensor\. Pass model\..*, or \["
        )
        with pytest.raises(ArgumentTypeError, match=says):
            make(one)


def test_states_of_something_else_are_refused():
    w = nn.Parameter(torch.ones(2, 2))
    stateful = (OrthoGrad, gnomon.GrokfastMA, WeightNormConstraint, SpectralNormPenalty)
    for method in (*(make([w]) for make in stateful), gnomon.GrokAlign(1.0), gnomon.InputNoise()):
        with pytest.raises(
            CheckpointError, match=rf"^{type(method).__name__}\(state_dict\): expected one with \w+, got model. Load a"
        ):
            method.load_state_dict({"model": {}})


@pytest.mark.parametrize(
    ("make", "state", "got"),
    [
        (WeightNormConstraint, {"norm": 1.0}, "norm of float"),
        (gnomon.GrokfastEMA, {"steps": 1, "taken": {}, "memory": []}, "memory of list"),
        (SpectralNormPenalty, {"directions": 3}, "directions of int"),
        (OrthoGrad, {}, "an empty one"),
    ],
)
def test_states_with_other_entries_are_refused(make, state, got):
    with pytest.raises(
        CheckpointError, match=rf"\(state_dict\): expected one with \w+, got {got}\. Load a state of the"
    ):
        make([nn.Parameter(torch.ones(2, 2))]).load_state_dict(state)


@pytest.mark.parametrize("make", [OrthoGrad, EgalitarianGradients])
@pytest.mark.parametrize("other", [gnomon.GrokfastEMA, gnomon.GrokfastMA])
def test_the_state_of_a_method_that_counts_steps_too_is_refused(make, other):
    w = nn.Parameter(torch.ones(2))
    w.grad = torch.ones(2)
    method, grokfast = make([w]), other([w])
    grokfast()
    with pytest.raises(CheckpointError, match=r"expected one with steps alone, got steps, taken, memory\. Load a"):
        method.load_state_dict(grokfast.state_dict())
    assert method.steps == 0


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("make", "state", "message"),
    [
        (lambda w: GrokAlign(1.0), None, "a mapping, got NoneType"),
        (gnomon.GrokfastMA, [1], "a mapping, got list"),
        (lambda w: GrokAlign(1.0), {"calls": -3}, "calls that are a whole number of at least 0, got -3"),
        (OrthoGrad, {"steps": "3"}, "steps that are a whole number of at least 0, got '3'"),
        (SpectralNormPenalty, {"directions": [3]}, "directions that are tensors, got others"),
        (WeightNormConstraint, {"norm": torch.ones(3)}, r"a norm that is one .* above 0, got shape \(3,\)"),
        (WeightNormConstraint, {"norm": torch.tensor(-1.0)}, "a norm that is one number, finite and above 0, got -1"),
        (WeightNormConstraint, {"norm": torch.tensor(0.0)}, "a norm that is one number, finite and above 0, got 0"),
        (WeightNormConstraint, {"norm": torch.tensor(math.inf)}, "a norm that is one .*, finite and above 0, got inf"),
        (WeightNormConstraint, {"norm": torch.tensor(1j)}, r"a norm that is one .*, finite and above 0, got \S*1j"),
    ],
)
def test_states_of_another_kind_are_refused(make, state, message):
    method = make([nn.Parameter(torch.ones(2, 2))])
    before = method.state_dict()
    with pytest.raises(CheckpointError, match=rf"\w\(state_dict\): expected {message}\. Load a state of the"):
        method.load_state_dict(state)
    torch.testing.assert_close(method.state_dict(), before)


@pytest.mark.parametrize(
    ("taken", "memory", "message"),
    [
        ({0: 1}, {}, "taken and memory of the same parameters, got 0 in one"),
        ({}, {0: torch.ones(2, 2)}, "taken and memory of the same parameters, got 0 in one"),
        ({0: 1}, {0: [1.0]}, "a number of gradients and their memory for parameter 0, got 1 and list"),
        ({0: -1}, {0: torch.ones(2, 2)}, "a number .* and their memory for parameter 0, got -1 and Tensor"),
        ({0: "1"}, {0: torch.ones(2, 2)}, "a number .* and their memory for parameter 0, got '1' and Tensor"),
    ],
)
def test_a_memory_that_is_none_is_refused(taken, memory, message):
    grokfast = gnomon.GrokfastEMA([nn.Parameter(torch.ones(2, 2))])
    with pytest.raises(CheckpointError, match=rf"^GrokfastEMA\(state_dict\): expected {message}"):
        grokfast.load_state_dict({"steps": 1, "taken": taken, "memory": memory})
    assert grokfast.state_dict() == {"steps": 0, "taken": {}, "memory": {}}


@pytest.mark.parametrize("count", [np.int64, torch.tensor])
def test_counts_of_numpy_and_torch_are_loaded_as_numbers(count):
    penalty, grokfast = GrokAlign(1.0), gnomon.GrokfastEMA([nn.Parameter(torch.ones(2, 2))])
    penalty.load_state_dict({"calls": count(3)})
    grokfast.load_state_dict({"steps": count(3), "taken": {0: count(2)}, "memory": {0: torch.ones(2, 2)}})
    state = grokfast.state_dict()
    counts = [penalty.state_dict()["calls"], state["steps"], state["taken"][0]]
    assert [(type(each), each) for each in counts] == [(int, 3), (int, 3), (int, 2)]


@pytest.mark.parametrize("key", ["w", 0.0])
def test_the_memory_of_a_parameter_by_another_name_is_refused(key):
    state = {"steps": 1, "taken": {key: 1}, "memory": {key: torch.ones(2, 2)}}
    with pytest.raises(ShapeError, match=rf"expected nothing for parameter {key}, got shape \(2, 2\)"):
        gnomon.GrokfastEMA([nn.Parameter(torch.ones(2, 2))]).load_state_dict(state)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("make", "name", "kind"),
    [
        (lambda w: gnomon.GrokAlign(None), r"GrokAlign\(coefficient\)", "NoneType"),
        (lambda w: gnomon.GrokAlign(0.1, fraction="half"), r"GrokAlign\(fraction\)", "str"),
        (lambda w: SAM([w], rho=None), r"SAM\(rho\)", "NoneType"),
        (lambda w: gnomon.GrokfastEMA([w], alpha="0.9"), r"GrokfastEMA\(alpha\)", "str"),
        (lambda w: WeightNormConstraint([w], alpha=[1.0]), r"WeightNormConstraint\(alpha\)", "list"),
        (lambda w: EgalitarianGradients([w], floor=None), r"EgalitarianGradients\(floor\)", "NoneType"),
        (lambda w: gnomon.effective_rank(w, rtol="1"), r"effective_rank\(rtol\)", "str"),
        (lambda w: gnomon.GrokAlign(torch.ones(1)), r"GrokAlign\(coefficient\)", r"Tensor of shape \(1,\)"),
        (lambda w: gnomon.GrokAlign(np.ones(1)), r"GrokAlign\(coefficient\)", r"ndarray of shape \(1,\)"),
        (lambda w: gnomon.GrokAlign(torch.tensor(1j)), r"GrokAlign\(coefficient\)", "Tensor"),
        (lambda w: gnomon.GrokAlign(np.array("1")), r"GrokAlign\(coefficient\)", "ndarray"),
        (lambda w: SAM([w], rho=torch.ones(2)), r"SAM\(rho\)", r"Tensor of shape \(2,\)"),
    ],
)
def test_settings_that_are_no_numbers_are_refused(make, name, kind):
    with pytest.raises(ArgumentTypeError, match=rf"^{name}: expected a number, got {kind}\. Pass one\."):
        make(nn.Parameter(torch.ones(2, 2)))


@pytest.mark.bad_input
def test_numbers_of_numpy_are_numbers():
    x, labels, model = torch.randn(12, 4), torch.arange(12) % 3, nn.Linear(4, 3)
    steered = gnomon.GrokAlign(np.float32(0.5), every=np.int64(2), projections=np.int64(1))
    assert steered == gnomon.GrokAlign(0.5, every=2)
    ours = gnomon.batch_gradients(model, x, labels, batches=np.int64(3), seed=np.int64(5))
    theirs = gnomon.batch_gradients(model, x, labels, batches=3, seed=5)
    torch.testing.assert_close(ours.deviations, theirs.deviations, rtol=0, atol=0)
    ours = gnomon.hessian_trace(model, x, labels, seed=np.int64(7), passes=np.int64(16))
    torch.testing.assert_close(ours.value, gnomon.hessian_trace(model, x, labels, seed=7, passes=16).value)
    with pytest.raises(RangeError, match=r"every a whole number of at least 1, got 2.0"):
        gnomon.GrokAlign(0.1, every=2.0)


@pytest.mark.bad_input
@pytest.mark.parametrize("number", [np.array, torch.tensor])
def test_numbers_in_arrays_without_axes_are_numbers(number):
    """Also where a graph follows: products of NumPy's arrays with its tensors raise."""
    x, model, w = torch.randn(4, 6).double(), network(), nn.Parameter(torch.ones(2, dtype=torch.float64))
    settings = {"level": 3.0, "fraction": 1.0, "every": 2}
    found, expected = (
        gnomon.GrokAlign(of(0.5), "exact", **{name: of(value) for name, value in settings.items()})(model, x)
        for of in (number, lambda value: value)
    )
    assert found.shape == ()
    torch.testing.assert_close(found, expected)
    w.grad = torch.ones_like(w)
    gnomon.GrokfastEMA([w], alpha=number(0.5), lamb=number(2.0))()
    assert w.grad.tolist() == [3.0, 3.0]
    assert gnomon.input_jacobian(model, x, memory=number(1000)).shape == (4, 3, 6)


@pytest.mark.bad_input
def test_what_may_be_of_two_kinds_is_named_with_articles():
    with pytest.raises(ArgumentTypeError, match=r"expected a tensor of real numbers or a number, got str\. Pass one"):
        gnomon.noise_level("half")
    with pytest.raises(ArgumentTypeError, match=r"expected a BatchGradients, got str"):
        gnomon.gradient_norm("none")
    with pytest.raises(ArgumentTypeError, match=r"expected a torch\.Generator, got int"):
        SpectralNormPenalty([nn.Parameter(torch.ones(2, 2))], generator=0)


def test_an_empty_matrix_has_no_spectral_norm(generator):
    weights = [nn.Parameter(torch.ones(0, 3)), nn.Parameter(torch.eye(2))]
    torch.testing.assert_close(SpectralNormPenalty(weights, 2.0, generator=generator)(), torch.tensor(1.0))


@pytest.mark.parametrize("make", [OrthoGrad, SpectralNormPenalty])
def test_complex_weights_are_refused(make):
    """Their real inner product, and a norm that is real, are another formula."""
    weight = nn.Parameter(torch.ones(2, 2, dtype=torch.complex64))
    with pytest.raises(
        RangeError, match=r"\(parameters\): expected real ones, got torch.complex64 in weight. Leave it"
    ):
        make([("weight", weight)])


def test_weights_without_a_direction_are_refused():
    w = nn.Parameter(torch.zeros(2))
    with pytest.raises(
        RangeError, match=r"WeightNormConstraint\(parameters\): expected a norm above 0 and finite, got 0"
    ):
        WeightNormConstraint([w])
    nn.init.ones_(w)
    constraint = WeightNormConstraint([w])
    for size in (math.nan, math.inf):
        w.data.fill_(size)
        with pytest.raises(RangeError, match=rf"WeightNormConstraint.*\(parameters\): expected a norm .*, got {size}"):
            constraint()
        torch.testing.assert_close(w.detach(), torch.full((2,), size), equal_nan=True)


def test_a_norm_below_one_is_held_and_has_no_graph():
    w = nn.Parameter(torch.tensor([0.3, 0.4]))
    constraint, other = WeightNormConstraint([w]), WeightNormConstraint([w], 2.0)
    other.load_state_dict(copy.deepcopy(constraint.state_dict()))
    nn.init.ones_(w)
    other()
    torch.testing.assert_close(w.detach(), torch.full((2,), 0.125**0.5))


def test_sam_refuses_what_has_no_direction():
    w = nn.Parameter(torch.ones(2))
    with pytest.raises(EmptyError, match=r"SAM.uphill: expected gradients, got none on all 1"), SAM([w]).uphill():
        pass
    w.grad = torch.tensor([math.nan, 1.0])
    with (
        pytest.raises(RangeError, match=r"SAM.uphill: expected finite gradients, got a norm of nan"),
        SAM([w]).uphill(),
    ):
        pass
    assert w.tolist() == [1.0, 1.0]
    assert w.grad is not None


def test_at_a_step_without_gradients_nothing_is_trained_and_nothing_changed():
    """As where `zero_grad` comes before the step by mistake, or all of this optimizer's part is left out of a loss."""
    w = nn.Parameter(torch.tensor([3.0, 4.0]))
    for make in (OrthoGrad, EgalitarianGradients, gnomon.GrokfastEMA, lambda ws: WeightNormConstraint(ws, 2.0)):
        optimizer = torch.optim.SGD([w], 0.1)
        make([w]).attach(optimizer)
        optimizer.step()
        assert w.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("power", [-300, -160, -150, -140, 0, 150, 160, 300])
def test_the_joint_norm_keeps_all_digits_where_squares_lose_some(power):
    parts = [torch.tensor([[1.0, 2.0], [3.0, 4.0]]).double(), torch.tensor([5.0]).double()]
    found = joint_norm(part * 10.0**power for part in parts)
    assert found.item() == pytest.approx(math.sqrt(55) * 10.0**power, rel=1e-14, abs=0)


def test_the_constraint_holds_complex_weights_too():
    weights = [nn.Parameter(torch.randn(*shape, dtype=torch.complex64)) for shape in ((3, 6), (3,))]
    exact = torch.cat([torch.view_as_real(part.detach()).flatten() for part in weights]).norm()
    torch.testing.assert_close(joint_norm(weights), exact)
    WeightNormConstraint(weights, 0.5)
