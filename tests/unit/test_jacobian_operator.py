"""Products with the Jacobian, on the whole zoo, against the Jacobian itself."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import gnomon
from gnomon import JacobianOperator
from gnomon.errors import EmptyError, RangeError, ShapeError, UnsupportedModuleError
from gnomon.models import mlp
from tests.zoo import BUILDERS, zoo


class Once(torch.autograd.Function):
    """A square whose gradient has none."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("memory", [None, 1])
def test_products_are_those_with_the_jacobian(name, memory, generator):
    model, x = zoo(name)
    jacobian = gnomon.input_jacobian(model, x).detach()
    operator = JacobianOperator(model, x, memory=memory)
    u = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    v = torch.randn(jacobian.shape[:2], generator=generator, dtype=x.dtype)
    assert operator.shape == jacobian.shape
    torch.testing.assert_close(operator.matvec(u), (jacobian * u[:, None]).flatten(2).sum(2))
    torch.testing.assert_close(operator.rmatvec(v), torch.einsum("nc,nc...->n...", v, jacobian))


def test_products_are_the_same_in_float32_and_whatever_the_modes_around():
    model, x = zoo("conv", torch.float32)
    expected = JacobianOperator(model, x).matvec(x)
    with torch.inference_mode(), torch.autocast("cpu"):
        found = JacobianOperator(model, x.clone()).matvec(x.clone())
    assert found.dtype == torch.float32
    assert not expected.requires_grad
    torch.testing.assert_close(found, expected)


def test_a_jacobian_of_zeros_has_products_and_vectors_may_be_of_another_dtype():
    layer, u = nn.Linear(4, 3), torch.arange(8.0, dtype=torch.float64).view(2, 4)
    operator = JacobianOperator(layer, torch.ones(2, 4))
    torch.testing.assert_close(operator.matvec(u), u.float() @ layer.weight.detach().T)
    layer.weight.data.zero_()
    assert not JacobianOperator(layer, torch.ones(2, 4)).matvec(u).any()


def test_products_that_overflow_are_refused_from_either_side():
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data.fill_(1e20)  # whose squares overflow too
    operator = JacobianOperator(layer, torch.zeros(2, 2))
    torch.testing.assert_close(operator.matvec(torch.ones(2, 2)), torch.full((2, 2), 2e20))
    for multiply in (operator.matvec, operator.rmatvec):
        with pytest.raises(RangeError, match=r"\(jacobian\): expected finite numbers, got inf"):
            multiply(torch.full((2, 2), 1e20))


def test_what_cannot_be_differentiated_twice_is_said_and_has_products_from_the_left():
    model = nn.Sequential(nn.Linear(6, 4), nn.Module(), nn.Linear(4, 3))
    model[1].forward = Once.apply
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    operator = JacobianOperator(model, x)
    torch.testing.assert_close(operator.rmatvec(torch.ones(5, 3)), gnomon.centroid(model, x))
    expected = (
        r"JacobianOperator.matvec\(model\): expected layers with a second derivative, got .*\. Pass the Jacobian itself"
    )
    with pytest.raises(UnsupportedModuleError, match=expected):
        operator.matvec(x)


@pytest.mark.bad_input
def test_bad_arguments_are_named():
    model, x = zoo("mlp")
    operator = JacobianOperator(model, x)
    with pytest.raises(ShapeError, match=r"JacobianOperator.matvec\(u\): expected shape \(5, 6\), got \(5, 3\)"):
        operator.matvec(torch.ones(5, 3))
    with pytest.raises(ShapeError, match=r"JacobianOperator.rmatvec\(v\): expected shape \(5, 3\), got \(3,\)"):
        operator.rmatvec(torch.ones(3))
    with pytest.raises(RangeError, match=r"JacobianOperator.matvec\(u\): expected finite numbers, got nan"):
        operator.matvec(torch.full((5, 6), torch.nan))
    with pytest.raises(RangeError, match=r"JacobianOperator\(x\): expected a floating-point tensor, got torch.int64"):
        JacobianOperator(model, x.long())
    with pytest.raises(EmptyError, match=r"JacobianOperator\(x\): expected at least one sample, got none"):
        JacobianOperator(model, x[:0])
    with pytest.raises(UnsupportedModuleError, match=r"JacobianOperator\(model\): expected samples that do not mix"):
        JacobianOperator(lambda x: x - x.mean(0), x)


def steps(model, x):
    model(x).sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()


def replaces(model, x):
    model[0].weight = nn.Parameter(2 * model[0].weight.detach())


def moves_samples(model, x):
    x.mul_(3)


OTHERS = (
    r"\(model\): expected unchanged weights and samples, got ones that changed since the operator was made. Make it"
)


