"""Numerics: ``estimates`` and intervals over numpy arrays, whatever the numbers mean.

``skewed`` is for samples with long tails, ``division`` for quotients that no neighbor changes.
"""
