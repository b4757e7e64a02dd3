"""The input Jacobian and its products, on the whole zoo, against torch's own functional Jacobian."""

import pytest
import torch
from torch import nn

import gnomon
from gnomon.autodiff import Tape, linear_head
from gnomon.autodiff._entrance import linear_entrance
from gnomon.autodiff._memory import chunk_size
from gnomon.errors import ArgumentTypeError, EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.steer import GrokAlign
from tests.zoo import BUILDERS, zoo


def jacobian_by_sample(model, x):
    """The plainest way: one sample at a time, torch's functional Jacobian."""
    return torch.stack([torch.autograd.functional.jacobian(lambda s: model(s[None])[0], sample) for sample in x])


@pytest.mark.parametrize("name", BUILDERS)
def test_jacobian_is_the_derivative_of_each_sample(name):
    model, x = zoo(name)
    with torch.no_grad():
        torch.testing.assert_close(gnomon.input_jacobian(model, x), jacobian_by_sample(model, x))


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("budget", [1, 5000, 2**30])
def test_chunks_change_nothing(name, budget):
    model, x = zoo(name)
    with torch.no_grad():
        whole, parts = gnomon.input_jacobian(model, x), gnomon.input_jacobian(model, x, memory=budget)
        torch.testing.assert_close(parts, whole)
        torch.testing.assert_close(gnomon.centroid(model, x, memory=budget), whole.sum(1))
    torch.testing.assert_close(gnomon.input_jacobian(model, x, memory=budget), whole)


@pytest.mark.parametrize("name", BUILDERS)
def test_vector_jacobian_is_the_product(name):
    model, x = zoo(name)
    jacobian = jacobian_by_sample(model, x)
    n, c = jacobian.shape[:2]
    v = torch.randn(n, c, dtype=x.dtype)
    torch.testing.assert_close(gnomon.vector_jacobian(model, x, v), torch.einsum("nc,nc...->n...", v, jacobian))
    torch.testing.assert_close(
        gnomon.vector_jacobian(model, x, v[0], memory=1), torch.einsum("c,nc...->n...", v[0], jacobian)
    )


def test_bias_free_network_obeys_euler():
    """J x = f(x), and the inner product with the centroid is the sum of the outputs."""
    model, x = zoo("mlp")
    outputs = model(x)
    torch.testing.assert_close(torch.einsum("ncd,nd->nc", gnomon.input_jacobian(model, x), x), outputs)
    torch.testing.assert_close(gnomon.centroid_inner_product(gnomon.centroid(model, x), x), outputs.sum(1))


@pytest.mark.parametrize("name", BUILDERS)
def test_derivative_of_the_jacobian_by_parameters_and_input(name):
    """In grad mode the results can be differentiated further: against central differences."""
    model, x = zoo(name)
    weight = next(iter(model.parameters()))
    direction = torch.randn_like(weight)

    def size():
        return gnomon.input_jacobian(model, x).square().sum()

    (grad,) = torch.autograd.grad(size(), weight)
    step, values = 1e-6, []
    for sign in (1, -1):
        with torch.no_grad():
            weight += sign * step * direction
            values.append(size())
            weight -= sign * step * direction
    torch.testing.assert_close((grad * direction).sum(), (values[0] - values[1]) / (2 * step), rtol=1e-5, atol=1e-6)


def test_jacobian_can_be_differentiated_by_the_input():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: gnomon.input_jacobian(model, x), x)
    assert torch.autograd.gradcheck(lambda x: gnomon.centroid(model, x), x)


def test_grad_modes_are_followed():
    model, x = zoo("mlp")
    expected = jacobian_by_sample(model, x)
    assert gnomon.input_jacobian(model, x).requires_grad
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            jacobian = gnomon.input_jacobian(model, x.clone())
        assert not jacobian.requires_grad
        torch.testing.assert_close(jacobian, expected)
    assert not gnomon.input_jacobian(model.requires_grad_(False), x).requires_grad


def test_inputs_and_gradients_are_untouched():
    model, x = zoo("mlp")
    before = x.clone()
    gnomon.input_jacobian(model, x)
    torch.testing.assert_close(x, before, rtol=0, atol=0)
    assert x.grad is None
    assert not x.requires_grad
    assert all(p.grad is None for p in model.parameters())


def test_dtype_is_kept():
    model, x = zoo("mlp", torch.float32)
    assert gnomon.input_jacobian(model, x).dtype == torch.float32


def test_chunk_size_follows_the_graph():
    """A width-h layer keeps about h numbers a sample; ten times the budget, ten times the samples."""
    model, x = nn.Sequential(nn.Linear(10, 1000), nn.ReLU(), nn.Linear(1000, 1)), torch.randn(100_000, 10)
    small, large = (chunk_size(model, x, jacobian=1, memory=budget) for budget in (10**6, 10**7))
    assert 50 <= small <= 130
    torch.testing.assert_close(large / small, 10.0, rtol=0.05, atol=0)


def test_a_function_is_a_model():
    x = torch.randn(3, 2, dtype=torch.float64)
    torch.testing.assert_close(gnomon.input_jacobian(lambda x: x.square(), x), torch.diag_embed(2 * x))


