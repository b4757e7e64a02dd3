"""Which of a list of quantities are unavailable for a network and samples."""

from collections.abc import Sequence

from torch import nn

from gnomon.autodiff import Places, Positions, named_layers
from gnomon.errors import GnomonError, within
from gnomon.probe._derived import require_layers
from gnomon.probe._dry_run import dry_run
from gnomon.probe._plan import Quantities, plan, provided
from gnomon.probe._samples import Data, Samples, padding_of
from gnomon.probe._sharding import whole


@within("Probe")
def unavailable(
    model: nn.Module,
    data: Data,
    quantities: Quantities,
    *,
    layers: str | Sequence[str] | None = None,
    head: str | Sequence[str] | None = None,
    positions: Places | None = None,
    memory: int | None = None,
) -> dict[str, GnomonError]:
    """The quantities that a `Probe` with the same arguments would refuse, each with the reason; it reads the others.

    Raises:
        GnomonError: if the data are not samples, quantities request what no probe has, or there is no such layer.
    """
    require_layers(model, layers=layers, head=head)
    its = None if positions is None else Positions(positions)
    samples = Samples(data, its, padding_of(model))
    ends = named_layers(head, "head")

    def look() -> dict[str, GnomonError]:
        given = provided(model, memory=memory, head=ends, positions=its)
        asked = plan(quantities, {*given, "x"}, layers, ends)
        return dry_run(asked, model, samples, given, memory=memory, positions=its)[0]

    return whole(model, look)
