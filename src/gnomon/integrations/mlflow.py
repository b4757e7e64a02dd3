"""Logs readings to MLflow."""

from collections.abc import Callable

from gnomon._extras import missing
from gnomon.probe import Reading

try:
    import mlflow
except Exception as cause:
    raise missing("gnomon.integrations", "mlflow", "mlflow", cause) from cause


def mlflow_sink(run: mlflow.entities.Run) -> Callable[[Reading], None]:
    """Logs each reading's scalars as the run's metrics, by name and at the reading's step."""

    def sink(reading: Reading) -> None:
        mlflow.log_metrics(reading.scalars(), step=reading.step, run_id=run.info.run_id)

    return sink
