"""Telemetry: OTLP in, events out.

``ingest`` reads ``unread_files`` into the lake: their ``documents`` (``reading``, ``reread``),
which ``domain`` gives a meaning, with ``prices``, ``session_dates``, ``late_parents`` and without
``forgotten_events``. ``otel_logs`` and ``transcript_ingest`` (``local_transcripts``) write such
files. ``ledger`` keeps positions, ``quarantine`` unreadable lines, ``event_texts`` is for prompts.
"""
