"""Several histories side by side."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnomon._extras import extra
from gnomon.errors import EmptyError, RangeError, public, within
from gnomon.probe._history import History
from gnomon.probe._html import table
from gnomon.probe._names import chosen
from gnomon.probe._text import in_words

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Comparison:
    """Histories by name, of different training runs, or of several seeds.

    Attributes:
        histories: the histories, by the names that a legend shows.
    """

    histories: Mapping[str, History]

    @property
    def quantities(self) -> list[str]:
        """The names of all quantities that any of them has."""
        return [*dict.fromkeys(name for history in self.histories.values() for name in history.quantities)]

    @within("Comparison")
    def to_pandas(self) -> "pandas.DataFrame":
        """A `pandas.DataFrame` with one row per run and step, its index, and one column per number.

        A number that a run does not have at a step is NaN there, as in `History.to_pandas`. The mean over seeds at each
        step is `frame.groupby("step").mean()`.

        Raises:
            MissingExtraError: if pandas is not installed.
        """
        concat = extra("Comparison.to_pandas", "pandas", "pandas").concat
        return concat({name: history.to_pandas() for name, history in self.histories.items()}, names=["run"])

    @within("Comparison")
    def plot(
        self, *names: str, ax: "Axes | None" = None, size: tuple[float | int, float | int] | None = None
    ) -> "tuple[Figure, Axes | list[Axes]]":
        """Draws quantities of all histories against the training step, one panel each, as `History.plot` does.

        Each history has a colour, and each split or layer its dash pattern; several quantities in the same axes have
        lines that all look different. What only some histories have is drawn for these only.

        Args:
            names: such as `test/accuracy`, or `accuracy` for all splits and layers that have it; default: all.
            ax: where to draw all of them together; default: a new figure.
            size: the width and the height of a new figure, in inches; default: what its panels and its legend need.

        Returns:
            The figure and its axes; for several panels, a list of axes.

        Raises:
            MissingExtraError: if matplotlib is not installed.
            ArgumentTypeError: if `ax` is not one Axes, or the size no numbers.
            EmptyError: if there are no readings.
            RangeError: if there is no quantity of a given name; if the size is not two numbers above 0, or axes are
                given too.
        """
        from gnomon import plot

        found = chosen(names, self.quantities)
        log = [name for name in found if any(history.about(name).logarithmic for history in self.histories.values())]
        return plot.histories(self.histories, found, ax=ax, size=size, logarithmic=log)

    def __str__(self) -> str:
        return in_words(f"{len(self.histories)} histories", self.histories)

    def _repr_html_(self) -> str:
        return table(f"{len(self.histories)} histories", self.histories)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(f'{name}: {history!r}' for name, history in self.histories.items())})"


@public
def compare(*histories: History, **named: History) -> Comparison:
    """Puts histories side by side: `compare(plain=history, grokalign=other).plot("test/accuracy")`.

    Args:
        histories: histories without a name; they are called run 1, run 2, and so on.
        named: others by name; `**{"rate 0.1": history}` gives a name that is not a Python identifier.

    Raises:
        EmptyError: if there are none.
        RangeError: if one is not a `History`, or two have the same name.
    Example:
        >>> import torch, gnomon
        >>> runs = {}
        >>> for width in (4, 8):
        ...     model = torch.nn.Sequential(torch.nn.Linear(2, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))
        ...     probe = gnomon.Probe(model, torch.ones(3, 2), [gnomon.jacobian_norm])
        ...     _ = probe(0)
        ...     runs[f"width {width}"] = probe.history
        >>> gnomon.compare(**runs).quantities
        ['jacobian_norm']
    """
    unnamed = {f"run {place}": history for place, history in enumerate(histories, 1)}
    if not (unnamed or named):
        raise EmptyError("histories", "at least one", "none", "Pass those of probes.")
    if twice := unnamed.keys() & named.keys():
        raise RangeError("named", "names of its own", ", ".join(sorted(twice)), "Rename it.")
    for name, history in (unnamed | named).items():
        if not isinstance(history, History):
            raise RangeError(name, "a History", type(history).__name__, "Pass probe.history, or History.load(path).")
    return Comparison(unnamed | named)