@pytest.mark.parametrize("memory", [None, 1])
@pytest.mark.parametrize("change", [steps, replaces, moves_samples])
def test_an_operator_of_other_weights_or_samples_is_refused(change, memory):
    model, x = zoo("mlp")
    operator = JacobianOperator(model, x, memory=memory)
    operator.matvec(torch.ones_like(x))
    gnomon.jacobian_norm(operator)
    change(model, x)
    for use in (lambda: operator.matvec(torch.ones_like(x)), lambda: gnomon.jacobian_norm(operator)):
        with pytest.raises(RangeError, match=OTHERS):
            use()


@pytest.mark.parametrize("memory", [None, 1])
def test_samples_may_be_a_part_of_what_changes(memory, generator):
    model, data = mlp((6, 8, 3)), torch.randn(20, 6, generator=generator)
    operator, u = JacobianOperator(model, data[:10], memory=memory), torch.ones(10, 6)
    expected = operator.matvec(u)
    data[15] = 0
    torch.testing.assert_close(operator.matvec(u), expected, rtol=0, atol=0)
    data[5] = 0
    with pytest.raises(RangeError, match=OTHERS):
        operator.matvec(u)


class Renormalising(nn.Module):
    """A layer whose forward pass limits its weight's norm, as that of `nn.Embedding(max_norm=)`."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)))

    def forward(self, x):
        with torch.no_grad():
            self.weight.renorm_(2, 1, 1.0)
        return (x @ self.weight).tanh()


@pytest.mark.parametrize("memory", [None, 1])
def test_a_forward_pass_may_change_its_weights_but_nobody_else(memory, generator):
    model, x = Renormalising(), torch.randn(5, 6, generator=generator)
    operator = JacobianOperator(model, x, memory=memory)
    torch.testing.assert_close(operator.matvec(x), operator.matvec(x), rtol=0, atol=0)
    gnomon.jacobian_norm(operator)
    steps(model, x)
    with pytest.raises(RangeError, match=OTHERS):
        operator.matvec(x)


@pytest.mark.parametrize(
    "use",
    [
        lambda operator, x: operator.matvec(x),
        lambda operator, x: operator.rmatvec(x[:, :3]),
        lambda operator, x: gnomon.jacobian_norm(operator),
        lambda operator, x: gnomon.agop(operator),
    ],
)
def test_a_kept_pass_notices_other_weights_of_a_function(use, generator):
    weight, x = torch.randn(6, 3, generator=generator), torch.randn(5, 6, generator=generator)
    operator = JacobianOperator(lambda x: (x @ weight).tanh(), x)
    operator.matvec(x)
    weight.mul_(2)
    with pytest.raises(RangeError, match=OTHERS):
        use(operator, x)


def test_a_network_that_overwrites_what_it_needs_is_not_said_to_be_another_since():
    def overwrites(x):
        h = x.exp()
        return h.clone(), h.mul_(2)

    operator = JacobianOperator(lambda x: overwrites(x)[0], torch.ones(5, 3))
    for multiply in (operator.matvec, operator.rmatvec):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            multiply(torch.ones(5, 3))


class Half(nn.Module):
    """In bfloat16 within, as language models, with logits in float32."""

    def __init__(self, seed):
        super().__init__()
        self.layers = mlp((20, 64, 200), generator=torch.Generator().manual_seed(seed)).bfloat16()

    def forward(self, x):
        return self.layers(x.bfloat16()).float()


@pytest.mark.parametrize("seed", range(6))
def test_logits_may_be_finer_than_the_network(seed):
    model, x = Half(seed), torch.randn(8, 20, generator=torch.Generator().manual_seed(seed))
    jacobian, u = gnomon.input_jacobian(model, x).detach(), torch.ones(8, 20)
    product = JacobianOperator(model, x).matvec(u)
    size = jacobian.norm(dim=2).amax() * u[0].norm()
    torch.testing.assert_close(product, torch.einsum("ncd,nd->nc", jacobian, u), rtol=0, atol=float(0.01 * size))


def test_a_jacobian_that_is_not_finite_is_said():
    model = mlp((6, 8, 3))
    model[0].weight.data[0, 0] = torch.nan
    with pytest.raises(RangeError, match=r"JacobianOperator.rmatvec\(jacobian\): expected finite numbers, got nan"):
        JacobianOperator(model, torch.ones(5, 6)).rmatvec(torch.ones(5, 3))


class Dynamic(nn.Module):
    """A convolution whose kernel follows from the sample."""

    def __init__(self):
        super().__init__()
        self.kernel = nn.Linear(50, 54)

    def forward(self, x):
        kernels = self.kernel(x.flatten(1)).view(-1, 2, 3, 3)
        return nn.functional.conv2d(x.view(1, -1, 5, 5), kernels, groups=len(x)).view(len(x), -1)


class Mapped(nn.Module):
    """A convolution mapped over the samples, or over several weights, or differentiated, by torch.func."""

    def __init__(self, over):
        super().__init__()
        self.over, self.layer = over, nn.Conv2d(2, 3, 3)

    def forward(self, x):
        maps = {
            "samples": lambda: torch.func.vmap(lambda one: self.layer(one.unsqueeze(0)).squeeze(0))(x),
            "weights": lambda: torch.func.vmap(lambda w: nn.functional.conv2d(x, w))(self.layer.weight[:, None]).sum(0),
            "nothing": lambda: torch.func.grad(lambda x: self.layer(x).square().sum())(x),
        }
        return maps[self.over]()


class Complex(nn.Module):
    """A convolution of complex numbers, of which the squared moduli remain."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(2, 3, 3, dtype=torch.complex128)

    def forward(self, x):
        return self.layer(torch.complex(x, x.cos())).abs().square()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv1d(2, 3, 4, stride=3, padding=1, padding_mode="circular"), (2, 12)),
        (nn.Conv2d(4, 6, (3, 2), stride=(2, 3), padding=(1, 0), dilation=(2, 1), groups=2, bias=False), (4, 8, 9)),
        (nn.Conv2d(2, 3, 3, padding="same"), (2, 3, 4)),
        (nn.Conv3d(2, 2, 2, stride=2, padding=1), (2, 3, 4, 5)),
        (nn.utils.parametrizations.weight_norm(nn.Conv2d(2, 3, 3)), (2, 5, 5)),
        (nn.LazyConv2d(3, 3, stride=2), (2, 6, 5)),
        (Dynamic(), (2, 5, 5)),
        (Complex(), (2, 5, 5)),
        (Mapped("samples"), (2, 5, 5)),
        (Mapped("weights"), (2, 5, 5)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_convolutions_of_all_kinds_have_products(layer, shape, generator):
    model = nn.Sequential(layer.double(), nn.Tanh(), nn.Flatten())
    x = torch.randn(3, *shape, generator=generator, dtype=torch.float64)
    assert model(x).shape[1]
    jacobian = gnomon.input_jacobian(model, x).detach().flatten(2)
    operator = JacobianOperator(model, x)
    u, v = torch.randn_like(x), torch.randn_like(jacobian[:, :, 0])
    torch.testing.assert_close(operator.matvec(u), (jacobian @ u.flatten(1).unsqueeze(2)).squeeze(2))
    torch.testing.assert_close(operator.rmatvec(v).flatten(1), (v.unsqueeze(1) @ jacobian).squeeze(1))


def test_a_network_differentiated_by_torch_func_inside_is_refused():
    model, x = nn.Sequential(Mapped("nothing"), nn.Flatten()), torch.ones(3, 2, 5, 5)
    for quantity in (gnomon.input_jacobian, JacobianOperator, gnomon.ntk):
        with pytest.raises(UnsupportedModuleError, match=r"one that calls torch.func.grad, .* Call torch.auto"):
            quantity(model, x)


class Convolutions(TorchDispatchMode):
    """How many are called."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += operation in (torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default)
        return operation(*args, **(kwargs or {}))


def test_a_product_costs_one_convolution_a_layer(generator):
    """Of torch's own graph three, since the gradient in the weight comes along."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Conv2d(4, 3, 3, stride=2), nn.Flatten())
    x = torch.randn(5, 2, 9, 9, generator=generator)
    operator = JacobianOperator(model, x)
    operator.matvec(x)  # the first makes the graph
    for multiply, vector in ((operator.matvec, x), (operator.rmatvec, torch.ones(5, 27))):
        with Convolutions() as convolutions:
            multiply(vector)
        assert convolutions.count == 2


def test_the_graph_of_products_counts_towards_the_memory():
    """Chunks are smaller than those of a Jacobian of one output: the backward pass is kept too."""
    model, x = mlp((64, 64, 64, 1)), torch.zeros(4096, 64)
    parts = [part.shape[0] for part in JacobianOperator(model, x, memory=2**20).parts()]
    assert sum(parts) == len(x)
    assert 2 < max(parts) < 1024


@pytest.mark.parametrize(("widths", "size", "samples"), [((2, 100), 1.0, 700), ((64, 10), 20.0, 500)])
def test_half_precision_need_not_hold_what_the_check_adds_up(widths, size, samples):
    """The number of outputs of all samples, and the squares of all products."""
    generator = torch.Generator().manual_seed(0)
    layer = mlp(widths, scale=size, generator=generator).half()
    x, u = (torch.randn(samples, widths[0], generator=generator).half() for _ in range(2))
    torch.testing.assert_close(JacobianOperator(layer, x).matvec(u), layer(u).detach(), rtol=1e-2, atol=1e-2 * size)


def test_settings_of_a_convolution_may_be_of_length_one():
    model = nn.Sequential(nn.Conv2d(1, 2, 3, stride=(2,), padding=(1,)), nn.Flatten(), nn.LazyLinear(3)).double()
    x = torch.randn(2, 1, 6, 6, generator=torch.Generator().manual_seed(0)).double()
    model(x)
    v = torch.ones(2, 3).double()
    expected = torch.einsum("nc,nc...->n...", v, gnomon.input_jacobian(model, x))
    torch.testing.assert_close(JacobianOperator(model, x).rmatvec(v), expected.detach())
