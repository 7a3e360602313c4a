"""Facts of telemetry and sessions as items, alerts and the digest of a week."""
