"""Ledger queries of telemetry: files and batches, sessions, retries, what was forgotten."""
