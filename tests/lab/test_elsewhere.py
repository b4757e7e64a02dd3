"""elsewhere: its texts and networks, and one training made small, stopped half way."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from gnomon_lab.papers.own.elsewhere import networks, page, run, tasks, text
from gnomon_lab.papers.own.elsewhere.page import (
    SPLITS,
    figures,
    gained_after_stop,
    moments,
    said,
    summary,
    table,
    verdict_at,
)
from gnomon_lab.papers.own.elsewhere.run import Config
from tests.lab.resuming import resumed


def generator():
    return torch.Generator().manual_seed(0)


def test_windows_are_followed_by_their_labels():
    seen, unseen = text.next_characters(20, 10, generator())
    written = torch.cat([text.document(name) for name in text.DOCUMENTS])
    for sample, label in zip(seen.x, seen.labels, strict=True):
        letters = sample.argmax(1)
        places = (written.unfold(0, text.CONTEXT, 1) == letters).all(1).nonzero().flatten()
        assert label in written[places + text.CONTEXT]
    assert (len(seen.x), len(unseen.x)) == (20, 10)


def test_a_window_is_of_its_document_and_half():
    seen, unseen = text.whose(20, 20, generator())
    for part, half in ((seen, 0), (unseen, 1)):
        assert part.labels.bincount().tolist() == [2] * 10
        for sample, label in zip(part.x, part.labels, strict=True):
            written = text.document(text.DOCUMENTS[int(label)])
            own = written[half * len(written) // 2 : (half + 1) * len(written) // 2]
            assert (own.unfold(0, text.CONTEXT, 1) == sample.argmax(1)).all(1).any()


def test_patches_are_the_pixels_of_squares():
    images = torch.arange(2 * 8 * 8.0).reshape(2, 1, 8, 8)
    found = networks.patches(images)
    assert found.shape == (2, 4, 16)
    torch.testing.assert_close(found[1, 3].reshape(4, 4), images[1, 0, 4:, 4:])


def test_pretraining_teaches_to_fill_in():
    torch.manual_seed(0)
    x = torch.nn.functional.one_hot(torch.arange(64)[:, None] % 4 + torch.zeros(8, dtype=torch.int64), 5).float()
    encoder = networks.Encoder(5, 8, 2, width=16)
    before = encoder.embedding.weight.detach().clone()
    head = encoder.head.weight.detach().clone()
    networks.pretrain(encoder, x, 5, generator())
    assert not torch.equal(encoder.embedding.weight, before)
    torch.testing.assert_close(encoder.head.weight, head)


def test_a_small_one_resumes_and_is_asked_at_four_moments(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "PRETRAINING", 2)
    task = tasks.TASKS["fine-tuning"]
    model = task.network(generator())
    assert model(text.whose(10, 10, generator())[0].x).shape == (10, 10)
    cheap = dataclasses.replace(task, network=lambda _: nn.Sequential(nn.Flatten(), nn.Linear(32 * 50, 10)))
    monkeypatch.setitem(tasks.TASKS, "fine-tuning", cheap)
    monkeypatch.setattr(tasks, "UNSEEN", 20)
    monkeypatch.setattr(run, "JACOBIANS", 10)
    records = resumed(run.run, Config(("fine-tuning",), 8), tmp_path, step=64)
    assert [records[now]["step"] for now, _ in moments(records)] == [8, 16, 32, 64]
    assert [records[then]["step"] for _, then in moments(records)] == [32, 64, 128, 256]
    columns, rows = table(records)
    assert {len(row) for row in rows} == {len(columns)}
    asked = [verdict_at(records[: moments(records)[3][0] + 1], split) for split in SPLITS]
    assert rows[3][4:10] == (*said(asked[0]), *said(asked[1]))
    assert asked[0] != asked[1]
    assert [row[:2] for row in rows] == [("fine-tuning", step) for step in ("8", "16", "32", "64")]
    assert summary(records).count("the verdict answered ") == 2
    assert summary(records).count("it stops 0 of 1 training runs, 0 of them too early.") == 2
    assert len(figures(records)[0].panels) == 2


@pytest.mark.parametrize(("from_on", "gained"), [(0, 0.3), (1, 0.4), (3, 0.0), (4, None)])
def test_a_stop_is_judged_by_the_best_that_would_have_followed(monkeypatch, from_on, gained):
    """At the first reading at which the verdict is reached, though it may not be at a later one."""
    monkeypatch.setattr(page, "verdict_at", lambda records, _: SimpleNamespace(reached=len(records) == from_on + 1))
    records = [{"test/accuracy": accuracy} for accuracy in (0.2, 0.1, 0.5, 0.4)]
    assert gained_after_stop(records, None) == (gained if gained is None else pytest.approx(gained))
