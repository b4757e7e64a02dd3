"""Readings to Weights & Biases."""

from collections.abc import Callable

from gnomon._extras import missing
from gnomon.probe import Reading

try:
    import wandb
except Exception as cause:
    raise missing("gnomon.integrations", "wandb", "wandb", cause) from cause


def wandb_sink(run: wandb.Run) -> Callable[[Reading], None]:
    """Logs each reading's scalars as `gnomon/NAME`, against `gnomon_step`.

    An axis of their own, since W&B's counts the calls of `run.log`, and drops what comes with a step behind it.
    """
    run.define_metric("gnomon/*", step_metric="gnomon_step")

    def sink(reading: Reading) -> None:
        run.log({"gnomon_step": reading.step} | {f"gnomon/{name}": value for name, value in reading.scalars().items()})

    return sink
