"""The one partitioning of everything that has a date: UTC days on which sessions began."""

from datetime import date

import dagster as dg

from evaluation_pipelines.settings import load_settings

# end_offset: today is a partition too, telemetry is scored within the minute.
SESSION_DATES = dg.DailyPartitionsDefinition(
    start_date=load_settings().start_date.isoformat(), timezone="UTC", end_offset=1
)


def is_partition(day: date) -> bool:
    """Whether a date lies in the range; one that does not would spoil a whole sensor tick."""
    return SESSION_DATES.has_partition_key(day.isoformat())
