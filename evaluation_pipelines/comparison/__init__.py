"""Comparison: models against each other, masques against the baseline, now against before.

``domain`` has the statistics over a frame of runs. The runs are read and the results written by
``compare_models``, ``masque_lift``, ``prediction``, ``gate``, ``experiments`` and ``run_file``.
"""
