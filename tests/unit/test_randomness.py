"""Networks that draw random numbers: refused where passes have to agree, taken where there is only one."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import gnomon
from gnomon.autodiff._independence import require_one_function
from gnomon.errors import UnsupportedModuleError

X, LABELS = torch.randn(12, 6, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
SAYS = r"expected a network that computes the same in each pass, got "


class Called(nn.Module):
    """A layer behind a linear one, called as torch's own want to be."""

    def __init__(self, layer, call):
        super().__init__()
        self.first, self.layer, self.last, self.call = nn.Linear(6, 8), layer, nn.Linear(8, 3), call

    def forward(self, x):
        return self.last(self.call(self.layer, self.first(x)))


class Drawing(nn.Module):
    """Draws in training mode, or always, by a function."""

    def __init__(self, draw, always=False):
        super().__init__()
        self.first, self.last, self.draw, self.always = nn.Linear(6, 8), nn.Linear(8, 3), draw, always

    def forward(self, x):
        hidden = self.first(x).relu()
        return self.last(self.draw(hidden) if self.training or self.always else hidden)


def dropping():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def alone(layer, x):
    return layer(x)


def on_channels(layer, x):
    return layer(x.view(-1, 4, 2, 1)).flatten(1)


def along(layer, x):
    return layer(x.view(-1, 2, 4))[0].flatten(1)


def attending(layer, x):
    tokens = x.view(-1, 2, 4)
    return layer(tokens, tokens, tokens)[0].flatten(1)


