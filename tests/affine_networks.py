"""Piecewise affine networks in the ways that public libraries write them, small; all take (n 3 8 8) and give (n 4)."""

import torch
from torch import nn
from torch.nn import functional


class Function(nn.Module):
    """A forward pass written as a function of the parts."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.function = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, x)


def conv(inputs, outputs, size=3, **settings):
    """A convolution, BatchNorm and ReLU in place."""
    settings = {"padding": size // 2, "bias": False} | settings
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, **settings), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class DropPath(nn.Module):
    """Stochastic depth."""

    def forward(self, x):
        if not self.training:
            return x
        mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(0.9)
        return x * mask


class BasicBlock(nn.Module):
    """Of a ResNet, which changes its branch in place."""

    def __init__(self, inputs, width, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.relu, self.drop_path = nn.ReLU(inplace=True), DropPath()
        self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.drop_path(self.bn2(self.conv2(out)))
        out += identity
        return self.relu(out)


class ShuffleUnit(nn.Module):
    """Halves by `chunk`, and channels shuffled by views that ask for the sizes."""

    def __init__(self):
        super().__init__()
        self.branch = nn.Sequential(conv(2, 2, 1), nn.Conv2d(2, 2, 3, padding=1, groups=2), nn.BatchNorm2d(2))

    def forward(self, x):
        one, two = x.chunk(2, dim=1)
        out = torch.cat((one, self.branch(two)), dim=1)
        batch_size, channels, height, width = out.size()
        out = out.view(batch_size, 2, channels // 2, height, width)
        return torch.transpose(out, 1, 2).contiguous().view(batch_size, channels, height, width)


class BatchNormAct(nn.BatchNorm2d):
    """BatchNorm called as a function, with its activation."""

    def forward(self, x):
        torch._assert(x.ndim == 4, f"expected 4D input (got {x.ndim}D input)")
        assert x.dim() == 4
        training = True if self.training else (self.running_mean is None) and (self.running_var is None)
        x = functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, training, self.momentum, self.eps
        )
        return functional.leaky_relu(x, 0.1, inplace=True)


class SameConv(nn.Conv2d):
    """Padded by what the size asks for."""

    def forward(self, x):
        height, width = x.size()[-2:]
        missing = [max((-(-side // 2) - 1) * 2 + 3 - side, 0) for side in (width, height)]
        if any(missing):
            x = functional.pad(x, [part for total in missing for part in (total // 2, total - total // 2)])
        return functional.conv2d(x, self.weight, self.bias, 2, 0, self.dilation, self.groups)


class StandardisedConv(nn.Conv2d):
    """Weights normalised by a BatchNorm of their own, in training mode at all times."""

    def forward(self, x):
        weight = functional.batch_norm(
            self.weight.reshape(1, self.out_channels, -1), None, None, training=True, momentum=0.0, eps=1e-6
        ).reshape_as(self.weight)
        return functional.conv2d(x, weight, self.bias, self.stride, self.padding)


class BlurPool(nn.Module):
    """A fixed filter, a channel at a time."""

    def __init__(self):
        super().__init__()
        kernel = torch.tensor([1.0, 2.0, 1.0]) / 4
        self.register_buffer("filter", (kernel[:, None] * kernel)[None, None])

    def forward(self, x):
        x = functional.pad(x, (1, 1, 1, 1), "reflect")
        return functional.conv2d(x, self.filter.expand(x.shape[1], -1, -1, -1), stride=2, groups=x.shape[1])


class FrozenBatchNorm(nn.Module):
    """BatchNorm written out."""

    def __init__(self, channels):
        super().__init__()
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, torch.rand(channels) + 0.5)

    def forward(self, x):
        scale = self.weight.reshape(1, -1, 1, 1) * (self.running_var.reshape(1, -1, 1, 1) + 1e-5).rsqrt()
        return x * scale + (self.bias.reshape(1, -1, 1, 1) - self.running_mean.reshape(1, -1, 1, 1) * scale)


def pooled(x):
    """Global averages."""
    return functional.adaptive_avg_pool2d(x, (1, 1)).flatten(1)


def inception(m, x):
    """The input transformed channel by channel, then four branches side by side."""
    channels = [torch.unsqueeze(x[:, i], 1) * (0.229 / 0.5) + (0.485 - 0.5) / 0.5 for i in range(3)]
    x = m.stem(torch.cat(channels, 1))
    pool = functional.max_pool2d(x, kernel_size=3, stride=1, padding=1)
    average = functional.avg_pool2d(x, kernel_size=3, stride=1, padding=1)
    x = torch.cat([m.a(x), functional.relu(m.b(x), inplace=True), pool, m.c(average)], 1)
    return m.last(m.dropout(torch.flatten(m.pool(x), 1)))


def dense(m, x):
    """A list of results that grows."""
    features = [m.stem(x)]
    for layer in (m.one, m.two):
        prior = [features] if isinstance(features, torch.Tensor) else features
        features.append(layer(torch.cat(prior, 1)))
    return m.last(pooled(functional.relu(torch.cat(features, 1), inplace=True)))


def res2(m, x):
    """Scales by `split`, each with the one before."""
    parts = torch.split(m.stem(x), 2, 1)
    results = []
    for i, part in enumerate(parts):
        results.append(m.scale(part if i == 0 else part + results[-1]))
    return m.last(torch.cat(results, 1).mean((2, 3)))


def decoder(m, x):
    """Down, and up again by nearest neighbours, beside what was skipped."""
    skipped = m.stem(x)
    below = m.below(functional.max_pool2d(skipped, 2))
    up = functional.interpolate(below, size=skipped.shape[-2:], mode="nearest")
    up = up + functional.interpolate(m.down(below), scale_factor=4, mode="bilinear", align_corners=False)
    return m.last(functional.relu(up + skipped).view(x.size(0), -1))


def tokens(m, x):
    """Patches as tokens, mixed by matrices and ReLU, with a class token and places."""
    b, _, _, _ = x.shape
    x = m.patches(x).flatten(2).transpose(1, 2)
    x = torch.cat((m.token.expand(b, -1, -1), x), dim=1) + m.places
    x = x + m.scale * torch.einsum("bnd,nm->bmd", x, 3 * m.mix).relu()
    x = x.permute(0, 2, 1).unsqueeze(-1).squeeze(-1).permute(0, 2, 1)
    return m.last(x[:, 0] + x[:, 1:].mean(dim=1))


def windows(m, x):
    """Windows as samples of their own, and back."""
    x = m.stem(x).permute(0, 2, 3, 1)
    b, h, w, c = x.shape
    x = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 16, c)
    x = functional.relu(m.mix(x.transpose(1, 2))).transpose(1, 2) + x
    x = x.view(b, h // 4, w // 4, 4, 4, -1).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
    return m.last(x.mean(dim=(1, 2)))


def bends(m, x):
    """Every activation that is straight in pieces."""
    parts = m.stem(x).tensor_split(4, dim=1)
    parts = (functional.hardtanh(parts[0], -0.2, 0.3), functional.relu6(parts[1]), functional.prelu(parts[2], m.slope),
             functional.hardsigmoid(parts[3]))  # fmt: skip
    x = torch.stack(parts, 1).sum(1)
    x = torch.maximum(x, x.roll(1, 2)) - torch.minimum(x, m.bias) + functional.softshrink(x, 0.1)
    x = functional.threshold(x, 0.05, 0.05) + x.clamp_min(0.1) - functional.rrelu(x)
    return m.last(torch.cat([x.amax((2, 3)), functional.adaptive_max_pool2d(x, (1, 3)).flatten(1)], 1))


def assigned(m, x):
    """Channels shifted by assignments, and padded with a number."""
    x = m.stem(x)
    out = torch.zeros_like(x)
    out[:, :2, 1:] = x[:, :2, :-1]
    out[:, 2:] = x[:, 2:]
    out = functional.pad(out, (1, 0, 0, 0), value=0.5)
    out += 0.25
    return m.last(out.relu_().sum([-1, -2]))


NETWORKS = {
    "ResNet": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        BasicBlock(4, 4), BasicBlock(4, 6, 2), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(1), nn.Linear(6, 4),
    ),
    "Inception": lambda: Function(
        inception, stem=conv(3, 3), a=conv(3, 2, 1), b=nn.Conv2d(3, 2, (1, 3), padding=(0, 1)), c=conv(3, 2, 1),
        pool=nn.AdaptiveAvgPool2d((1, 1)), dropout=nn.Dropout(0.2), last=nn.Linear(9, 4),
    ),
    "DenseNet": lambda: Function(
        dense, stem=nn.Conv2d(3, 3, 3, 2), one=nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(True), nn.Conv2d(3, 2, 1)),
        two=nn.Sequential(nn.BatchNorm2d(5), nn.ReLU(True), nn.Conv2d(5, 2, 1)), last=nn.Linear(7, 4),
    ),
    "ShuffleNet": lambda: Function(
        lambda m, x: m.last(m.units(m.stem(x)).mean([2, 3])),
        stem=conv(3, 4, stride=2), units=nn.Sequential(ShuffleUnit(), ShuffleUnit()), last=nn.Linear(4, 4),
    ),
    "SqueezeNet": lambda: Function(
        lambda m, x: torch.flatten(m.last((lambda s: torch.cat([m.one(s), m.three(s)], 1))(m.squeeze(m.stem(x)))), 1),
        stem=nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(True), nn.MaxPool2d(3, 2, ceil_mode=True)),
        squeeze=conv(4, 2, 1), one=conv(2, 2, 1), three=conv(2, 2),
        last=nn.Sequential(nn.Dropout(), nn.Conv2d(4, 4, 1), nn.ReLU(True), nn.AdaptiveAvgPool2d((1, 1))),
    ),
    "MobileNet": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU6(inplace=True),
        nn.Conv2d(4, 4, 3, 1, 1, groups=4), nn.BatchNorm2d(4), nn.ReLU6(inplace=True), nn.Conv2d(4, 3, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4),
    ),
    "BatchNormAct": lambda: nn.Sequential(
        SameConv(3, 4, 3), BatchNormAct(4), BlurPool(), StandardisedConv(4, 3, 3, padding=1), FrozenBatchNorm(3),
        nn.PReLU(3), nn.Flatten(), nn.Linear(12, 4),
    ),
    "Res2Net": lambda: Function(res2, stem=conv(3, 6, stride=2), scale=conv(2, 2), last=nn.Linear(6, 4)),
    "U-Net": lambda: Function(
        decoder, stem=conv(3, 2), below=conv(2, 2), down=conv(2, 2, stride=2), last=nn.Linear(128, 4)
    ),
    "transposed": lambda: nn.Sequential(
        conv(3, 2, stride=2), nn.ConvTranspose2d(2, 2, 2, 2), nn.ReLU(), nn.Upsample(scale_factor=2),
        nn.PixelUnshuffle(4), nn.ReflectionPad2d(1), nn.CircularPad2d(1), nn.Flatten(), nn.Linear(32 * 64, 4),
    ),
    "tokens": lambda: Function(
        tokens, patches=nn.Conv2d(3, 4, 4, 4), token=nn.Parameter(torch.randn(1, 1, 4)),
        scale=nn.Parameter(torch.rand(4)),
        places=nn.Parameter(torch.randn(1, 5, 4) / 9), mix=nn.Parameter(torch.randn(5, 5)), last=nn.Linear(4, 4),
    ),
    "windows": lambda: Function(windows, stem=nn.Conv2d(3, 2, 1), mix=nn.Linear(16, 16), last=nn.Linear(2, 4)),
    "bends": lambda: Function(
        bends, stem=nn.Conv2d(3, 8, 4, 2), slope=nn.Parameter(torch.rand(2)),
        bias=nn.Parameter(torch.randn(2, 1, 1) / 9), last=nn.LazyLinear(4),
    ),
    "assigned": lambda: Function(assigned, stem=nn.Conv2d(3, 4, 3, 2), last=nn.Linear(4, 4)),
}  # fmt: skip
"""From a name to how to build the network."""


def affine(name):
    """The network, in eval mode, with statistics that are not those of the start, and three samples."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, x = NETWORKS[name]().eval(), torch.randn(3, 3, 8, 8, dtype=torch.float64)
        model(x.float())
        for norm in model.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.running_mean.normal_(0, 0.1)
                norm.running_var.uniform_(0.5, 2)
        return model, x
