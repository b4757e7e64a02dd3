"""The average gradient outer product of networks, beside the Jacobians that it is made of, and its peak of memory."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from gnomon import AGOP, agop, input_jacobian
from gnomon.autodiff._layers import weighted_layers
from gnomon.models import cnn, mlp
from timing import compare

generator = torch.Generator().manual_seed(0)
NETWORKS = {
    "1,024 points, 784-196-196-196-10": (
        mlp((784, 196, 196, 196, 10), generator=generator),
        torch.randn(1024, 784, generator=generator),
    ),
    "1,024 points, the convolutional network of 32 x 32 x 3": (
        cnn(generator=generator),
        torch.randn(1024, 3, 32, 32, generator=generator),
    ),
}


def streamed(network, layers):
    """All at once, as `AGOP` has it."""
    model, x = network
    moments = AGOP(layers)
    moments.update(model, x)
    return moments.compute()


def jacobians(network):
    """The Jacobians alone."""
    model, x = network
    with torch.no_grad():
        return input_jacobian(model, x)


def highest():
    """The most memory that this process has ever had, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if "VmHWM" in line) // 1024


def peak(title, way):
    """By how much one way raises the peak of a process of its own, after a pass of four samples."""
    # Large blocks go back to the system when they are freed, so that the peak is that of living tensors.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    mebibytes = subprocess.check_output([sys.executable, __file__, title, way], text=True, env=environment).strip()
    print(f"  {way:<52} {mebibytes:>8} MiB")


def ways(network):
    """What is compared."""
    layers = list(weighted_layers(network[0]))
    return {
        "Jacobians": lambda: jacobians(network),
        "AGOP of the input": lambda: streamed(network, [""]),
        "AGOP of the inputs of all layers": lambda: streamed(network, layers),
        "AGOP of both": lambda: streamed(network, ["", *layers]),
        "Jacobians, and agop of them": lambda: agop(jacobians(network)),
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        model, x = NETWORKS[sys.argv[1]]
        ways((model, x[:4]))[sys.argv[2]]()
        before = highest()
        ways((model, x))[sys.argv[2]]()
        print(highest() - before)
        sys.exit()
    for title, network in NETWORKS.items():
        torch.testing.assert_close(
            streamed(network, [""])[""].dense().float(), agop(jacobians(network)), rtol=1e-4, atol=1e-5
        )
        compare(title, ways(network), rounds=3, calls=1)
        print("  peak of memory beyond the network and the points, the default budget 512 MiB")
        for way in ways(network):
            peak(title, way)
