"""How a run and `gnomon measure` round, whatever the caller had chosen, which they restore."""

from tests.children import printed

# A child for each choice, since torch does not go back to having none.
PROGRAM = """
import os
from torch import backends
from torch.backends import cudnn
from gnomon_lab.arithmetic import convolutions_in_float32

def named():
    return [kind.fp32_precision for kind in (backends, cudnn, cudnn.conv, cudnn.rnn)]

def allow(value):
    cudnn.allow_tf32 = value

for choose in (
    lambda: None,
    lambda: allow(False),
    lambda: setattr(cudnn.conv, "fp32_precision", "ieee"),
    lambda: setattr(cudnn.conv, "fp32_precision", "none"),
    lambda: setattr(cudnn.conv, "fp32_precision", "tf32"),
    lambda: setattr(cudnn, "fp32_precision", "ieee"),
    lambda: setattr(backends, "fp32_precision", "ieee"),
    lambda: setattr(backends, "fp32_precision", "tf32"),
):
    if os.fork() == 0:
        choose()
        before = named()
        try:
            with convolutions_in_float32():
                inside = named()[2:] + [cudnn.allow_tf32]
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        print(*inside, "restored" if named() == before else (before, named()), flush=True)
        os._exit(0)
    os.wait()
"""


FLUSHED = """
import torch
from gnomon_lab.arithmetic import subnormals_as_zero

def flushed():
    return bool(torch.tensor(1e-39) * 1 == 0)

for before in (False, True):
    torch.set_flush_denormal(before)
    with subnormals_as_zero():
        assert flushed()
    print(flushed())
"""


def test_subnormals_are_rounded_afterwards_as_before():
    assert printed(FLUSHED).split() == ["False", "True"]


def test_convolutions_are_in_float32_whatever_was_chosen_before():
    assert printed(PROGRAM).splitlines() == ["ieee ieee False restored"] * 8
