"""Prompts: rubric, transcript and steps of a session, redacted and fenced."""
