"""Telemetry: OTLP in, events out.

* ``ingest`` reads ``unread_files`` into the lake, ``reread`` reads damaged parts again.
* ``reading`` and ``documents`` read lines, ``domain`` turns them into events.
* ``prices``, ``session_dates``, ``late_parents``: cost, day and parent of events.
* ``forgotten_events`` leaves out erased events.
* ``otel_logs``, ``transcript_ingest`` and ``local_transcripts`` write landing files.
* ``ledger`` keeps positions, ``quarantine`` unreadable lines, ``event_texts`` reads prompts.
"""
