"""Gradients of gradients that are made otherwise than by torch: the same numbers, on a graph that stays as it was."""

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from gnomon import GrokAlign
from gnomon.autodiff import Tape, forward, projected_norm
from gnomon.autodiff._double_backward import cheap_double_backward
from gnomon.autodiff._operations import Operations
from gnomon.models import mlp, resnet18


def frozen(layer):
    return layer.requires_grad_(False)


LAYERS = {
    "plain": (lambda: nn.Conv2d(4, 6, 3), (5, 4, 7, 7)),
    "of steps": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), (5, 4, 9, 8)),
    "along a line": (lambda: nn.Conv1d(4, 6, 2, stride=3, bias=False), (5, 4, 9)),
    "in space": (lambda: nn.Conv3d(4, 2, 2), (5, 4, 3, 4, 3)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), (5, 4, 3, 3)),
    "of normed weights": (lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 2, 2)), (5, 4, 3, 3)),
    "that stays": (lambda: frozen(nn.Conv2d(4, 6, 3)), (5, 4, 7, 7)),
    "BatchNorm": (lambda: nn.BatchNorm2d(4, eps=0.5), (5, 4, 3, 3)),
    "BatchNorm of rows": (lambda: nn.BatchNorm1d(4, momentum=None), (7, 4)),
    "BatchNorm along a line": (lambda: nn.BatchNorm1d(4, track_running_stats=False), (5, 4, 3)),
    "BatchNorm alone": (lambda: nn.BatchNorm2d(4, affine=False), (5, 4, 3, 3)),
    "BatchNorm that stays": (lambda: frozen(nn.BatchNorm2d(4)), (5, 4, 3, 3)),
    "BatchNorm in eval": (lambda: nn.BatchNorm2d(4).eval(), (5, 4, 3, 3)),
}


def network(name):
    """Smooth, so that the layer's own second derivative counts as well as what goes through it, and a batch."""
    build, shape = LAYERS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer, x = build(), torch.randn(shape)
        for parameter in layer.parameters():
            parameter.data.add_(0.1 * torch.randn_like(parameter))
        model = nn.Sequential(layer, nn.Tanh(), nn.Flatten(), nn.LazyLinear(3))
        model(x)
    return model.double(), x.double().requires_grad_()


def twice(model, x, *, cheap):
    """The gradients in x and in the parameters of a number made of the gradient in x, and the names in its graph."""
    tape = forward(model, x, mixed=True)
    v = torch.linspace(-1, 2, tape.logits.numel(), dtype=x.dtype).view_as(tape.logits)
    if cheap:
        with cheap_double_backward(tape):
            back = tape.vector_jacobian(v)
    else:
        back = tape.vector_jacobian(v)
    number = (back.sin() * torch.arange(back.numel(), dtype=x.dtype).view_as(back)).sum()
    learnt = [p for p in model.parameters() if p.requires_grad]
    return back, torch.autograd.grad(number, [x, *learnt], retain_graph=True, materialize_grads=True), tape


@pytest.mark.parametrize("name", LAYERS)
def test_second_derivatives_are_torchs_own(name):
    model, x = network(name)
    back, expected, _ = twice(model, x, cheap=False)
    cheap, found, tape = twice(model, x, cheap=True)
    assert torch.equal(cheap, back)
    torch.testing.assert_close(found, expected)
    again = tape.vector_jacobian(torch.ones_like(tape.logits))
    own = name == "BatchNorm in eval" or not hasattr(torch._C._autograd.SavedTensor, "unpack_hook")
    assert (cheap.grad_fn.name() == back.grad_fn.name()) == own
    assert again.grad_fn.name() == back.grad_fn.name(), "the graph is as it was"


def test_a_checkpoint_makes_what_it_keeps_but_once():
    model, x = network("plain")
    inner = nn.Sequential(model[0], nn.BatchNorm2d(6).double())
    found = []
    for between in (inner(x), checkpoint(inner, x, use_reentrant=False)):
        tape = Tape(x, model[1:](between), create_graph=True)
        norm = projected_norm(tape, torch.eye(3, dtype=x.dtype)[:, None].expand(3, len(x), 3), 3).mean()
        found.append((norm, *torch.autograd.grad(norm, list(inner.parameters()), materialize_grads=True)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_images_whose_channels_come_last_and_mixed_precision(dtype):
    """To the digits of the precision."""
    found = []
    for name in ("plain", "BatchNorm"):
        model, x = network(name)
        model, x = model.to(memory_format=torch.channels_last), x.detach().contiguous(memory_format=torch.channels_last)
        for cheap in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
                single = (copy.deepcopy(model).float(), x.float()) if dtype is torch.bfloat16 else (model, x)
                _, gradients, _ = twice(single[0], single[1].clone().requires_grad_(), cheap=cheap)
            found.append(torch.cat([gradient.flatten().double() for gradient in gradients]))
        assert (found[-1] - found[-2]).norm() <= (0.02 if dtype is torch.bfloat16 else 1e-12) * found[-2].norm()


def multiplied(model, x, penalty):
    """The floating-point operations of a training step."""
    with Operations() as counter:
        logits, added = (model(x), 0) if penalty is None else penalty.logits_and_penalty(model, x)
        loss = functional.cross_entropy(logits, torch.arange(len(x)) % 10)
        (loss + added).backward(inputs=list(model.parameters()))
    return counter.flops


def test_a_step_multiplies_as_often_as_it_must():
    """By the count in docs/results.md, layer by layer."""
    widths, n = (60, 20, 20, 20, 10), 40
    model, x = mlp(widths), torch.randn(n, 60)
    layers = [n * a * b for a, b in pairwise(widths)]
    behind, (d, h) = sum(layers[1:]), widths[:2]
    plain = sum(layers) + sum(layers) + behind
    squares, between = h * h * d * 3 // 4, h * h * d
    assert multiplied(model, x, None) == 2 * plain
    # The outputs' unit vectors are not differentiated.
    once = 3 * behind - layers[-1] + 2 * n * h * h
    assert multiplied(model, x, GrokAlign(1.0)) == 2 * (plain + squares + between + once)
    assert multiplied(model, x, GrokAlign(1.0, "exact")) == 2 * (plain + squares + between + 10 * once)
    convolutional, images = resnet18(3, 10, width=2), torch.randn(4, 3, 8, 8)
    with Operations() as counter:
        convolutional(images)
    assert multiplied(convolutional, images, GrokAlign(1.0)) < 6.1 * counter.flops
