"""Other people's training loops and loggers: each file turns their events into calls of a probe, or takes readings."""
