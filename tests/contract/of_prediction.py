"""Of what the outputs say of the labels."""

import math

import gnomon
from tests.contract.row import Contract, loop


def log_softmax(logits, label):
    values = logits.tolist()
    most = max(values)
    return values[label] - most - math.log(sum(math.exp(value - most) for value in values))


def lead(logits, label):
    values = logits.tolist()
    return values[label] - max((value for other, value in enumerate(values) if other != label), default=-math.inf)


def of_outputs(s):
    return {"logits": s.normal("n", "k"), "labels": s.labels()}


def shifted(a):
    return a | {"logits": a["logits"] + 7.0}


ROWS = [
    Contract(gnomon.log_probability, loop(log_softmax), of_outputs, (-math.inf, 0), {"shift": shifted}, zero=False),
    Contract(gnomon.margin, loop(lead), of_outputs, invariances={"shift": shifted}, zero=False),
]
