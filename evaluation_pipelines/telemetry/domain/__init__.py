"""What lines of telemetry mean: pure functions from bytes to rows of ``agent_events``."""
