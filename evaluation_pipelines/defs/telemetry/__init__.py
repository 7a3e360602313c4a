"""Ingest in Dagster: its asset and checks, and the sensors that start it."""
