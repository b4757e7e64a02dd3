"""Logs readings to TensorBoard."""

from collections.abc import Callable

from gnomon._extras import missing
from gnomon.probe import Reading

try:
    from torch.utils.tensorboard import SummaryWriter
except Exception as cause:
    raise missing("gnomon.integrations", "tensorboard", "tensorboard", cause) from cause


def tensorboard_sink(writer: SummaryWriter) -> Callable[[Reading], None]:
    """Adds each reading's scalars to the writer, by name and at the reading's step."""

    def sink(reading: Reading) -> None:
        for name, value in reading.scalars().items():
            writer.add_scalar(name, value, reading.step)

    return sink