@pytest.mark.parametrize("function", [gnomon.input_jacobian, gnomon.centroid])
@pytest.mark.parametrize("cut", ["no_grad", "inference_mode", "detach", "ignored"])
def test_outputs_that_do_not_lead_back_to_the_input_are_refused(function, cut):
    """Their derivative would be zero, and what was meant is another one."""
    layer = nn.Linear(4, 2)
    ways = {
        "no_grad": torch.no_grad()(layer.forward),
        "inference_mode": torch.inference_mode()(layer.forward),
        "detach": lambda x: layer(x.detach()),
        "ignored": lambda x: layer.bias.expand(len(x), 2),
    }
    says = rf"{function.__name__}\(model\): expected outputs with a graph to x"
    with pytest.raises(UnsupportedModuleError, match=says):
        function(ways[cut], torch.ones(3, 4))


@pytest.mark.bad_input
@pytest.mark.parametrize("function", [gnomon.input_jacobian, gnomon.centroid])
def test_bad_input_is_named(function):
    model, x = zoo("mlp")
    name = function.__name__
    with pytest.raises(EmptyError, match=rf"{name}\(x\): expected at least one sample, got none"):
        function(model, x[:0])
    with pytest.raises(RangeError, match=rf"{name}\(x\): expected a floating-point tensor, got torch.int64"):
        function(model, x.long())
    with pytest.raises(RangeError, match=rf"{name}\(x\): expected finite numbers, got nan at index \(2, 1\)"):
        function(model, x.index_put((torch.tensor(2), torch.tensor(1)), torch.tensor(torch.nan, dtype=x.dtype)))
    with pytest.raises(
        ShapeError, match=rf"{name}\(model\): expected outputs of shape \(., c\), got shape \(., 3, 1\)"
    ):
        function(lambda x: model(x)[..., None], x)
    with pytest.raises(ShapeError, match=rf"{name}\(model\): expected outputs .* got tuple"):
        function(lambda x: (model(x),), x)
    with pytest.raises(RangeError, match=rf"{name}\(memory\): expected a positive number of bytes, got 0"):
        function(model, x, memory=0)
    mixing = zoo("BatchNorm")[0].train()
    with pytest.raises(UnsupportedModuleError, match=r"BatchNorm2d '1' normalising by the batch. Call model.eval\(\)"):
        function(mixing, zoo("BatchNorm")[1])


def test_running_statistics_are_not_moved_by_a_measure():
    """Those of an InstanceNorm in training mode, whose samples do not mix."""
    layers = nn.Conv2d(1, 3, 3), nn.InstanceNorm2d(3, track_running_stats=True), nn.Flatten(), nn.Linear(12, 2)
    model, x = nn.Sequential(*layers).double(), torch.randn(3, 1, 4, 4, dtype=torch.float64)
    with pytest.raises(UnsupportedModuleError, match=r"InstanceNorm2d '1' moving its running st.*Call model\.eval\(\)"):
        gnomon.input_jacobian(model, x)
    torch.testing.assert_close(layers[1].running_mean, torch.zeros(3, dtype=torch.float64), rtol=0, atol=0)
    assert gnomon.input_jacobian(model.eval(), x).shape == (3, 2, 1, 4, 4)


class Spare(nn.Module):
    """A network with a layer that mixes samples, which a pass calls or not."""

    def __init__(self, called):
        super().__init__()
        self.called, self.linear, self.spare = called, nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=False)

    def forward(self, x):
        return self.spare(self.linear(x)) if self.called else self.linear(x)


def test_a_layer_that_mixes_samples_is_refused_where_a_pass_calls_it():
    unused, used = (Spare(called).double().eval() for called in (False, True))
    x = torch.randn(5, 3, dtype=torch.float64)

    def probed(model, x):
        return gnomon.Probe(model, x, {"all": lambda jacobian: jacobian}).read().values["all"]

    for read in (gnomon.input_jacobian, probed):
        torch.testing.assert_close(read(unused, x), unused.linear.weight.detach().expand(5, 2, 3))
        with pytest.raises(
            UnsupportedModuleError, match=r"BatchNorm1d 'spare' normalising by the batch\. It keeps no running"
        ):
            read(used, x)
    assert not used.spare._forward_pre_hooks


@pytest.mark.parametrize("normed", [nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm])
def test_a_power_iteration_is_not_moved_by_a_measure(normed):
    model, x = nn.Sequential(normed(nn.Linear(3, 4)), nn.ReLU(), nn.Linear(4, 2)), torch.randn(5, 3)
    with pytest.raises(UnsupportedModuleError, match=r"moving its power iteration. Call model\.eval\(\)"):
        gnomon.features(model, x)
    assert gnomon.features(model.eval(), x).shape == (5, 4)


@pytest.mark.bad_input
def test_vector_of_wrong_shape_is_named():
    model, x = zoo("mlp")
    with pytest.raises(ShapeError, match=r"vector_jacobian\(v\): expected shape \(3,\) or \(5, 3\), got \(4,\)"):
        gnomon.vector_jacobian(model, x, torch.ones(4, dtype=x.dtype))


