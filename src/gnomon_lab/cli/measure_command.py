"""`gnomon measure CHECKPOINT …`: the geometry of a trained network from its weights, and how it moved over several."""

import math
from collections.abc import Sequence
from pathlib import Path

from gnomon.errors import RangeError
from gnomon_lab.cli.measure_options import Options
from gnomon_lab.cli.outputs import refuse
from gnomon_lab.cli.parse import parse


def main(arguments: Sequence[str]) -> int:
    """Measures, and prints the table or the JSON; everything else goes to stderr."""
    options = parse(Options, arguments, "gnomon measure")
    refuse(options.outputs(), [*options.checkpoint, Path(options.data)])
    if options.memory is not None and options.memory < 1:
        raise RangeError("--memory", "at least 1 MiB", options.memory, "Allow more.")
    if not 0 <= options.rtol < math.inf:
        raise RangeError("--rtol", "finite and at least 0", options.rtol, "Pass one such as 0.05.")
    if options.passes is not None and options.passes < 16:
        raise RangeError("--passes", "at least 16", options.passes, "Allow more.")
    from gnomon_lab.arithmetic import convolutions_in_float32
    from gnomon_lab.cli.measure_one import one
    from gnomon_lab.cli.measure_several import several
    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.measuring import checkpoints_at

    beside = Terminal(stderr=True)
    paths = checkpoints_at(options.checkpoint)
    with convolutions_in_float32():
        if len(paths) > 1 or options.history is not None or options.steps is not None:
            return several(options, paths, beside)
        return one(options, paths[0], beside)
