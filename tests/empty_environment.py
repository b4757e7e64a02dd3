"""What works without any extra, and what is said where one is needed.

`make empty` runs this file in an environment into which nothing but gnomon was installed; the suite runs it with
`--hidden`, which hides what the extras bring.
"""

import contextlib
import importlib
import io
import re
import statistics
import subprocess
import sys
from importlib.machinery import PathFinder

import torch
from torch.nn import functional

EXTRAS = {
    "PIL", "accelerate", "datasets", "distributed", "huggingface_hub", "jinja2", "lightning", "matplotlib", "mlflow",
    "pandas", "pillow", "plotly", "pyarrow", "pyautoattack", "rich", "safetensors", "scikit-learn", "sklearn",
    "submitit", "tensorboard", "transformers", "tyro", "wandb",
}  # fmt: skip


class Others(PathFinder):
    """Finds everything but what the extras bring, modules and metadata."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return None if fullname.partition(".")[0] in EXTRAS else super().find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, context):
        return [] if context.name in EXTRAS else super().find_distributions(context)


def import_time():
    """The seconds that `import gnomon` takes, the median of five."""
    code = "import time; start = time.perf_counter(); import gnomon; print(time.perf_counter() - start)"
    return statistics.median(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))


def measured_and_steered():
    """A probe's readings before and after 20 steps with the GrokAlign penalty."""
    import gnomon
    from gnomon.data import xor_clusters
    from gnomon.models import mlp

    generator = torch.Generator().manual_seed(0)
    x, labels = xor_clusters(64, 10, generator=generator)
    model = mlp((10, 32, 2), generator=generator)
    quantities = [gnomon.accuracy, gnomon.jacobian_norm, gnomon.centroid_alignment]
    probe, penalty = gnomon.Probe(model, (x, labels), quantities), gnomon.GrokAlign(0.1, generator=generator)
    optimizer, before = torch.optim.AdamW(model.parameters(), lr=1e-2), probe.read(0).scalars()
    for _ in range(20):
        optimizer.zero_grad()
        outputs, added = penalty.logits_and_penalty(model, x)
        (functional.cross_entropy(outputs, labels) + added).backward()
        optimizer.step()
    after = probe.read(20).scalars()
    assert after["accuracy"] > before["accuracy"]
    return after


def solved():
    """The central path: how far its flow is from its closed form."""
    import gnomon

    features = torch.randn(3, 20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    path, times = gnomon.CentralPath(features), torch.tensor([0.0, 10.0, 1000.0], dtype=torch.float64)
    off = float((path.flow(times).singular_values - path.closed_form(times)).abs().max())
    assert off < 1e-6
    return off


def all_names():
    """What `from gnomon import *` and `from gnomon.dynamics import *` bring: everything but what needs an extra."""
    import gnomon.dynamics

    for module in (gnomon, gnomon.dynamics):
        assert "DeepRFM" not in {name for name in module.__all__ if getattr(module, name)}
    return gnomon.__all__


def complaints():
    """What each thing that needs an extra says."""
    import gnomon.data
    from gnomon.errors import MissingExtraError

    calls = {
        "plot": lambda: importlib.import_module("gnomon.plot"),
        "History.plot": lambda: gnomon.History().plot(),
        "DeepRFM": lambda: gnomon.DeepRFM,
        "digits": lambda: gnomon.data.digits(generator=torch.Generator()),
    }
    said = {}
    for name, call in calls.items():
        try:
            call()
        except MissingExtraError as error:
            said[name] = str(error)
    assert said.keys() == calls.keys()
    return said


def command():
    """The exit code of `gnomon --help`, and what it says."""
    from gnomon_lab.cli import main

    said = io.StringIO()
    sys.argv = ["gnomon", "--help"]
    with contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as stop:
            return stop.code, said.getvalue().strip()
    raise AssertionError("gnomon --help returned")


def main():
    """Prints what was found; anything else than what is promised raises."""
    if sys.argv[1:] == ["--hidden"]:
        sys.meta_path[:] = [Others if finder is PathFinder else finder for finder in sys.meta_path]
    seconds = import_time()
    print(f"import gnomon: {seconds:.3f} s")
    assert seconds < 0.2
    readings = measured_and_steered()
    print(
        "after 20 steps with GrokAlign:",
        ", ".join(f"{name} {readings[name]:.3f}" for name in readings if "." not in name),
    )
    print(f"central path, flow from closed form: {solved():.1e}")
    print(f"from gnomon import *: {len(all_names())} names")
    for said in complaints().values():
        print(said)
        assert re.search(r" needs (matplotlib|sklearn): pip install '.\[(plot|lab)\]' in the folder of gnomon", said)
    code, said = command()
    print(said)
    assert code == 2
    assert re.fullmatch(r"gnomon: the command gnomon needs \w+: pip install '.\[lab\]' in the folder .*", said)


if __name__ == "__main__":
    main()
