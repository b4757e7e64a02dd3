"""The memory budget holds: measured as the peak of a process of its own."""

import gc
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

import gnomon
from gnomon import Estimate
from gnomon.autodiff._memory import largest_result, sample_bytes
from gnomon.probe._pieces import Pieces
from tests.children import printed
from tests.zoo import BUILDERS, zoo

HIGHEST = """
import torch, gnomon
from pathlib import Path
torch.set_num_threads(1)

def highest():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
"""
JACOBIAN = """
model = torch.nn.Sequential(torch.nn.Linear(100, 5000), torch.nn.ReLU(), torch.nn.Linear(5000, 10))
x = torch.randn(4000, 100)
with torch.no_grad():
    gnomon.input_jacobian(model, x[:2])
    before = highest()
    gnomon.input_jacobian(model, x, memory=BUDGET)
print(highest() - before)
"""
INFLUENCE = """
from gnomon.models import mlp

model = mlp((64, 512, 512, 10))
x, labels, loss = torch.randn(20_000, 64), torch.arange(20_000) % 10, torch.nn.functional.cross_entropy
gnomon.centroid_influence(model, x[:2], x[:2], labels[:2], loss)
before = highest()
gnomon.centroid_influence(model, x[:2], x, labels, loss, memory=BUDGET)
print(highest() - before)
"""
DEEPFOOL = """
model = torch.nn.Sequential(torch.nn.Linear(1000, 64), torch.nn.Tanh(), torch.nn.Linear(64, 100))
x = torch.randn(250, 1000)
gnomon.deepfool(model, x[:2], max_steps=1)
before = highest()
gnomon.deepfool(model, x, max_steps=1, memory=BUDGET)
print(highest() - before)
"""
ESTIMATE = """
from gnomon.models import mlp

model, x = mlp((100, 64, 10_000)), torch.randn(100, 100)
gnomon.explained_variance_ratio(gnomon.JacobianOperator(model, x[:2]), rtol=0.3)
before = highest()
gnomon.explained_variance_ratio(gnomon.JacobianOperator(model, x, memory=BUDGET), rtol=0.3)
print(highest() - before)
"""
RESULT = 4000 * 10 * 100 * 4
# A board of 230 x 230 squares, which the padding gives as many corners as some regions of a deep network have.
REGIONS = """
from gnomon.regions import Plane, Polygons, Regions

ticks = torch.arange(230, dtype=torch.float64)
corner = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]] + 16 * [[0.0, 0.0]], dtype=torch.float64)
vertices = torch.cartesian_prod(ticks, ticks)[:, None] + corner
polygons = Polygons(vertices, torch.full((52900,), 4), torch.zeros(52900, 20, dtype=torch.long))
plane = Plane(torch.zeros(2), torch.eye(2))
box, slopes, offsets = 230 * corner[:4], vertices[:, :2], vertices[:, 0]
regions = Regions(torch.nn.Identity(), plane, box, polygons, slopes, offsets, polygons.count, (), {})
points = 230 * torch.rand(500, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
regions.boundary_distance(points[:2])
before = highest()
distance = regions.boundary_distance(points, memory=BUDGET)
print(highest() - before)
assert torch.equal(regions.region_of_points(points), (230 * points[:, 0].floor() + points[:, 1].floor()).long())
torch.testing.assert_close(distance, 0.5 - (points - points.floor() - 0.5).abs().amax(1))
"""
# Signals of 1,024 places.
SLICE = """
from gnomon.regions import plane_through, slice_regions

nn = torch.nn
layers = [nn.Conv1d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 8, 3, padding=1), nn.ReLU6(), nn.MaxPool1d(4)]
model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 256, 3)).eval()
plane = plane_through(*torch.randn(3, 1, 1024))
slice_regions(model, plane, (-1e-5, 1e-5, -1e-5, 1e-5), memory=BUDGET)  # else this is what is highest
before = highest()
regions = slice_regions(model, plane, (-0.05, 0.05, -0.05, 0.05), memory=BUDGET)
print(highest() - before)
"""
PROBE = """
nn = torch.nn
pooled = nn.Sequential(nn.Conv2d(3, 8, 16, 16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
model = nn.Sequential(pooled, nn.Linear(8, 1000))
x, labels = torch.randn(16, 3, 224, 224), torch.arange(16)
names = "accuracy centroid_alignment explained_variance_ratio jacobian_norm row_alignment robust_radius effective_rank"
quantities = [getattr(gnomon, name) for name in names.split()]
gnomon.Probe(model, (x[:2, :, :32, :32], labels[:2]), quantities)
before = highest()
gnomon.Probe(model, (x, labels), quantities, memory=BUDGET)
print(highest() - before)
"""
JACOBIANS = """
nn = torch.nn
pooled = nn.Sequential(nn.Conv2d(3, 8, 8, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
model = nn.Sequential(pooled, nn.Linear(8, 400))
x, labels = torch.randn(64, 3, 16, 16), torch.arange(64)
quantities = [gnomon.centroid_alignment, gnomon.jacobian_norm, gnomon.row_alignment, gnomon.robust_radius]
gnomon.Probe(model, (x[:2, :, :8, :8], labels[:2]), quantities).read()
before = highest()
gnomon.Probe(model, (x, labels), quantities, memory=BUDGET).read()
print(highest() - before)
"""
STREAMING = """
nn = torch.nn
body = nn.Conv2d(3, 8, 3, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(128, 8), nn.ReLU()
model = nn.Sequential(*body, nn.Linear(8, 10))
x, labels = torch.empty(SAMPLES, 3, 16, 16).normal_(), torch.arange(SAMPLES) % 10
quantities = [gnomon.jacobian_norm, gnomon.accuracy]
gnomon.Probe(model, (x[:20], labels[:20]), quantities, memory=BUDGET).read()
probe = gnomon.Probe(model, (x, labels), quantities, memory=BUDGET)
before = highest()
probe.read()
print(highest() - before)
"""
VOCABULARY = """
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 5000))
x, labels = torch.randn(100, 32, 16), torch.randint(0, 5000, (100, 32))
quantities = [gnomon.training_loss, gnomon.accuracy]
gnomon.Probe(model, (x[:2], labels[:2]), quantities, positions="all", memory=BUDGET).read()
probe = gnomon.Probe(model, (x, labels), quantities, positions="all", memory=BUDGET)
before = highest()
probe.read()
print(highest() - before)
"""
FROZEN = """
class Text(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.wide, self.end = torch.nn.Embedding(9, 8), torch.nn.Linear(8, 512), torch.nn.Linear(512, 3)

    def forward(self, tokens):
        return self.end(torch.relu(self.wide(self.table(tokens))).mean(1))

model = Text()
model.table.requires_grad_(False), model.wide.requires_grad_(False)
x, labels = torch.randint(0, 9, (500, 100)), torch.arange(500) % 3
gnomon.Probe(model, (x[:2], labels[:2]), [gnomon.accuracy], memory=BUDGET).read()
probe = gnomon.Probe(model, (x, labels), [gnomon.accuracy], memory=BUDGET)
before = highest()
probe.read()
print(highest() - before)
"""
LANCZOS = """
from gnomon.linalg import lanczos
like = torch.linspace(1, 2, 500_000)
lanczos(like[:100].mul, like[:100], 0, 0, 70, 0)
before = highest()
lanczos(like.mul, like, 0, 0, 70, 0)
print(highest() - before)
"""
POSTERIOR = """
model, settings = torch.nn.Linear(4096, 2), {"chains": 8, "draws": 4, "burn_in": 0, "step_size": 1e-6}
x, labels = torch.empty(4000, 4096).normal_(), torch.arange(4000) % 2
gnomon.local_learning_coefficient(model, x[:200], labels[:200], **settings)
before = highest()
gnomon.local_learning_coefficient(model, x, labels, batch=2000, memory=BUDGET, **settings)
print(highest() - before)
"""
ORTHOGRAD = """
weight = torch.nn.Parameter(torch.randn(4000, 4000))
weight.grad = torch.randn(4000, 4000)
small = torch.nn.Parameter(torch.ones(3))
small.grad = torch.ones(3)
gnomon.OrthoGrad([small])()  # what is loaded at the first call
before = highest()
gnomon.OrthoGrad([weight])()
print(highest() - before)
"""
# A bandwidth at which the kernel of any two of 400 points is 1.
CLOSE = """
import numpy as np
from gnomon import DeepRFM
from gnomon.kernels import GaussianKernel

X, y = np.random.default_rng(0).normal(size=(400, 500)), np.arange(400) % 2
model = DeepRFM(GaussianKernel(1e9), depth=0)
model.fit(X[:50], y[:50])
before = highest()
assert model.fit(X, y).jitter_ > 0
print(highest() - before)
"""


