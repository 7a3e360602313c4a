"""Evaluations for other programs: an outbox of changes, and its receivers.

``domain`` derives the evaluations from the relation of sessions, and names their attributes.
"""
