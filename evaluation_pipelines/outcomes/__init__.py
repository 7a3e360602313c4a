"""Outcomes of sessions: ``table`` (from telemetry and outside) and ``from_git``.

``domain.by_session`` is the row of a session.
"""