# So rarely that two passes are mostly equal.
P = 1e-6
LAYERS = {
    "Dropout": (nn.Dropout(P), alone),
    "Dropout2d": (nn.Dropout2d(P), on_channels),
    "AlphaDropout": (nn.AlphaDropout(P), alone),
    "RReLU": (nn.RReLU(0.2, 0.2 + P), alone),
    "GRU": (nn.GRU(4, 4, 2, dropout=P, batch_first=True), along),
    "MultiheadAttention": (nn.MultiheadAttention(4, 2, dropout=P, batch_first=True), attending),
}
CERTAIN = {
    "never": (nn.Dropout(0.0), alone),
    "always": (nn.Dropout(1.0), alone),
    "one slope": (nn.RReLU(0.2, 0.2), alone),
    "one recurrent layer": (nn.GRU(4, 4, batch_first=True), along),
    "attention": (nn.MultiheadAttention(4, 2, batch_first=True), attending),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_draw_are_named_however_rarely_they_do(name):
    model = Called(*LAYERS[name])
    with pytest.raises(UnsupportedModuleError, match=rf"{SAYS}{name} 'layer' drawing .*Call model\.eval\(\) first\.$"):
        require_one_function(model, X)
    require_one_function(model.eval(), X)


@pytest.mark.parametrize("name", CERTAIN)
def test_layers_whose_outputs_are_certain_are_taken(name):
    require_one_function(Called(*CERTAIN[name]), X)


SEVERAL = {
    "hessian_eigenvalues": lambda m: gnomon.hessian_eigenvalues(m, X, LABELS),
    "hessian_trace": lambda m: gnomon.hessian_trace(m, X, LABELS),
    "gauss_newton_eigenvalues": lambda m: gnomon.gauss_newton_eigenvalues(m, X, LABELS),
    "gauss_newton_trace": lambda m: gnomon.gauss_newton_trace(m, X, LABELS),
    "gradient_sharpness": lambda m: gnomon.gradient_sharpness(m, X, LABELS),
    "commutator_defect": lambda m: gnomon.commutator_defect(m, X, LABELS),
    "local_learning_coefficient": lambda m: gnomon.local_learning_coefficient(m, X, LABELS),
    "ntk": lambda m: gnomon.ntk(m, X),
    "ntk_to_point": lambda m: gnomon.ntk_to_point(m, X, X[0]),
    "centroid_rate": lambda m: gnomon.centroid_rate(m, X, X, LABELS, functional.cross_entropy),
    "centroid_influence": lambda m: gnomon.centroid_influence(m, X, X, LABELS, functional.cross_entropy),
    "batch_gradients": lambda m: gnomon.batch_gradients(m, X, LABELS),
    "GradientSums.update": lambda m: gnomon.GradientSums().update(m, X, LABELS),
    "gradient_disparity": lambda m: gnomon.gradient_disparity(m, X, LABELS, batches=2),
    "fact_table": lambda m: gnomon.fact_table(m, X, LABELS, weight_decay=0.1),
    "JacobianOperator": lambda m: gnomon.JacobianOperator(m, X),
    "deepfool": lambda m: gnomon.deepfool(m, X),
    "layer_collapse": lambda m: gnomon.layer_collapse(m, X, LABELS),
    "features": lambda m: gnomon.features(m, X, layer="3"),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_what_takes_several_passes_refuses_it(name):
    model = dropping()
    with pytest.raises(UnsupportedModuleError, match=rf"^{name}\(model\): {SAYS}Dropout '2' drawing random numbers"):
        SEVERAL[name](model)
    SEVERAL[name](model.eval())


def test_layer_collapse_refuses_it_behind_all_layers_too():
    """Where their inputs have the samples in order."""
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.Dropout(0.5))
    with pytest.raises(UnsupportedModuleError, match=rf"^layer_collapse\(model\): {SAYS}Dropout '3' drawing"):
        gnomon.layer_collapse(model, X, LABELS)


def test_one_pass_is_of_the_numbers_that_it_draws():
    """Jacobians are those of the weights that dropout leaves, sample by sample, and so is the penalty."""
    first, last = nn.Linear(6, 8, bias=False), nn.Linear(8, 3, bias=False)
    model = nn.Sequential(first, nn.Dropout(0.5), last)
    product = last.weight[:, :, None] * first.weight
    jacobians = gnomon.input_jacobian(model, X)
    # A unit is kept, with twice its weight, or not: the only such sums are these.
    kept = 2 * ((torch.arange(2**8)[:, None] >> torch.arange(8)) & 1).float()
    sums = torch.einsum("sh,chd->scd", kept, product)
    assert (jacobians[:, None] - sums).abs().amax((2, 3)).amin(1).max() < 1e-5
    assert len(jacobians.unique(dim=0)) > 1
    apart = (gnomon.centroid(model, X)[:, None] - sums.sum(1)).abs().amax(2).amin(1)
    assert apart.max() < 1e-5
    torch.manual_seed(0)
    logits, penalty = gnomon.GrokAlign(1.0, "exact").logits_and_penalty(model, X)
    torch.manual_seed(0)
    torch.testing.assert_close(logits, model(X))
    torch.manual_seed(0)
    mask = nn.Dropout(0.5)(torch.ones(12, 8))
    norms = torch.linalg.vector_norm(torch.einsum("nh,chd->ncd", mask, product), dim=(1, 2))
    torch.testing.assert_close(penalty, norms.mean())


def noisy(x):
    return x + torch.randn_like(x)


FUNCTIONS = {"dropout": functional.dropout, "noise": noisy, "a path for all": lambda x: x * torch.rand(())}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_draw_are_noticed(name):
    model, state = Drawing(FUNCTIONS[name]), torch.get_rng_state()
    says = rf"{SAYS}outputs that change by [\d.e-]+ with the random numbers .* Let it draw none, as by model\.eval"
    for function in (model, lambda x: model(x)):
        with pytest.raises(UnsupportedModuleError, match=rf"JacobianOperator\(model\): {says}"):
            gnomon.JacobianOperator(function, X)
        assert torch.equal(torch.get_rng_state(), state)
        with pytest.raises(UnsupportedModuleError, match=rf"deepfool\(model\): {says}"):
            gnomon.deepfool(function, X)
    gnomon.ntk(model.eval(), X)
    with pytest.raises(UnsupportedModuleError, match=rf"ntk\(model\): {says}"):
        gnomon.ntk(Drawing(FUNCTIONS[name], always=True).eval(), X)
    gnomon.input_jacobian(model.train(), X)


def test_numbers_that_are_drawn_without_effect_are_no_matter():
    """Some networks draw whether to skip a layer in eval mode too, where they never do."""

    def unused(x):
        torch.rand(())
        return x

    with torch.no_grad():
        kernel = gnomon.ntk(model := Drawing(unused), X)
    torch.testing.assert_close(kernel, gnomon.ntk(model.eval(), X).detach())
