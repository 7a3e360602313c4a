"""Build: which tables are built for which dates, and how.

``build`` also chooses the dates of a night and publishes judge scores.
"""

from evaluation_pipelines.build.build import Build, DateBuilt, DateFailed
from evaluation_pipelines.build.daily_tables import DAILY_TABLES, TELEMETRY_TABLES

__all__ = ["DAILY_TABLES", "TELEMETRY_TABLES", "Build", "DateBuilt", "DateFailed"]
