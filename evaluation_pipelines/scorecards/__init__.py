"""Scorecards: scores by profile, overrides by people, blind reviews, calibration.

``domain.evaluation`` chooses the effective score of a session.
"""