@pytest.mark.parametrize("name", BUILDERS)
def test_linear_entrance_is_found_exactly_where_it_is(name):
    model, x = zoo(name)
    x.requires_grad_()
    found = linear_entrance(Tape(x, model(x), create_graph=True))
    first = {"mlp": 0, "bias": 0, "flatten": 1, "one output": 0, "one sample": 0, "LayerNorm": 0, "dropout": 0}
    if name in first:
        torch.testing.assert_close(found[1], model[first[name]].weight)
    elif name in ("linear", "shared"):
        torch.testing.assert_close(found[1], next(iter(model.parameters())))
    else:
        assert found is None


def test_a_layer_whose_input_is_no_longer_there_is_refused():
    """What an in-place layer was given is overwritten with what it makes of it."""
    model, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)), torch.randn(6, 3)
    with pytest.raises(UnsupportedModuleError, match=r"features\(layer\): .*got one whose input is changed in place"):
        gnomon.features(model, x, layer="1")
    torch.testing.assert_close(gnomon.features(model, x, layer="2"), model[:2](x))


def test_a_layer_whose_input_has_other_rows_than_samples_is_refused():
    class TimeFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.out = nn.LayerNorm(3), nn.Linear(3, 2)

        def forward(self, x):
            return self.out(self.norm(x.transpose(0, 1))[-1])

    for n in (1, 2, 5, 8, 16):  # 8 of length 8 too, alone or in chunks
        message = r"\(layer\): expected a layer .* the samples along its first axis, got a LayerNorm .* 8 rows"
        with pytest.raises(UnsupportedModuleError, match=message):
            gnomon.features(TimeFirst(), torch.randn(n, 8, 3), layer="norm")


def test_the_search_for_the_last_layer_leaves_the_samples_as_they_are():
    x = torch.arange(-9.0, 9.0).view(6, 3)
    before = x.clone()
    linear_head(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 2)), x)
    torch.testing.assert_close(x, before, rtol=0, atol=0)


class Standardising(nn.Module):
    """A network that begins by changing what it is given, or a copy."""

    def __init__(self, *, in_place):
        super().__init__()
        self.in_place, self.first, self.last = in_place, nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        x = x.sub_(0.5) if self.in_place else x - 0.5
        return self.last(self.first(x).tanh())


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize(
    "quantity",
    [
        lambda model, x, labels: gnomon.input_jacobian(model, x),
        lambda model, x, labels: torch.no_grad()(gnomon.input_jacobian)(model, x),
        lambda model, x, labels: gnomon.JacobianOperator(model, x).matvec(torch.ones_like(x)),
        lambda model, x, labels: gnomon.ntk(model, x),
        lambda model, x, labels: torch.no_grad()(gnomon.ntk)(model, x, memory=1),
        lambda model, x, labels: gnomon.features(model, x),
        lambda model, x, labels: gnomon.features(model, x, layer="first"),
        lambda model, x, labels: gnomon.hessian_trace(model, x, labels).value,
        lambda model, x, labels: gnomon.gauss_newton_trace(model, x, labels).value,
        lambda model, x, labels: gnomon.centroid_rate(model, x, x, labels, nn.functional.cross_entropy),
        lambda model, x, labels: gnomon.centroid_influence(model, x, x, labels, nn.functional.cross_entropy),
        lambda model, x, labels: gnomon.nfa_table(model, x).pearson,
        lambda model, x, labels: GrokAlign(1.0, "exact")(model, x),
        lambda model, x, labels: torch.no_grad()(gnomon.deepfool)(model, x).norm,
    ],
)
def test_a_network_may_change_what_it_is_given(quantity, n):
    in_place, other = Standardising(in_place=True).double(), Standardising(in_place=False).double()
    other.load_state_dict(in_place.state_dict())
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    before, labels = x.clone(), torch.arange(n) % 2
    torch.testing.assert_close(quantity(in_place, x, labels), quantity(other, x, labels))
    torch.testing.assert_close(x, before, rtol=0, atol=0)


@pytest.mark.bad_input
def test_bad_budgets_names_and_outputs_are_named():
    model, x = zoo("mlp")
    with pytest.raises(ArgumentTypeError, match=r"input_jacobian\(memory\): expected a number, got str\. Pass one"):
        gnomon.input_jacobian(model, x, memory="1 GB")
    for memory in (-1, float("nan")):
        message = rf"input_jacobian\(memory\): expected a positive number of bytes, got {memory!r}"
        with pytest.raises(RangeError, match=message):
            gnomon.input_jacobian(model, x, memory=memory)
    for memory in (2e4, float("inf")):
        torch.testing.assert_close(gnomon.ntk(model, x, memory=memory), gnomon.ntk(model, x))
    with pytest.raises(ArgumentTypeError, match=r"features\(layer\): expected a name, got Linear. Pass its name"):
        gnomon.features(model, x, layer=nn.Linear(2, 2))
    with pytest.raises(UnsupportedModuleError, match=r"input_jacobian\(model\): expected real outputs, got"):
        gnomon.input_jacobian(lambda x: torch.complex(x, x), x)
