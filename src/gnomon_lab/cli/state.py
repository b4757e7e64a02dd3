"""The state of a run, in words."""

from gnomon.errors import GnomonError
from gnomon_lab.runs import Found, duration

NAMED = 4
"""The most finished parts that are listed by name."""


def state(found: Found) -> str:
    """Whether a run is finished and how long it took, or how far it is."""
    if found.finished:
        seconds = found.result().get("seconds")
        # Zero where the experiment's version did not record its time.
        return f"finished, took {duration(seconds)}" if seconds else "finished"
    try:
        return ": ".join(filter(None, ("not finished", how_far(found))))
    except GnomonError as error:
        return f"not finished: {error}"


def how_far(found: Found) -> str:
    """Where each part that has a checkpoint resumes; empty if none has. Many finished parts are only counted.

    Raises:
        CheckpointError: if a checkpoint is damaged.
    """
    reached = found.reached()
    ended = [arm for arm, (_, finished) in reached.items() if finished]
    parts = [f"{len(ended)} parts finished"] if len(ended) > NAMED else [f"{arm} finished" for arm in ended]
    return ", ".join(parts + [f"{arm} at step {step:,}" for arm, (step, finished) in reached.items() if not finished])
