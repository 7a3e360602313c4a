"""Evaluations of sessions as rows, and their attributes in OpenTelemetry."""
