"""Outcomes of sessions: from telemetry, from git, and from outside."""
