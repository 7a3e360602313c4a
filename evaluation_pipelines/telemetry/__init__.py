"""Telemetry: OTLP in, events out.

``ingest`` reads landing files into the lake, ``domain`` gives their lines a meaning, ``ledger``
keeps the positions, ``quarantine`` the unreadable lines.
"""
