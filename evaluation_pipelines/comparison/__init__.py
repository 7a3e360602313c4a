"""Comparison: models against each other, masques against the baseline, now against before.

``domain`` has the statistics over a frame of runs; the other modules read and write the runs.
"""
