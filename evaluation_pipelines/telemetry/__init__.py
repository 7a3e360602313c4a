"""Telemetry: OTLP in, events out.

``ingest`` reads landing files into the lake, ``domain`` has what their lines mean, ``ledger`` what
was read, ``quarantine`` what could not be.
"""
