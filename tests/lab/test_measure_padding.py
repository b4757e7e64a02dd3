"""`gnomon measure` of padded texts: a Hugging Face folder's network gets the mask that its tokenizer would make."""

from pathlib import Path

import numpy as np
import pytest
import torch

import gnomon
from tests.lab.measuring import CLASSES, N, call

transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "num_labels": CLASSES,
    "pad_token_id": 3,
}
ASKED = ("--quantities", "log_probability", "nc1")


def saved(kind="Bert", head="SequenceClassification", name="saved", seed=0, **more):
    """Writes a network whose tokens matter, and returns it."""
    torch.manual_seed(seed)
    config = getattr(transformers, f"{kind}Config")(**SIZES, initializer_range=0.5, **more)
    made = getattr(transformers, f"{kind}For{head}")._from_config(config, attn_implementation="eager").eval()
    transformers.utils.logging.disable_progress_bar()
    made.save_pretrained(name)
    transformers.utils.logging.enable_progress_bar()
    return made


def texts(*, before=False, lengths=(2, 5, 7)):
    """Tokens, padded with 3; a file holds them, with labels."""
    x = torch.randint(4, 20, (N, 7), generator=torch.Generator().manual_seed(0))
    for row in range(N):
        there = torch.arange(7) < lengths[row % len(lengths)]
        x[row, ~(there.flip(0) if before else there)] = 3
    labels = torch.arange(N) % CLASSES
    np.savez("texts.npz", x=x.numpy(), labels=labels.numpy())
    return x, labels


def mean_of(logits, labels):
    return gnomon.log_probability(logits.detach(), labels).mean().item()


@pytest.mark.parametrize(("before", "side"), [(False, "after"), (True, "before")])
@pytest.mark.parametrize("kind", ["Bert", "Llama"])
def test_padding_is_masked_and_that_is_said(folder, measured, kind, before, side):
    made, (x, labels) = saved(kind), texts(before=before)
    found, said = measured("saved", None, "texts.npz", *ASKED, "--report", "a.html")
    expected = mean_of(made(x, attention_mask=(x != 3).long()).logits, labels)
    assert found["quantities"]["log_probability"]["mean"] == pytest.approx(expected, rel=1e-5)
    # A decoder's logits are of the last token that is no padding, and see nothing after it.
    matters = abs(expected - mean_of(made(x).logits, labels)) > 1e-3
    assert matters == (kind == "Bert" or before)
    assert found["mask"] == f"token 3, the pad_token_id of config.json, is masked {side} 27 of 40 texts"
    assert found["mask"] in said.splitlines()
    assert f"Padding: {found['mask']}." in Path("a.html").read_text(encoding="utf-8")


def test_at_each_position_padding_is_masked_too(folder, measured):
    made, (x, _) = saved(head="TokenClassification"), texts()
    labels = torch.where(x == 3, -100, x % CLASSES)
    np.savez("texts.npz", x=x.numpy(), labels=labels.numpy())
    found, _ = measured("saved", None, "texts.npz", *ASKED, "--position", "all")
    logits = made(x, attention_mask=(x != 3).long()).logits
    expected = mean_of(logits[x != 3], labels[x != 3])
    assert found["quantities"]["log_probability"]["mean"] == pytest.approx(expected, rel=1e-5)


REFUSED = "got padding in 27 of 40. Pad on the left to read the last token, or label padding -100."


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("position", ["last", "5", "all"])
def test_a_language_model_is_not_read_at_padding(folder, monkeypatch, capsys, position, several):
    """With one label per text, or one per token, also at padding; one checkpoint, or several."""
    saved("Llama", "CausalLM", name="checkpoint-1")
    x, _ = texts()
    if position == "all":
        np.savez("texts.npz", x=x.numpy(), labels=x.numpy())
    if several:
        saved("Llama", "CausalLM", name="checkpoint-2", seed=1)
    checkpoints = ["checkpoint-1", "checkpoint-2"][: 1 + several]
    code, _, said = call(monkeypatch, capsys, *checkpoints, "--data", "texts.npz", "--position", position, *ASKED)
    assert code == 2
    assert f"expected tokens at the positions that are read, {REFUSED}" in said


