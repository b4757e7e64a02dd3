"""A run's setting, as options of `gnomon run`."""

import shlex
from pathlib import Path

from gnomon_lab.experiment import Experiment
from gnomon_lab.runs import Found
from gnomon_lab.runs.found import plain
from gnomon_lab.runs.options import option
from gnomon_lab.settings import Settings

DEFAULT = "default setting"
USUAL = Path("runs")
"""The folder of all runs, if no other is named."""


def setting(experiment: Experiment[Settings], found: Found) -> str:
    """`DEFAULT`, or the options that differ from it, or from that of `--paper` if these are no more with `--paper`."""
    small, paper = _options(found, experiment.small), ["--paper", *_options(found, experiment.paper)]
    return " ".join(paper if len(paper) <= len(small) else small) or DEFAULT


def elsewhere(root: Path) -> str:
    """The option that names the folder of all runs, with a space before it; nothing for the usual one."""
    return "" if root in (USUAL, USUAL.resolve()) else f" --runs {shlex.quote(str(root))}"


def _options(found: Found, base: object) -> list[str]:
    """The options that turn a base into the run's configuration."""
    usual, own = plain(base), found.config
    different = [name for name in {**usual, **own} if (name in own, own.get(name)) != (name in usual, usual.get(name))]
    return [option(name, own.get(name)) for name in different]
