"""Criteria, scorecards, overrides, audits, calibration, and which score is hidden."""
