"""Networks that are sharded over processes: all read them together, as one process reads the whole network."""

import pytest

from tests.unit.processes import on_processes

IMPORTS = """
import time
import torch._dynamo  # before the processes part, which FSDP would have import it each
from datetime import timedelta
from types import SimpleNamespace
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp import register_fsdp_forward_method
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.testing import assert_close
from gnomon import Probe, centroid_alignment, cumulative_parameters, input_jacobian, nc1, nfa_table, ntk, self_duality
from gnomon.errors import UnsupportedModuleError
from gnomon.integrations.transformers_inputs import EmbeddedTexts, TextLogits, embeddings
from gnomon.models import mlp
from gnomon.probe import _barrier, _cost, whole
from gnomon.regions import boundary_distance
"""
NETWORKS = """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(5, 6), nn.Linear(6, 5), nn.BatchNorm1d(5)

    def encode(self, x):  # and no `forward`
        return x + self.down(self.up(self.norm(x)).tanh())

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder, self.mix, self.again, self.end = Encoder(), nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.again.weight = self.mix.weight

    def forward(self, x):
        return self.end(self.again(self.mix(self.encoder.encode(x)).tanh()).tanh())

mesh = init_device_mesh("cpu", (world,))

def fsdp():
    model = Net()
    for part in (model.encoder, model.end, model):  # In passes of training, which a reading does not share.
        kind = torch.float32 if part is model.encoder else torch.bfloat16
        fully_shard(part, mesh=mesh, mp_policy=MixedPrecisionPolicy(kind, output_dtype=torch.bfloat16))
    register_fsdp_forward_method(model.encoder, "encode")
    return model

def tensor_parallel():
    return parallelize_module(Net(), mesh, {"encoder.up": ColwiseParallel(), "encoder.down": RowwiseParallel()})

def products(jacobian_operator, x):  # by a derivative of the backward pass
    return jacobian_operator.matvec(x)

def norms(parameters):
    return torch.stack([parameter.norm() for parameter in parameters.values()])

def linear(model):
    return torch.tensor([float(type(module) is nn.Linear) for module in model.modules()])

x, labels = torch.randn(12, 5, generator=torch.Generator().manual_seed(1)), torch.arange(12) % 3
QUANTITIES = [centroid_alignment, nc1, self_duality, ntk, products, norms, linear]

def state(model):
    names = [(name, id(part)) for name, part in (*model.named_parameters(), *model.named_buffers())]
    hooks = [[*there] for module in model.modules() for name, there in vars(module).items() if "hooks" in name]
    return names, hooks, [(type(module), [*vars(module)]) for module in model.modules()]

def refusal(call):
    try:
        call()
    except UnsupportedModuleError as error:
        return str(error)
    raise AssertionError("no error")
"""
READ = """
for shard in (fsdp, tensor_parallel):
    def trained(read):
        model = shard()
        optimizer = torch.optim.AdamW(model.parameters(), 0.1, foreach=False)
        probe, losses = Probe(model, (x, labels), QUANTITIES) if read else lambda step: None, []
        for step in range(2):
            mine = slice(rank, None, world) if shard is fsdp else slice(None)
            losses.append(nn.functional.cross_entropy(model(x[mine]), labels[mine]))
            probe(step)  # while parameters are still whole, for the backward pass
            losses[-1].backward()
            probe(step)
            optimizer.step()
            optimizer.zero_grad()
        return model, [*losses, *model.state_dict().values(), torch.rand(1)]

    model, numbers = trained(read=False)
    for number, without in zip(trained(read=True)[1], numbers, strict=True):
        assert_close(number, without, rtol=0, atol=0)

    alone = Net()  # The same network on one process, which its own samples have trained.
    alone.load_state_dict({n: getattr(v, "full_tensor", lambda: v)() for n, v in model.state_dict().items()})
    before, mine = state(model), slice(0, 9 + rank)  # Each has other samples, and more of them.
    probe = Probe(model, (x[mine], labels[mine]), QUANTITIES)
    probe.expected_cost()
    reading = probe.read()
    for name, value in Probe(alone, (x[mine], labels[mine]), QUANTITIES).read().values.items():
        assert_close(reading.values[name], value, rtol=0, atol=0)
    assert state(model) == before

    def interrupted(x):
        if rank == 0:
            raise KeyboardInterrupt
        return x
    try:
        Probe(model, x, [interrupted]).read()
        assert rank > 0
    except KeyboardInterrupt:
        pass
    assert state(model) == before

    clock = [0.0]
    _cost.time = SimpleNamespace(perf_counter=lambda: clock[0])
    def slow(x):
        clock[0] += 1
        return x
    probe, read = Probe(model, x, {"slow": slow}, max_overhead=0.1), []
    for step in range(3):
        clock[0] += 100 if step == 2 or rank == 0 else 1  # At step 1 the first alone has room.
        read.append(probe(step) is not None)
    assert (read, probe.cost.skipped) == ([True, False, True], 1)
    _cost.time = time

    model.eval(), alone.eval()
    for measure in (ntk, input_jacobian):
        assert "expected unsharded parameters" in refusal(lambda: measure(model, x))
    assert_close(whole(model, lambda: ntk(model, x)), ntk(alone, x), rtol=0, atol=0)
"""
TEXTS = """
class Text(nn.Module):  # as a classifier of transformers is called
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.end = nn.Embedding(9, 5), nn.Linear(5, 3)
        text = SimpleNamespace(pad_token_id=0)
        self.config = SimpleNamespace(get_text_config=lambda: text)

    def get_input_embeddings(self):
        return self.table

    def forward(self, input_ids, attention_mask=None):
        return SimpleNamespace(logits=self.end(self.table(input_ids).mean(1)))

tokens = torch.arange(1, 9).view(4, 2)
assert_close(embeddings(fully_shard(Text(), mesh=mesh), tokens), embeddings(Text(), tokens), rtol=0, atol=0)
shards = fully_shard(Text(), mesh=mesh)
probe = Probe(TextLogits(shards), EmbeddedTexts(shards, None, tokens), {"at": lambda x: x})
assert_close(probe.read().values["at"], embeddings(Text(), tokens).detach(), rtol=0, atol=0)
"""
REFUSED = """
model = fsdp()
probe = Probe(model, (x, labels), QUANTITIES)
if rank == 1:
    _barrier.PATIENCE, start = timedelta(seconds=0.5), time.monotonic()
    for read in (probe.read, lambda: Probe(model, x, [norms])):
        said = refusal(read)
        assert "Probe(model): expected the 2 processes that have a part of it, together, got process 1" in said
    assert time.monotonic() - start < 10
    _barrier.PATIENCE = timedelta(seconds=20)
dist.barrier()
assert probe.read() == probe.read()

root = fully_shard(mlp((5, 5, 4, 3)), mesh=mesh)
for measure in (boundary_distance, lambda model, _: cumulative_parameters(model), nfa_table):
    assert "expected unsharded parameters" in refusal(lambda: measure(root, x))

old = FullyShardedDataParallel(Net(), device_id=torch.device("cpu"))
assert "got FullyShardedDataParallel. Shard with torch.distributed.fsdp.fully_shard" in refusal(
    lambda: Probe(old, x, [norms])
)
with torch.device("meta"):
    empty = fully_shard(Net(), mesh=mesh)
if rank == 0:  # There is nothing to gather.
    Probe(empty, x, [norms])

dist.destroy_process_group()
assert "expected the process group over which its parameters are sharded, got none" in refusal(probe.read)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
"""


@pytest.mark.unchecked
@pytest.mark.parametrize(("world", "body"), [(2, READ + TEXTS + REFUSED), (3, READ)])
def test_a_sharded_network_is_read_by_all_processes_together(world, body, tmp_path):
    on_processes(world, IMPORTS, NETWORKS + body, tmp_path)