def peak(measure, budget):
    """Bytes that it took at its highest, its result included."""
    code = HIGHEST + measure.replace("BUDGET", str(budget))
    return 1024 * int(printed(code))


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_peak_is_the_result_and_the_budget():
    budget = 32 * 2**20
    # Alone 1.01 each time; 1.107 was seen once beside other tests, why is not known. Without the budget it is above 3.
    assert peak(JACOBIAN, budget) < 1.2 * (RESULT + budget)
    assert peak(JACOBIAN, 2**30) > 3 * (RESULT + budget), "the whole graph would have fitted: the test shows nothing"


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_looking_for_a_points_region_keeps_to_its_budget():
    # A hundred times more would be taken by all points and corners at once.
    assert peak(REGIONS, 16 * 2**20) < 1.1 * 16 * 2**20


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_orthograd_takes_the_memory_of_two_gradients():
    # Four, before it worked in place; 2.4 was seen once beside other tests, as above.
    assert peak(ORTHOGRAD, 0) < 3 * 4 * 4000**2


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_an_estimate_of_many_outputs_keeps_to_its_budget():
    # Without a budget it takes 360 MiB: random vectors and a basis as long as the outputs.
    assert peak(ESTIMATE, 2**25) < 1.2 * 2**25


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_lanczos_holds_its_vectors_once():
    # With all in one tensor, which grew, it took 1.9 times their memory.
    assert peak(LANCZOS, 0) < 1.2 * 70 * 4 * 500_000


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_batches_of_chains_keep_to_their_budget():
    # The batches of all chains at once take 15 times as much.
    assert peak(POSTERIOR, 2**25) < 1.2 * 2**25


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_deepfool_keeps_to_its_budget():
    # With one copy of the Jacobians counted it is 2, all of them are 100 MB.
    assert peak(DEEPFOOL, 2**25) < 1.3 * 2**25


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_slicing_keeps_to_its_budget():
    # With 512 MiB the same takes 100 or more.
    assert peak(SLICE, 16 * 2**20) < 1.15 * 16 * 2**20


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_one_graph_of_training_samples_is_held_at_a_time():
    # With two it is 0.44 of the budget.
    assert peak(INFLUENCE, 2**28) < 0.36 * 2**28


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_points_that_a_kernel_does_not_tell_apart_are_not_compared_all_at_once():
    # In pairs they are 320 MB, twice.
    assert peak(CLOSE, None) < 2**26


