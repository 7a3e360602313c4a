"""Daily partitions: UTC days on which sessions began."""

from collections.abc import Mapping
from datetime import date

import dagster as dg

from evaluation_pipelines.settings import load_settings

ASSET_PARTITION_RANGE_START_TAG = "dagster/asset_partition_range_start"
ASSET_PARTITION_RANGE_END_TAG = "dagster/asset_partition_range_end"
PARTITION_NAME_TAG = "dagster/partition"

# end_offset=1: today is a partition, too, since telemetry is scored within a minute.
SESSION_DATES = dg.DailyPartitionsDefinition(
    start_date=load_settings().start_date.isoformat(), timezone="UTC", end_offset=1
)


def is_partition(day: date) -> bool:
    """True if a date is a partition; a request for any other date fails the whole sensor tick."""
    return SESSION_DATES.has_partition_key(day.isoformat())


def range_tags(first: date, last: date) -> dict[str, str]:
    """Return the tags of a run over the dates from ``first`` to ``last``."""
    return {
        ASSET_PARTITION_RANGE_START_TAG: first.isoformat(),
        ASSET_PARTITION_RANGE_END_TAG: last.isoformat(),
    }


def tagged_range(tags: Mapping[str, str]) -> tuple[date, date] | None:
    """Return the first and last date of a run by its tags; ``None`` for a run without a range."""
    if ASSET_PARTITION_RANGE_START_TAG not in tags or ASSET_PARTITION_RANGE_END_TAG not in tags:
        return None
    return (
        date.fromisoformat(tags[ASSET_PARTITION_RANGE_START_TAG]),
        date.fromisoformat(tags[ASSET_PARTITION_RANGE_END_TAG]),
    )


def tagged_dates(tags: Mapping[str, str]) -> tuple[date, date] | None:
    """Return the first and last date of a run over a range or one date; ``None`` for others."""
    one = tags.get(PARTITION_NAME_TAG)
    return tagged_range(tags) if one is None else (date.fromisoformat(one),) * 2
