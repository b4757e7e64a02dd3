"""truncation-bias: the cumulative bias at a fixed rotation, event by event as points are cut away (section 4.3)."""
