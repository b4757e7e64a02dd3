"""Stopping rules: from the readings so far to whether training may end."""

import difflib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mode
from typing import Any

from gnomon.errors import ArgumentTypeError, CheckpointError, RangeError, public, within
from gnomon.probe._derived import QUANTITIES
from gnomon.probe._reading import Reading

MEANT = {"alignment": ("jacobian_alignment", "centroid_alignment"), "pc1": ("explained_variance_ratio",)}
"""What an argument of these names may stand for: quantities of other names."""
TYPO = 0.85
"""How similar a misspelt name is, as difflib has it; few of gnomon's own names are as similar."""


class Stop:
    """Asks a criterion after each reading whether training may end; `stop_when` makes one.

    Several processes must agree, and readings differ if the processes do, as in BatchNorm's running statistics: let the
    first process decide and tell the others. The callbacks of `gnomon.integrations` do this.

    Attributes:
        steps: the steps of the readings so far.
        histories: the means so far, by the names that `Reading.scalars` gives them.
        verdict: what the criterion returned last; None before the first reading.
    """

    def __init__(
        self,
        criterion: Callable[..., object],
        names: Mapping[str, str],
        settings: Mapping[str, object],
        given: Mapping[str, object],
    ) -> None:
        self.steps: list[int] = []
        self.histories: dict[str, list[float]] = {name: [] for name in names.values() if name != "steps"}
        self.verdict: Any = None
        self._criterion, self._names, self._settings, self._given = criterion, names, settings, given

    @within("stop_when")
    def __call__(self, reading: Reading) -> bool:
        """Whether the criterion holds, this reading included; without a finite value that it needs a reading is not.

        Raises:
            RangeError: if the reading lacks a quantity, or is not after those before it; if the criterion returns
                neither True nor False.
        """
        scalars = reading.scalars()
        self._check(reading, scalars)
        if not all(math.isfinite(scalars.get(name, math.nan)) for name in self.histories):
            return False  # The criterion is about steps at which there are values.
        self.steps.append(reading.step)
        for name, history in self.histories.items():
            history.append(scalars[name])
        series: dict[str, list[Any]] = {"steps": self.steps, **self.histories}
        arguments = {argument: list(series[name]) for argument, name in self._names.items()}
        self.verdict = self._criterion(**arguments, **self._settings)
        reached = getattr(self.verdict, "reached", self.verdict)
        if reached not in (True, False):
            raise RangeError(
                self._called,
                "True, False or a result with `reached`",
                repr(self.verdict),
                "Return one.",
            )
        return bool(reached)

    def state_dict(self) -> dict[str, Any]:
        """The history, as numbers, strings, lists and dicts."""
        return {"steps": [*self.steps], "histories": {name: [*values] for name, values in self.histories.items()}}

    @within("stop_when")
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from that history; the criterion and its settings are this object's.

        Raises:
            CheckpointError: if it is not the state of such a rule.
            RangeError: if it is the history of other quantities.
        """
        whole = isinstance(state_dict, Mapping) and state_dict.keys() >= {"steps", "histories"}
        if not whole or not are_sequences(state_dict["steps"], state_dict["histories"]):
            got = (
                f"one with {', '.join(map(str, state_dict)) or 'nothing'}"
                if isinstance(state_dict, Mapping)
                else "none"
            )
            raise CheckpointError("state_dict", "one with steps and their histories", got, "Load that of a stop_when.")
        if state_dict["histories"].keys() != self.histories.keys():
            raise RangeError(
                self._called,
                f"the history of {', '.join(self.histories)}",
                ", ".join(state_dict["histories"]),
                "Ask for the same quantities, or start without a history.",
            )
        lengths = {name: len(values) for name, values in state_dict["histories"].items()}
        if any(length != len(state_dict["steps"]) for length in lengths.values()):
            raise CheckpointError(
                "state_dict",
                f"a value of each quantity for each of its {len(state_dict['steps'])} steps",
                ", ".join(f"{length} of {name}" for name, length in lengths.items()),
                "Load that of a stop_when.",
            )
        self.steps = [*state_dict["steps"]]
        self.histories = {name: [*values] for name, values in state_dict["histories"].items()}

    def _check(self, reading: Reading, scalars: dict[str, float]) -> None:
        # What has no value has no parts either, such as `.total`.
        without = tuple(f"{absent}." for absent in reading.missing)
        lacking = {
            argument: name
            for argument, name in self._names.items()
            if name != "steps" and name not in scalars and not name.startswith(without)
        }
        if lacking:
            there = ", ".join(known for known in scalars if not known.endswith((".min", ".max")))
            expected = f"{', '.join(lacking.values())} in the reading"
            raise RangeError(self._called, expected, there, self._hint(lacking, scalars))
        if self.steps and reading.step <= self.steps[-1]:
            raise RangeError(
                self._called,
                f"a reading after step {self.steps[-1]}",
                f"step {reading.step}",
                "Make a new one for each training; when resuming, load the history that was saved with the network.",
            )

    def _hint(self, lacking: dict[str, str], scalars: dict[str, float]) -> str:
        """The call that was meant, and what is to be measured for it."""
        meant, unmeasured = {**self._given}, list[str]()
        anywhere = [known for asked in lacking.values() if "/" not in asked for known in near(asked, scalars)]
        splits = [known.partition("/")[0] for known in anywhere if "/" in known]
        split = mode(splits) if splits else None  # one for all
        without = {*lacking.values()} == self.histories.keys()  # or else `split` would miss those that are there
        for argument, asked in lacking.items():
            place, slash, last = asked.rpartition("/")
            there = [name for name in scalars if "/" in asked or "/" not in name or name.startswith(f"{split}/")]
            own = near(asked, there)
            if own and without and argument == asked and own[0] == f"{split}/{asked}":
                meant["split"] = split
            elif own:
                meant[argument] = own[0]
            else:
                names = [f"{place}{slash}{name}" for name in MEANT.get(last, (last,))]
                unmeasured.append(" or ".join(names))
                if last in MEANT:
                    meant[argument] = names[0]
        hints = []
        if meant != self._given:
            keywords = ", ".join(f"{argument}={value!r}" for argument, value in meant.items())
            hints.append(f"Did you mean stop_when({self._called}, {keywords})?")
        if unmeasured:
            hints.append(f"Measure {', '.join(unmeasured)} too.")
        return " ".join(hints)

    @property
    def _called(self) -> str:
        return getattr(self._criterion, "__name__", type(self._criterion).__name__)


@public
def stop_when(criterion: Callable[..., object], /, *, split: str | None = None, **keywords: object) -> Stop:
    """A stopping rule: asks `criterion`, after each reading, about the history of what was read.

    The criterion's argument names say what it uses: `steps`, and the quantities of the probe, each as the list of its
    means. If a quantity has another name, say which: a keyword that is a string names it. All other keywords are passed
    to the criterion, and its arguments that have defaults keep these.

        stop = stop_when(plateau, alignment="centroid_alignment", pc1="explained_variance_ratio", high=0.3)
        for step in range(steps):
            if (reading := probe(step)) and stop(reading):
                print(stop.verdict.message)
                break

    For a probe of several splits, `stop_when(verdict, split="train")` asks about the quantities on one.

    Under cross-entropy the Jacobian's is the better `alignment`: the loss does not see the centroid. So `plateau` has
    no default for it.

    Args:
        criterion: a function that returns True or False, or a result with `reached`, such as `gnomon.plateau`.
        split: the split of the quantities that no keyword names; default: that of a probe without splits.
        keywords: values for its arguments: the names of quantities, as in `Reading.scalars`, and settings.

    Returns:
        A function of a reading, with a history that a checkpoint can store (`state_dict`).

    Raises:
        RangeError: if the criterion has no argument of a keyword's name.

    Example:
        >>> import torch, gnomon
        >>> probe = gnomon.Probe(torch.nn.Identity(), torch.ones(2, 4), [gnomon.jacobian_norm])
        >>> stop = gnomon.stop_when(lambda steps, jacobian_norm: len(steps) >= 3 and jacobian_norm[-1] == 2.0)
        >>> [stop(probe.read(step)) for step in range(4)]
        [False, False, True, True]
    """
    try:
        parameters = inspect.signature(criterion).parameters
    except (TypeError, ValueError) as error:
        advice = "Pass one, such as gnomon.plateau."
        raise ArgumentTypeError(
            "criterion", "a function whose arguments have names", repr(criterion), advice
        ) from error
    variadic = {name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_KEYWORD}
    for name in keywords:
        if name not in parameters and not variadic:
            near = difflib.get_close_matches(name, parameters, 1)
            raise RangeError(
                name,
                f"one of {', '.join(parameters)}",
                name,
                f"Did you mean {near[0]}?" if near else "Leave it out.",
            )
    asked = {
        name: name if split is None or name == "steps" else f"{split}/{name}"
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    names = {name: value for name, value in (asked | keywords).items() if isinstance(value, str)}
    settings = {name: value for name, value in keywords.items() if name not in names}
    return Stop(criterion, names, settings, keywords if split is None else {"split": split, **keywords})


def near(asked: str, there: Iterable[str]) -> list[str]:
    """The names of this quantity at another layer or misspelt, best first; on its split, if it names one.

    The part of another that is called like one of gnomon's quantities is not that quantity.
    """
    split, slash, _ = asked.partition("/")
    last = asked.rpartition("/")[2]
    rests = {known: known.removeprefix(split + slash) for known in there if not slash or known.startswith(f"{split}/")}
    for name in MEANT.get(last, (last,)):
        ends = (f"/{name}",) if name in QUANTITIES else (f"/{name}", f".{name}")
        if same := [known for known, rest in rests.items() if rest == name or rest.endswith(ends)]:
            return same
    others = {rest.rpartition("/")[2]: known for known, rest in reversed(rests.items())}
    if last in QUANTITIES:
        others = {name: known for name, known in others.items() if name not in QUANTITIES}
    return [others[name] for name in difflib.get_close_matches(last, others, 1, TYPO)]


def are_sequences(steps: object, histories: object) -> bool:
    """Whether these are a list, and lists by name."""
    lists = [steps, *histories.values()] if isinstance(histories, Mapping) else [None]
    return all(isinstance(values, Sequence) for values in lists)
