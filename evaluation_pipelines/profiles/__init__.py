"""Profiles: which sessions are scored by which criteria, and all versions of that."""
