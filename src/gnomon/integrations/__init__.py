"""Other people's training loops and loggers: each file turns their events into probe calls, or receives readings."""
