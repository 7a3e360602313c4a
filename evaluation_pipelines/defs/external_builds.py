"""Dates that were built without Dagster, in a terminal: it is told of them, to show them too."""

from collections.abc import Iterable
from datetime import date

import dagster as dg

from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines.defs.judging.metadata import scores_metadata
from evaluation_pipelines.defs.metadata import partition_metadata
from evaluation_pipelines.defs.partitions import is_partition
from evaluation_pipelines.defs.runs import UNFINISHED
from evaluation_pipelines.defs.telemetry.ingest import landed_reports
from evaluation_pipelines.defs.versions import LastReports, file_version, version_tags
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, JUDGE_SCORES
from evaluation_pipelines.storage.daily_table import BuiltPartition, DailyTable
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.manifest import Manifest

_DATES_AT_ONCE = 31
"""A tick has a minute; the newest dates come first, the others with the next ticks."""


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Tells of dates that were built in a terminal and that no run has ever made.",
)
def terminal_builds_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.SkipReason | None:
    """Report each date that lies in the lake and is unknown to the instance, table by table."""
    instance = context.instance
    # What a run has written and not reported yet is no discovery.
    if instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED)):
        return None
    landed = (each.session_date for each in Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name))
    unseen_landed = _unseen(instance, AGENT_EVENTS_LANDED.name, landed)
    unseen = {
        daily.table.name: _unseen(instance, daily.table.name, stores.lake.partitions(daily.table))
        for daily in DAILY_TABLES
    }
    days = sorted(unseen_landed.union(*unseen.values()))[-_DATES_AT_ONCE:]
    for day in days:  # each table after those it is made from, whose report it refers to
        for event in landed_reports(stores, day) if day in unseen_landed else ():
            instance.report_runless_asset_event(event)
        for daily in DAILY_TABLES:
            if day in unseen[daily.table.name]:
                instance.report_runless_asset_event(_report(instance, stores, daily, day))
    return dg.SkipReason(f"dates built in a terminal: {len(days)} told of") if days else None


def _unseen(instance: dg.DagsterInstance, asset: str, days: Iterable[date]) -> set[date]:
    """Those of the days that the instance has never heard of."""
    seen = instance.get_materialized_partitions(dg.AssetKey(asset))
    return {day for day in days if is_partition(day) and day.isoformat() not in seen}


def _report(
    instance: dg.DagsterInstance, stores: Stores, daily: DailyTable, day: date
) -> dg.AssetMaterialization:
    """What a run would have said of a partition; the rules it was held to are not known here."""
    paths, place = stores.lake.files(daily.table, day), stores.lake.place(daily.table, day)
    # A judge's scores are few, and what they cost is worth knowing; of other tables rows do.
    is_judged = daily.table is JUDGE_SCORES
    columns = None if is_judged else daily.preview
    made = BuiltPartition(daily.table, stores.lake.read(daily.table, [day], columns), rules=())
    more = scores_metadata(made.frame) if is_judged else {}
    return dg.AssetMaterialization(
        daily.table.name,
        description="Built in a terminal.",
        partition=day.isoformat(),
        metadata={**partition_metadata(made, daily.preview, place), **more},
        tags=version_tags(
            LastReports(instance, [day]),
            daily.code_version,
            file_version(paths),
            daily.upstream,
            day,
        ),
    )
