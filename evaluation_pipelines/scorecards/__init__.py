"""Scorecards: ``scorecard_tables`` by profile, ``overrides`` by people, calibration.

``store`` is their part of the ledger, ``scorecard_queries`` joins it with the lake.
``blind_reviews`` hides scores until an ``audit_review``. ``domain`` chooses the score.
"""
