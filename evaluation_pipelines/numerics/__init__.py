"""Numerics: ``estimates`` and intervals over numpy arrays, whatever the numbers mean.

``skewed``: samples with long tails. ``division``: quotients that do not depend on other rows.
"""
