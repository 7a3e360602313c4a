"""Erasure: forget a person, a session or an organization in every store, and expire old data.

``forget`` and ``expire`` are the entries; ``domain`` says whom a request is about.
"""
