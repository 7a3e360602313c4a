"""The subject of an erasure, and telemetry without its records."""
