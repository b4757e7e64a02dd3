"""Networks as others write them, where a careless look at layers and parameters goes wrong; all take (n 6)."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint


class Function(nn.Module):
    """A forward pass written as a function of the parts."""

    def __init__(self, forward, *parts):
        super().__init__()
        self.parts, self.function = nn.ModuleList(parts), forward

    def forward(self, x):
        return self.function(self.parts, x)


def tied_module():
    block = nn.Linear(6, 6)
    return nn.Sequential(block, nn.ReLU(), block, nn.ReLU(), nn.Linear(6, 3))


def tied_list():
    block = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
    return nn.Sequential(*nn.ModuleList([block] * 3), nn.Linear(6, 3))


def shared(layer):
    return nn.Sequential(nn.Linear(6, 6), layer, nn.Linear(6, 6), layer, nn.Linear(6, 3))


def tied_parameter():
    first, last = nn.Linear(6, 4, bias=False), nn.Linear(4, 6, bias=False)
    last.weight = nn.Parameter(torch.randn(6, 4))
    other = nn.Linear(4, 6)
    other.weight = last.weight
    return nn.Sequential(first, nn.Tanh(), last, nn.Tanh(), nn.Linear(6, 4), other, nn.Linear(6, 3))


def two_layers():
    return nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))


def pruned():
    model = two_layers()
    prune.l1_unstructured(model[0], "weight", 0.5)
    return model


def weight_norm():
    model = two_layers()
    nn.utils.parametrizations.weight_norm(model[0])
    return model


def made_by_a_hook():
    """As `torch.nn.utils.weight_norm` of old: the weight is no parameter, but an attribute."""
    model = two_layers()
    layer = model[0]
    layer.register_parameter("scale", nn.Parameter(torch.randn(6, 1)))
    layer.register_parameter("direction", nn.Parameter(layer.weight.detach().clone()))
    del layer._parameters["weight"]

    def make(module, inputs):
        module.weight = module.scale * module.direction

    layer.register_forward_pre_hook(make)
    make(layer, ())
    return model


def extra_parameter():
    model = two_layers()
    model[0].extra = nn.Parameter(torch.randn(6))
    model[0].register_forward_hook(lambda module, inputs, output: output * module.extra)
    return model


def masked():
    """Trained in part, since hooks change the gradients."""
    model = two_layers()
    model[0].weight.register_hook(lambda gradient: gradient.triu())
    model[2].bias.register_hook(lambda gradient: 2 * gradient)
    return model


def child():
    model = two_layers()
    model[0].child = nn.Linear(6, 6)
    model[0].register_forward_hook(lambda module, inputs, output: output + module.child(inputs[0]))
    return model


def patched():
    model = two_layers()
    layer = model[0]
    layer.forward = lambda x: functional.linear(x.sin(), layer.weight, layer.bias)
    return model


def sorting(parts, x):
    order = x[:, 0].argsort()
    return parts[1](torch.relu(parts[0](x[order])))[order.argsort()]


def experts(parts, x):
    gate, *each = parts
    weight, chosen = gate(x).softmax(1).max(1)
    result = x.new_zeros(len(x), 3)
    for k, expert in enumerate(each):
        rows = (chosen == k).nonzero()[:, 0]
        if len(rows):
            result[rows] = expert(x[rows]) * weight[rows, None]
    return result


class Referring(nn.Module):
    """Comes to its parameter by a list, as the layers of Keras do."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 3))
        self.reference = [self.weight]

    def forward(self, x):
        return torch.tanh(x @ self.reference[0])


class Scalar(nn.Module):
    """A temperature: a parameter without axes."""

    def __init__(self):
        super().__init__()
        self.layer, self.temperature = nn.Linear(6, 3), nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.layer(x) * self.temperature.exp()


def constant_row(parts, x):
    return parts[2](torch.relu(parts[0](x) + parts[1](x.new_ones(1, 4))))


def dropping_axes(parts, x):
    """The axis of samples too, if it is of length one."""
    return parts[1](torch.relu(parts[0](x[:, None]).squeeze()))


def last_channels():
    """torch's gradient of BatchNorm in eval mode is wrong for one sample in this format."""
    norm = nn.BatchNorm1d(4)
    with torch.no_grad():
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    return Function(
        lambda parts, x: parts[3](torch.tanh(parts[2](parts[1](parts[0](x[:, None, :])).transpose(1, 2))).mean(1)),
        *(nn.Conv1d(1, 4, 3), norm, nn.Linear(4, 4), nn.Linear(4, 3)),
    )


def checkpointed(parts, x):
    """A convolution, attention and layer norms, which gnomon runs in ways that a backward pass does not know of."""
    first, *between, last = parts
    hidden = checkpoint(nn.Sequential(*between), first(x)[:, None], use_reentrant=False)
    return last(hidden.flatten(1))


FOREIGN = {
    "one module twice": tied_module,
    "one block three times": tied_list,
    "a shared layer norm": lambda: shared(nn.LayerNorm(6)),
    "a shared PReLU": lambda: shared(nn.PReLU()),
    "one parameter in two layers": tied_parameter,
    "pruned": pruned,
    "weight norm": weight_norm,
    "a weight made by a hook": made_by_a_hook,
    "an extra parameter": extra_parameter,
    "masked gradients": masked,
    "a child": child,
    "a forward of its own": patched,
    "sorts its samples": lambda: Function(sorting, nn.Linear(6, 6), nn.Linear(6, 3)),
    "experts": lambda: Function(experts, nn.Linear(6, 3), *(nn.Linear(6, 3) for _ in range(3))),
    "another reference": Referring,
    "a scalar": Scalar,
    "a constant row": lambda: Function(constant_row, nn.Linear(6, 6), nn.Linear(4, 6), nn.Linear(6, 3)),
    "drops axes": lambda: Function(dropping_axes, nn.Conv1d(1, 3, 6), nn.Linear(3, 3)),
    "channels last": last_channels,
    "recurrent": lambda: Function(
        lambda parts, x: parts[1](parts[0](x.unflatten(1, (3, 2)))[0][:, -1]),
        nn.LSTM(2, 4, batch_first=True),
        nn.Linear(4, 3),
    ),
    "instance norm": lambda: Function(
        lambda parts, x: parts[2](parts[1](parts[0](x[:, None])).tanh().flatten(1)),
        *(nn.Conv1d(1, 2, 3), nn.InstanceNorm1d(2, affine=True), nn.Linear(8, 3)),
    ),
    "checkpointed": lambda: Function(
        checkpointed,
        *(nn.Linear(6, 6), nn.Conv1d(1, 2, 3)),
        *(nn.TransformerEncoderLayer(4, 2, 8, 0.0, "gelu", batch_first=True), nn.Linear(8, 3)),
    ),
    "hard sigmoid": lambda: nn.Sequential(nn.Linear(6, 6), nn.Hardsigmoid(), nn.LayerNorm(6), nn.Linear(6, 3)),
    "distances": lambda: Function(
        lambda parts, x: -torch.cdist(parts[0](x), parts[1].weight), nn.Linear(6, 5), nn.Linear(5, 3)
    ),
}
"""From a name to how to build the network."""
ONCE = {"hard sigmoid", "distances"}
"""Those without a second derivative."""


def foreign(name, n=7):
    """The network, in eval mode and float64, and its samples."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return FOREIGN[name]().double().eval(), torch.randn(n, 6, dtype=torch.float64)