@pytest.mark.unchecked
@pytest.mark.parametrize("measure", [gnomon.input_jacobian, gnomon.centroid, gnomon.ntk], ids=lambda m: m.__name__)
@pytest.mark.parametrize("name", BUILDERS)
def test_nothing_stays_in_memory(name, measure):
    """Every output of a layer is freed: a graph that holds itself would grow a long run until it is killed."""
    model, x = zoo(name)
    outputs = []

    def watch(module, inputs, output):
        outputs.extend(
            weakref.ref(part) for part in (output if isinstance(output, tuple) else [output]) if part is not None
        )

    for module in model.modules():
        module.register_forward_hook(watch)
    with torch.no_grad():
        measure(model, x)
    gc.collect()
    assert outputs
    assert [output().shape for output in outputs if output() is not None] == []


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_making_a_probe_fits_the_budget_whatever_the_number_of_classes():
    """At 1,000 classes and 224 pixels the Jacobians of 16 samples are 9.6 GB, which nothing needs before training."""
    assert peak(PROBE, 2**28) < 1.1 * 2**28


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_a_reading_of_jacobians_fits_the_budget():
    # All 64 are 79 MB. With a fourth copy of those of a chunk it is 1.28.
    assert peak(JACOBIANS, 2**25) < 1.1 * 2**25


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
def test_the_peak_of_a_reading_does_not_depend_on_the_number_of_samples():
    """`benchmarks/scale.py` does so for 100,000 images."""
    budget = 2**25
    few, many = (peak(STREAMING.replace("SAMPLES", str(n)), budget) for n in (1000, 10_000))
    # 13 or 19 MB, whatever the number of samples and with the garbage collector off too: it goes by the hash seed.
    assert many < few + budget / 4
    assert many < budget < 10_000 * 10 * 3 * 16 * 16 * 4, "the Jacobians would have fitted: the test shows nothing"


@pytest.mark.unchecked
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peaks of memory")
@pytest.mark.parametrize("reading", [VOCABULARY, FROZEN], ids=["outputs", "frozen layers"])
def test_what_autograd_does_not_save_fits_the_budget_too(reading):
    """All logits are 64 MB, of which a loss in float64 holds five times that; the frozen layers' results are 102 MB."""
    assert peak(reading, 2**24) < 1.2 * 2**24
    assert peak(reading, 2**31) > 3 * 2**24, "everything would have fitted: the test shows nothing"


def test_computed_weights_do_not_count_for_each_sample():
    """As those of a frozen network with a parametrization."""
    layers = nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 3000), nn.Linear(3000, 3)
    model, tokens = nn.Sequential(*layers).requires_grad_(False), torch.zeros(50, 5, dtype=torch.long)
    torch.nn.utils.parametrizations.weight_norm(model[2]).requires_grad_(False)
    assert largest_result(model, tokens[:2]) == 2 * 3000 * 4
    assert sample_bytes(model, tokens, jacobian=0, prepare=None) == 3 * 3000 * 4 + 6 * 3 * 4 + 2 * 5 * 8


def test_of_many_batches_few_pieces_are_kept():
    """Each is a block of memory between larger ones that come and go, of which the allocator loses the room."""
    rows = torch.arange(1000.0)
    tensors, estimates = Pieces(), Pieces()
    for part in rows.split(2):
        tensors.add(part)
        estimates.add(Estimate(part, 2 * part, part.long()))
    assert len(tensors._pieces) == len(estimates._pieces) == (500).bit_count()
    found = estimates.joined()
    torch.testing.assert_close([tensors.joined(), found.value, found.error], [rows, rows, 2 * rows])