def test_of_a_padded_language_model_the_texts_that_have_a_label_at_the_position_are_read(folder, measured):
    """Or, padded on the left, all of them at the last."""
    made, (x, _) = saved("Llama", "CausalLM"), texts()
    labels = x.roll(-1, 1).masked_fill(x.roll(-1, 1) == 3, -100)
    labels[:, -1] = -100
    np.savez("texts.npz", x=x.numpy(), labels=labels.numpy())
    logits, there = made(x, attention_mask=(x != 3).long()).logits, labels != -100
    for position, taken in (("all", there), ("4", there & (torch.arange(7) == 4))):
        found, _ = measured("saved", None, "texts.npz", "--quantities", "log_probability", "--position", position)
        expected = mean_of(logits[taken], labels[taken])
        assert found["quantities"]["log_probability"]["mean"] == pytest.approx(expected, rel=1e-5)
    x, labels = texts(before=True)
    found, _ = measured("saved", None, "texts.npz", *ASKED, "--position", "last")
    expected = mean_of(made(x, attention_mask=(x != 3).long()).logits[:, -1], labels)
    assert found["quantities"]["log_probability"]["mean"] == pytest.approx(expected, rel=1e-5)


UNSEEN = {
    "end": ({"eos_token_id": [5, 3]}, [5, 5, 5, 3, 3, 3, 3], "is its eos_token_id too"),
    "separator": ({"sep_token_id": 3}, [5, 5, 5, 3, 3, 3, 3], "is its sep_token_id too"),
    "within": ({}, [5, 3, 5, 5, 3, 3, 3], "stands within texts or on both sides of them"),
    "both sides": ({}, [3, 5, 5, 5, 5, 5, 5], "stands within texts or on both sides of them"),
}


@pytest.mark.parametrize("kind", UNSEEN)
def test_what_may_be_no_padding_is_not_masked_and_that_is_said(folder, measured, kind):
    more, first, words = UNSEEN[kind]
    made, (x, labels) = saved(**more), texts()
    x[0] = torch.tensor(first)
    np.savez("texts.npz", x=x.numpy(), labels=labels.numpy())
    found, said = measured("saved", None, "texts.npz", *ASKED)
    expected = mean_of(made(x).logits, labels)
    assert found["quantities"]["log_probability"]["mean"] == pytest.approx(expected, rel=1e-5)
    assert found["mask"] == f"no attention mask: token 3, the pad_token_id of config.json, {words}"
    assert found["mask"] in said.splitlines()


def test_without_padding_or_a_mask_nothing_is_said(folder, measured):
    saved()
    texts(lengths=(7,))
    found, said = measured("saved", None, "texts.npz", *ASKED)
    assert (found["mask"], "mask" in said) == (None, False)
    saved("FNet")  # which takes none
    texts()
    found, said = measured("saved", None, "texts.npz", *ASKED)
    assert (found["mask"], "mask" in said) == (None, False)


def test_checkpoints_are_masked_alike(folder, measured):
    made, (x, labels) = saved(name="checkpoint-1"), texts()
    with torch.no_grad():
        made.classifier.weight.mul_(2)
    transformers.utils.logging.disable_progress_bar()
    made.save_pretrained("checkpoint-2")
    transformers.utils.logging.enable_progress_bar()
    found, said = measured("checkpoint-*", None, "texts.npz", *ASKED, "--steps", "name", "--report", "a.html")
    expected = mean_of(made(x, attention_mask=(x != 3).long()).logits, labels)
    assert found["quantities"]["log_probability"]["mean"][1] == pytest.approx(expected, rel=1e-5)
    assert said.count(found["mask"]) == 1
    assert f"Padding: {found['mask']}." in Path("a.html").read_text(encoding="utf-8")
