"""Numerics: estimates and intervals over numpy arrays, without any meaning of their numbers."""
