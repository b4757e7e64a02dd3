"""The GrokAlign penalty: its value, its gradient, its estimators."""

import copy
import math
import re

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from gnomon import GrokAlign, deepfool, input_jacobian, jacobian_norm
from gnomon.autodiff._tape import reached, sources
from gnomon.errors import ArgumentTypeError, EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.models import mlp
from tests.zoo import BUILDERS, zoo


def exact_norms(model, x):
    """Of the Jacobians, with a graph, one sample at a time."""
    rows = [torch.autograd.functional.jacobian(lambda s: model(s[None])[0], s, create_graph=True) for s in x]
    return torch.stack([row.square().sum().sqrt() for row in rows])


def penalty_of(grokalign, model, x, shared=True):
    """From the forward pass that the loss has too, or from one of its own."""
    return grokalign.logits_and_penalty(model, x)[1] if shared else grokalign(model, x)


def grads(loss, model):
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, model.parameters(), strict=True)]


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("shared", [True, False])
def test_exact_is_the_mean_norm_and_its_gradient(name, shared):
    model, x = zoo(name)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = 0.3 * exact_norms(model, x).mean()
        penalty = penalty_of(GrokAlign(0.3, "exact"), model, x, shared)
        torch.testing.assert_close(penalty, expected)
        for ours, theirs in zip(grads(penalty, model), grads(expected, model), strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", BUILDERS)
def test_second_derivatives_are_those_of_the_mean_norm(name):
    """As in a Hessian of the whole loss."""
    model, x = zoo(name)
    parameters = list(model.parameters())
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        found, expected = (
            torch.autograd.grad(penalty, parameters, create_graph=True, materialize_grads=True)
            for penalty in (GrokAlign(1.0, "exact")(model, x), exact_norms(model, x).mean())
        )
        for ours, theirs in zip(along(found, model), along(expected, model), strict=True):
            torch.testing.assert_close(ours, theirs)


def along(gradients, model):
    """Products of the Hessian with a direction."""
    generator = torch.Generator().manual_seed(3)
    return grads(sum((g * torch.randn(g.shape, generator=generator, dtype=g.dtype)).sum() for g in gradients), model)


def test_a_second_derivative_through_batch_statistics_is_refused():
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3)).double()
    penalty = GrokAlign(1.0, "exact")(model, torch.randn(9, 5, dtype=torch.float64))
    gradients = torch.autograd.grad(penalty, [*model.parameters()], create_graph=True, materialize_grads=True)
    says = "the gradient of BatchNorm: expected to be differentiated once, got a second derivative"
    with pytest.raises(UnsupportedModuleError, match=says):
        along(gradients, model)


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("projections", [1, 3])
@pytest.mark.parametrize("squared", [True, False])
def test_projection_is_the_norm_of_projected_jacobians(name, projections, squared):
    """The same random vectors, applied to the whole Jacobian: value and gradient, on every path through the graph."""
    model, x = zoo(name)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        jacobian = input_jacobian(model, x).flatten(2)
        n, c = jacobian.shape[:2]
        generator = torch.Generator().manual_seed(5)
        estimate = 0
        for _ in range(projections):
            v = torch.randn(n, c, generator=generator, dtype=x.dtype)
            v = v / v.norm(dim=1, keepdim=True)
            estimate = estimate + c / projections * torch.einsum("nc,ncd->nd", v, jacobian).square().sum(1)
        expected = (estimate if squared else estimate.sqrt()).mean()
        generator.manual_seed(5)
        penalty = penalty_of(GrokAlign(1.0, projections=projections, squared=squared, generator=generator), model, x)
        torch.testing.assert_close(penalty, expected)
        for ours, theirs in zip(grads(penalty, model), grads(expected, model), strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("estimator", ["projection", "exact"])
@pytest.mark.parametrize("width", [3, 400])
def test_wide_and_narrow_entrances_agree(width, estimator):
    """Narrow first layers take the Gram path, wide ones the direct: the same numbers for both."""
    model = mlp((50, width, 4), generator=torch.Generator().manual_seed(1)).double()
    x = torch.randn(20, 50, dtype=torch.float64)
    v = torch.randn(20, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    v = v / v.norm(dim=1, keepdim=True)
    jacobian = input_jacobian(model, x)
    rows = jacobian if estimator == "exact" else 2 * torch.einsum("nc,ncd->nd", v, jacobian)
    expected = rows.flatten(1).norm(dim=1).mean()
    penalty = penalty_of(GrokAlign(1.0, estimator, generator=torch.Generator().manual_seed(2)), model, x)
    assert ("GramNorm" in str([*reached([penalty.grad_fn], sources)])) == (width == 3)
    torch.testing.assert_close(penalty, expected)
    for ours, theirs in zip(grads(penalty, model), grads(expected, model), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_squared_projection_is_unbiased():
    model, x = zoo("bias")
    truth = exact_norms(model, x).square().mean()
    many = x.repeat(40, *(1,) * (x.ndim - 1))  # as many draws in one pass
    draws = torch.stack([GrokAlign(1.0, squared=True)(model, many).detach() for _ in range(100)])
    error = draws.std() / math.sqrt(len(draws))
    assert error < 0.01 * truth
    torch.testing.assert_close(draws.mean(), truth, rtol=0, atol=5 * error.item())


def test_root_of_one_projection_is_low_as_documented():
    """Rank one, c = 10: E|v_1| sqrt(10) for v on the sphere, 18 % below one; the docstring says so."""
    model = nn.Linear(6, 10, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.outer(torch.randn(10), torch.randn(6)))
    x = torch.randn(20_000, 6, dtype=torch.float64)
    ratio = (GrokAlign(1.0)(model, x) / model.weight.norm()).item()
    truth = math.sqrt(10) * math.gamma(5) / (math.sqrt(math.pi) * math.gamma(5.5))
    torch.testing.assert_close(ratio, truth, rtol=0.02, atol=0)
    torch.testing.assert_close(1 - truth, 0.18, rtol=0, atol=0.015)


def test_level_is_the_distance_of_the_mean_norm():
    model, x = zoo("mlp")
    mean = exact_norms(model, x).mean()
    torch.testing.assert_close(GrokAlign(2.0, "exact", level=5.0)(model, x), 2 * (5 - mean).abs())
    torch.testing.assert_close(GrokAlign(2.0, "exact", level=0.0)(model, x), 2 * mean)


def test_fraction_uses_that_part():
    model, x = zoo("bias")
    norms = exact_norms(model, x)
    part = torch.randperm(5, generator=torch.Generator().manual_seed(7))[:2]
    penalty = GrokAlign(1.0, "exact", fraction=0.4, generator=torch.Generator().manual_seed(7))(model, x)
    torch.testing.assert_close(penalty, norms[part].mean())


@pytest.mark.parametrize("estimator", ["projection", "exact"])
def test_dead_samples_cost_nothing_and_break_nothing(estimator):
    """A sample whose hidden units are all off has a zero Jacobian: value and gradient stay finite, on both paths."""
    for width in (2, 300):
        model = mlp((40, width, 3), generator=torch.Generator().manual_seed(0)).double()
        with torch.no_grad():
            model[0].weight.abs_()
        x = torch.rand(10, 40, dtype=torch.float64)
        x[0] *= -1
        penalty = penalty_of(GrokAlign(1.0, estimator), model, x)
        assert all(torch.isfinite(g).all() for g in grads(penalty, model))
        torch.testing.assert_close(GrokAlign(1.0, estimator)(model, x[:1]), torch.tensor(0.0, dtype=torch.float64))


def batch_normed(norm, n):
    """A network in training whose samples mix, and a batch."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if norm is nn.BatchNorm2d:
            layers = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4)]
            return nn.Sequential(*layers).double(), torch.randn(n, 1, 4, 4, dtype=torch.float64)
        layers = [nn.Linear(6, 16), norm(16), nn.ReLU(), nn.Linear(16, 16), norm(16), nn.ReLU(), nn.Linear(16, 4)]
        return nn.Sequential(*layers).double(), torch.randn(n, 6, dtype=torch.float64)


class Centred(nn.Module):
    """Takes away the batch's mean."""

    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        return x - x.mean(0)


def whole_jacobian(model, x):
    """Of the outputs of each sample in the inputs of each: (n c n d)."""
    return torch.autograd.functional.jacobian(model, x, vectorize=True).flatten(3)


@pytest.mark.unchecked
@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.BatchNorm2d, Centred])
def test_where_samples_mix_both_estimators_estimate_one_number(norm):
    """The whole batch's Jacobian in a sample. The signs of `exact` are fixed: another order gives others."""
    model, x = batch_normed(norm, 16)
    generator = torch.Generator().manual_seed(0)

    def drawn(estimator, count):
        penalty = GrokAlign(1.0, estimator, 8, squared=True, generator=generator)
        orders = (torch.randperm(len(x), generator=generator) for _ in range(count))
        return torch.stack([penalty(model, x[order]).detach() for order in orders])

    truth = whole_jacobian(model, x).square().sum((0, 1, 3)).mean()
    exact, projection = drawn("exact", 50), drawn("projection", 400)
    error = projection.std() / math.sqrt(len(projection))
    assert error < 0.01 * truth
    torch.testing.assert_close(projection.mean(), truth, rtol=0, atol=5 * error.item())
    assert exact.std() < 0.08 * truth
    within = 5 * (error.square() + exact.var()).sqrt().item()
    torch.testing.assert_close(exact, projection.mean().expand(50), rtol=0, atol=within)
    torch.testing.assert_close(exact.mean(), truth, rtol=0.03, atol=0)


@pytest.mark.parametrize("estimator", ["projection", "exact"])
@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.BatchNorm2d])
def test_where_batch_norm_trains_the_samples_own_jacobian_is_meant(norm, estimator):
    """A large batch shows it, in which one sample moves the others little."""
    model, x = batch_normed(norm, 128)
    whole = whole_jacobian(model, x)
    own = torch.stack([whole[i, :, i].square().sum() for i in range(len(x))]).mean()
    penalty = GrokAlign(1.0, estimator, 200, squared=True, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(penalty(model, x).detach(), own, rtol=0.03, atol=0)


def test_exact_draws_no_random_numbers():
    model, x = zoo("mlp")
    state = torch.get_rng_state()
    assert torch.equal(GrokAlign(0.3, "exact")(model, x), GrokAlign(0.3, "exact")(model, x))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("estimator", ["projection", "exact"])
def test_outputs_without_a_graph_to_x_are_named(estimator):
    with pytest.raises(UnsupportedModuleError, match="expected outputs with a graph to x, got none"):
        GrokAlign(1.0, estimator)(lambda x: x.detach(), torch.ones(4, 3))


def test_training_with_it_shrinks_the_jacobian():
    generator = torch.Generator().manual_seed(0)
    model = mlp((10, 32, 3), scale=3.0, generator=generator)
    x, labels = torch.randn(64, 10, generator=generator), torch.randint(3, (64,), generator=generator)
    before = jacobian_norm(input_jacobian(model, x)).mean().item()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    grokalign = GrokAlign(1.0, generator=generator)
    for _ in range(100):
        logits, penalty = grokalign.logits_and_penalty(model, x)
        optimizer.zero_grad()
        (functional.cross_entropy(logits, labels) + penalty).backward()
        optimizer.step()
    assert not x.requires_grad
    assert jacobian_norm(input_jacobian(model, x)).mean().item() < 0.5 * before


@pytest.mark.parametrize("shared", [False, True])
def test_attention_is_not_fused_and_named_where_it_insists(shared):
    model, x = zoo("attention", torch.float32)
    assert all(torch.isfinite(g).all() for g in grads(penalty_of(GrokAlign(1.0), model.train(), x, shared), model))

    def fused(x):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            return model(x)

    with pytest.raises(UnsupportedModuleError, match=r"second derivative, got ScaledDotProduct.*SDPBackend.MATH"):
        penalty_of(GrokAlign(1.0), fused, x, shared)


class Cube(torch.autograd.Function):
    """x³, with a gradient that torch differentiates on."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x.square() * grad


class CubeOnce(Cube):
    """The same, with a gradient that is a constant to torch."""

    forward = staticmethod(torch.amp.custom_fwd(Cube.forward, device_type="cpu"))
    backward = staticmethod(torch.amp.custom_bwd(once_differentiable(Cube.backward), device_type="cpu"))


class CubeInHalfToo(Cube):
    """The same as the first, decorated for mixed precision."""

    forward = staticmethod(torch.amp.custom_fwd(Cube.forward, device_type="cpu"))
    backward = staticmethod(torch.amp.custom_bwd(Cube.backward, device_type="cpu"))


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("cube", [Cube, CubeOnce, CubeInHalfToo])
def test_a_layer_without_second_derivative_is_named(cube, share):
    layer, x = torch.nn.Linear(3, 2).double(), torch.ones(4, 3, dtype=torch.float64, requires_grad=True)

    def model(inputs):
        return cube.apply(layer(inputs))

    penalty = GrokAlign(1.0, "exact")
    if cube is CubeOnce:
        with pytest.raises(UnsupportedModuleError, match=r"second derivative, got CubeOnceBackward\. Use one that"):
            penalty_of(penalty, model, x, share)
        return
    got = torch.autograd.grad(penalty_of(penalty, model, x, share), layer.weight)
    wanted = torch.autograd.grad(penalty(lambda inputs: layer(inputs) ** 3, x), layer.weight)
    torch.testing.assert_close(got, wanted)


class Distances(nn.Module):
    """From learnt points."""

    def __init__(self):
        super().__init__()
        self.points = nn.Parameter(torch.ones(3, 6))

    def forward(self, x):
        return torch.cdist(x, self.points)


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.first, self.last, self.reentrant = nn.Linear(6, 4), nn.Linear(4, 3), reentrant

    def forward(self, x):
        return self.last(checkpoint(lambda z: torch.tanh(self.first(z)), x, use_reentrant=self.reentrant))


WITHOUT = {
    "HardsigmoidBackward0. Take torch.clamp(x / 6 + 0.5, 0, 1).": lambda: nn.Hardsigmoid(),
    "CdistBackward0. Take torch.linalg.vector_norm(x[:, None] - z, dim=2).": Distances,
}


@pytest.mark.parametrize("estimator", ["projection", "exact"])
@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("says", WITHOUT)
def test_torchs_own_layers_without_second_derivative_are_named_with_what_to_do(says, share, estimator):
    layer = WITHOUT[says]()
    model = nn.Sequential(nn.Linear(6, 6), layer, nn.LazyLinear(3))
    x = torch.ones(4, 6)
    model(x)
    with pytest.raises(
        UnsupportedModuleError, match=f"expected layers with a second derivative, got {re.escape(says)}"
    ):
        penalty_of(GrokAlign(1.0, estimator), model, x, share)


def test_what_is_not_on_the_way_from_x_needs_no_second_derivative():
    weight = nn.Parameter(torch.ones(6, 3, dtype=torch.float64))
    x = torch.ones(4, 6, dtype=torch.float64)
    penalty = GrokAlign(1.0, "exact")(lambda x: x @ functional.hardsigmoid(weight), x)
    (found,) = torch.autograd.grad(penalty, weight)
    (wanted,) = torch.autograd.grad(torch.clamp(weight / 6 + 0.5, 0, 1).norm(), weight)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("settings", [{}, {"estimator": "exact"}, {"fraction": 0.5}], ids=str)
def test_checkpoints_change_nothing(settings, reentrant):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Checkpointed(reentrant).double()
    plain, x = nn.Sequential(model.first, nn.Tanh(), model.last), torch.ones(4, 6, dtype=torch.float64)
    values = [
        GrokAlign(1.0, generator=torch.Generator().manual_seed(0), **settings)(network, x) for network in (model, plain)
    ]
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*(grads(value, model) for value in values))


COMPILED = {
    "a network": lambda model: torch.compile(model, backend="aot_eager"),
    "in place": lambda model: model.compile(backend="aot_eager") or model,
    "a part": lambda model: model[0].compile(backend="aot_eager") or model,
    "a function": lambda model: torch.compile(lambda x: model(x), backend="aot_eager"),
}


@pytest.mark.unchecked
@pytest.mark.filterwarnings("ignore:.torch.jit")
@pytest.mark.parametrize("way", COMPILED)
def test_what_is_compiled_runs_as_it_was_written(way):
    model, x = zoo("mlp")
    expected = GrokAlign(1.0, "exact")(model, x)
    wanted, found = grads(expected, model), deepfool(model, x)
    compiled = COMPILED[way](copy.deepcopy(model))
    compiled(x).sum().backward()  # now it is compiled
    torch.testing.assert_close(deepfool(compiled, x).perturbation, found.perturbation)
    for shared in (False, True):
        penalty = penalty_of(GrokAlign(1.0, "exact"), compiled, x, shared)
        torch.testing.assert_close(penalty, expected)
        if isinstance(compiled, nn.Module):
            torch.testing.assert_close(grads(penalty, compiled), wanted)


@pytest.mark.bad_input
def test_bad_settings_are_listed_together():
    with pytest.raises(
        RangeError, match=r"coefficient finite.*got -1; estimator.*got 'x'; fraction in \(0, 1\], got 2"
    ):
        GrokAlign(-1, "x", fraction=2)
    with pytest.raises(RangeError, match=r"GrokAlign: expected squared True or False, got 'no'"):
        GrokAlign(1.0, squared="no")
    with pytest.raises(ArgumentTypeError, match=r"GrokAlign\(generator\): expected a torch\.Generator, got int"):
        GrokAlign(1.0, generator=0)


@pytest.mark.bad_input
def test_bad_batches_are_named():
    model, x = zoo("mlp")
    with pytest.raises(RangeError, match=r"projections a whole number of at least 1, got 1\.5"):
        GrokAlign(1.0, projections=1.5)
    shape = r"\(model\): expected outputs of shape \(n, c\), got shape \(n, 3, 1\)"
    both = GrokAlign(1.0, every=9).logits_and_penalty
    for name, call in (("GrokAlign", GrokAlign(1.0)), (r"GrokAlign\.logits_and_penalty", both)):
        with pytest.raises(EmptyError, match=name + r"\(x\): expected at least one sample"):
            call(model, x[:0])
        with pytest.raises(RangeError, match=name + r"\(x\): expected a floating-point tensor"):
            call(model, x.long())
        with pytest.raises(
            RangeError, match=name + r"\(x\): expected a dense tensor that holds numbers, got one on the"
        ):
            call(model, x.to("meta"))
        for _ in range(2):  # it acts at the first call only
            with pytest.raises(
                ArgumentTypeError, match=name + r"\(model\): expected a network, .* got NoneType\. Pass"
            ):
                call(None, x)
            with pytest.raises(ShapeError, match=name + shape):
                call(lambda x: model(x)[..., None], x)


def test_a_batch_with_a_graph_keeps_it():
    """Such as embeddings, which are trained too: by the loss and by the penalty."""
    model, x = zoo("LayerNorm")
    scale = torch.ones(x.shape[1], dtype=x.dtype, requires_grad=True)
    logits, penalty = GrokAlign(1.0, "exact").logits_and_penalty(model, x * scale)
    expected = model(x * scale)
    assert torch.equal(logits, expected)
    found, wanted = (torch.autograd.grad(each.square().sum(), scale, retain_graph=True) for each in (logits, expected))
    torch.testing.assert_close(found, wanted)
    (moved,) = torch.autograd.grad(penalty, scale)
    (wanted,) = torch.autograd.grad(exact_norms(model, x * scale).mean(), scale)
    torch.testing.assert_close(moved, wanted)


@pytest.mark.parametrize("fraction", [0.4, 1.0])
def test_a_batch_with_a_graph_is_taken_as_given_by_a_call(fraction):
    model, x = zoo("LayerNorm")
    x = x.requires_grad_()
    penalty = GrokAlign(1.0, "exact", fraction=fraction)(model, 2 * x)
    assert torch.autograd.grad(penalty, x, allow_unused=True) == (None,)


@pytest.mark.parametrize(("fraction", "shared", "alone"), [(1.0, [1], [1]), (0.5, [1, 1], [1])])
def test_one_sample_runs_by_itself(fraction, shared, alone):
    """As in training without the penalty: BatchNorm and dropout of two copies would do something else."""
    model, x = zoo("mlp")
    sizes = []
    grokalign, x = GrokAlign(1.0, fraction=fraction), x[: len(shared)]

    def network(x):
        sizes.append(len(x))
        return model(x)

    grokalign.logits_and_penalty(network, x)
    assert sizes == shared
    sizes.clear()
    grokalign(network, x)
    assert sizes == alone


@pytest.mark.parametrize("estimator", ["projection", "exact"])
@pytest.mark.parametrize("share", [False, True])
def test_mixed_precision_gives_the_same_to_its_digits(estimator, share):
    """Under autocast the layers run in bfloat16, which has eight bits: penalty and gradients keep two digits."""
    # Smooth, since no rounding may switch a unit off.
    model, x = zoo("LayerNorm", torch.float32)
    found = []
    for mixed in (False, True):
        penalty = GrokAlign(1.0, estimator, generator=torch.Generator().manual_seed(1))
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            value = penalty_of(penalty, model, x, share)
        found.append(torch.cat([value[None].float(), *(g.flatten() for g in grads(value, model))]).detach())
    assert (found[0] - found[1]).norm() < 0.02 * found[0].norm()
    assert not torch.equal(*found), "nothing ran in bfloat16"


def test_samples_that_are_numbers():
    """A batch of one axis: the Jacobian of each is that of the outputs in one number."""
    weight = torch.tensor([[2.0], [-1.0], [0.5]], dtype=torch.float64, requires_grad=True)
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)
    slopes = (1 - torch.tanh(x[:, None] @ weight.T).square()) * weight.T
    for shared in (False, True):
        penalty = penalty_of(GrokAlign(1.0, "exact"), lambda x: torch.tanh(x[:, None] @ weight.T), x, shared)
        torch.testing.assert_close(penalty, slopes.norm(dim=1).mean())


@pytest.mark.unchecked
@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_a_step_that_is_compiled_whole_is_refused():
    model, x = zoo("mlp")
    step = torch.compile(lambda x: GrokAlign(1.0).logits_and_penalty(model, x)[1], backend="aot_eager")
    with pytest.raises(Exception, match=r"a call outside torch.compile, got one inside. Compile the network alone"):
        step(x)


@pytest.mark.unchecked
def test_processes_that_reduce_at_the_first_derivative_are_refused():
    """With a static graph DistributedDataParallel takes the penalty's derivative for the loss's: no process says so."""
    model, x = zoo("mlp", torch.float32)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        GrokAlign(1.0).logits_and_penalty(DistributedDataParallel(model), x)[1].backward()
        wrapped = DistributedDataParallel(model, static_graph=True)
        with pytest.raises(UnsupportedModuleError, match=r"got _DDPSinkBackward.*without static_graph"):
            GrokAlign(1.0).logits_and_penalty(wrapped, x)
    finally:
        dist.destroy_process_group()


def test_accumulated_batches_give_the_mean_of_their_penalties():
    model, x = zoo("mlp")
    whole = grads(GrokAlign(1.0, "exact")(model, x), model)
    for p in model.parameters():
        p.grad = None
    for part in torch.split(x, 1):
        (GrokAlign(1.0, "exact")(model, part) / len(x)).backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], list(whole))
