"""Sinks: what they take from a plain loop is what the real packages read back."""

import importlib
import json
import math
import subprocess
import sys
from itertools import product

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

import gnomon
from gnomon import History, Probe, every
from gnomon.errors import MissingExtraError
from gnomon.integrations.tensorboard import tensorboard_sink
from gnomon.probe import Reading
from tests.integrations.plain_loop import STEPS, network, probe_of


def fill(sink, model=None):
    """What a plain loop gives to a sink; the scalars by step."""
    model = network() if model is None else model
    probe, given = probe_of(model, every(2)), {}
    for step in range(STEPS + 1):
        if reading := probe(step):
            sink(reading)
            given[step] = reading.scalars()
        with torch.no_grad():
            model[0].weight *= 1.5
    assert list(given) == [0, 2, 4, 6]
    assert given[0] != given[2]
    return given


def test_a_history_in_a_file_is_the_readings(tmp_path):
    path = tmp_path / "records.jsonl"
    given = fill(History(path).append)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(record["seconds"].keys() >= {"logits", "jacobian", "accuracy"} for record in records)
    assert {record["step"]: {name: record[name] for name in given[0]} for record in records} == given


def test_tensorboard_reads_them_back(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        given = fill(tensorboard_sink(writer))
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == given[0].keys()
    for name in given[0]:
        found = {event.step: event.value for event in events.Scalars(name)}
        torch.testing.assert_close(found, {step: scalars[name] for step, scalars in given.items()})


def records_of(path):
    """The records of an offline run's file: a log of LevelDB, here of records shorter than its blocks."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place = path.read_bytes(), 7
    assert content[:4] == b":W&B"
    assert len(content) < 32_768
    while place < len(content):
        end = place + 7 + int.from_bytes(content[place + 4 : place + 6], "little")
        yield Record.FromString(content[place + 7 : end])
        place = end


ORDERS = [
    # The sinks' names and distances between readings; the distance between the user's logs; with `step`; before these.
    # Half of all: whatever any three of the four are, it occurs.
    *(
        (sinks, distance, with_step, (sinks == "a1") ^ (distance == 1) ^ with_step)
        for sinks, distance, with_step in product(("a1", "a2 b3"), (1, 4), (False, True))
    ),
    ("a1", 99, True, True),
    ("a1 a1", 1, False, True),
]


@pytest.fixture(scope="module")
def wandb_rows(tmp_path_factory):
    """From a training's name to what an offline run holds of it: its rows, and its metrics' definitions."""
    folder, trainings = tmp_path_factory.mktemp("wandb"), {"plain": fill_behind, "spoiled": fill_nan}
    trainings |= dict.fromkeys(ORDERS, ordered)
    given, held = {}, {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_ERROR_REPORTING", "false")
        import wandb

        settings = wandb.Settings(console="off", silent=True, x_disable_stats=True, x_disable_meta=True)
        try:
            for place, (name, train) in enumerate(trainings.items()):
                (folder / str(place)).mkdir()
                with wandb.init(mode="offline", dir=folder / str(place), project="gnomon", settings=settings) as run:
                    given[name] = train(run, name)
        finally:
            wandb.teardown()  # only then are the files whole
    for place, name in enumerate(trainings):
        (path,) = (folder / str(place)).glob("wandb/offline-run-*/run-*.wandb")
        records = [*records_of(path)]
        rows = [{item.nested_key[0]: json.loads(item.value_json) for item in r.history.item} for r in records]
        defined = [(r.metric.glob_name, r.metric.step_metric) for r in records if r.HasField("metric")]
        held[name] = given[name], [row for row in rows if row], defined
    return held


def fill_behind(run, name):
    from gnomon.integrations.wandb import wandb_sink

    run.log({"loss": 1.0}, step=100)  # the user's own axis is ahead
    return fill(wandb_sink(run))


def fill_nan(run, name):
    """Each reading is NaN, and given twice, while a row of the user's is open."""
    from gnomon.integrations.wandb import wandb_sink

    sink = wandb_sink(run)
    for step in range(3):
        run.log({"loss": step}, step=step)
        for _ in range(2):
            sink(Reading(step, {"a": torch.tensor(math.nan)}, {}))
        run.log({"rate": step}, step=step)


def ordered(run, order):
    """Twelve steps; the readings by name."""
    from gnomon.integrations.wandb import wandb_sink

    sinks, distance, with_step, before = order
    sinks = [(name, int(often), wandb_sink(run)) for name, often in sinks.split()]
    given = []

    def read(step):
        for place, (name, often, sink) in enumerate(sinks):
            if step % often == 0:
                sink(Reading(step, {name: torch.tensor(step + place / 8)}, {}))
                given.append((name, step, step + place / 8))

    for step in range(12):
        if before:
            read(step)
        if (step + 1) % distance == 0:
            run.log({"loss": step}, step=step if with_step else None)
        if not before:
            read(step)
    return given


def test_wandb_offline_holds_them(wandb_rows):
    given, rows, defined = wandb_rows["plain"]
    found = {row["gnomon_step"]: row for row in rows if "gnomon/accuracy" in row}
    assert {step: {name: row[f"gnomon/{name}"] for name in given[0]} for step, row in found.items()} == given
    assert defined == [("gnomon/*", "gnomon_step")]


def test_wandb_leaves_the_users_row_open_where_a_reading_is_nan(wandb_rows):
    _, rows, _ = wandb_rows["spoiled"]
    assert [(row["loss"], row["rate"], row["gnomon_step"]) for row in rows] == [(step,) * 3 for step in range(3)]
    assert all(math.isnan(row["gnomon/a"]) for row in rows)


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_wandb_keeps_the_readings_and_what_the_user_logs(wandb_rows, order):
    _, distance, with_step, _ = order
    given, rows, _ = wandb_rows[order]
    found = [
        (name, row["gnomon_step"], row[f"gnomon/{name}"]) for row in rows for name in "ab" if f"gnomon/{name}" in row
    ]
    assert sorted(found) == sorted(given)
    logged = [(row["loss"], row["_step"]) for row in rows if "loss" in row]
    assert [loss for loss, _ in logged] == [*range(distance - 1, 12, distance)]
    # Readings take rows of their own only where they outnumber the logs.
    if with_step or (distance == 1 and order[0] != "a1 a1"):
        assert [row for _, row in logged] == [*range(distance - 1, 12, distance)]


def test_mlflow_reads_them_back(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    from gnomon.integrations.mlflow import mlflow_sink

    before, store = mlflow.get_tracking_uri(), (tmp_path / "store").as_uri()
    mlflow.set_tracking_uri(store)
    try:
        with mlflow.start_run() as run:
            given = fill(mlflow_sink(run))
    finally:
        mlflow.set_tracking_uri(before)
    client = mlflow.MlflowClient(store)
    for name in given[0]:
        history = {metric.step: metric.value for metric in client.get_metric_history(run.info.run_id, name)}
        assert history == {step: scalars[name] for step, scalars in given.items()}


def test_dataclasses_and_nan_are_taken(tmp_path):
    """A reading that the training spoils is logged, and does not end it."""
    broken = Reading(3, {"spread": torch.tensor([1.0, math.nan])}, {})
    with SummaryWriter(tmp_path / "events") as writer:
        tensorboard_sink(writer)(broken)
    (event,) = EventAccumulator(str(tmp_path / "events")).Reload().Scalars("spread.max")
    assert (event.step, math.isnan(event.value)) == (3, True)
    moments = Probe(network(), (torch.eye(5), torch.arange(5) % 3), [gnomon.mse_decomposition])
    with SummaryWriter(tmp_path / "moments") as writer:
        tensorboard_sink(writer)(moments.read(1))
    assert "mse_decomposition.total" in EventAccumulator(str(tmp_path / "moments")).Reload().Tags()["scalars"]


@pytest.mark.parametrize(
    ("name", "package"), [("tensorboard", "tensorboard"), ("wandb", "wandb"), ("mlflow", "mlflow")]
)
def test_a_missing_package_names_its_extra(monkeypatch, name, package):
    for module in [module for module in sys.modules if module.startswith(("torch.utils.tensorboard",))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"gnomon.integrations.{name}", raising=False)
    message = rf"^gnomon.integrations needs {package}: pip install '.\[{name}\]' in the folder of gnomon's sources\.$"
    with pytest.raises(MissingExtraError, match=message):
        importlib.import_module(f"gnomon.integrations.{name}")


def test_gnomon_imports_none_of_them():
    heavy = "{'lightning', 'transformers', 'accelerate', 'tensorboard', 'wandb', 'mlflow'}"
    code = f"import sys, gnomon, gnomon.integrations, gnomon.probe; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
