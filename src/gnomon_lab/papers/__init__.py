"""One file per experiment; this table is all that is imported until one of them is asked for."""

import difflib
import importlib
from dataclasses import dataclass
from types import ModuleType

from gnomon.errors import DataError


@dataclass(frozen=True)
class Entry:
    """An experiment: where it is, what it shows, and whose it is."""

    module: str
    shows: str
    source: str


EXPERIMENTS = {
    "grok-digits": Entry(
        "gnomon_lab.papers.grok_digits",
        "one network memorises 500 handwritten digits, its twin with GrokAlign groks them",
        "setting of this project, after Walker et al., arXiv:2506.12284",
    ),
    "accelerate": Entry(
        "gnomon_lab.papers.accelerate",
        "how much sooner GrokAlign groks MNIST than weight decay, Grokfast and input noise",
        "Walker et al., arXiv:2506.12284, table 1",
    ),
}


def experiment(name: str) -> ModuleType:
    """The module of an experiment: Config, run, table, figures, claims and the report's words.

    Raises:
        DataError: if there is none of that name; the nearest is named.
    """
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, 1, cutoff=0)
        raise DataError(
            f"experiment(NAME): expected an experiment, got {name!r}. Did you mean {near[0]}? See `gnomon list`."
        )
    return importlib.import_module(EXPERIMENTS[name].module)
