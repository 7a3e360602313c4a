"""Sensor that reports dates built in a terminal, so that the interface shows them as well."""

from collections.abc import Iterable
from datetime import date

import dagster as dg

from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines.defs.check_results import CheckResults, check_specs
from evaluation_pipelines.defs.judging.metadata import scores_metadata
from evaluation_pipelines.defs.metadata import partition_metadata
from evaluation_pipelines.defs.page_links import page_link
from evaluation_pipelines.defs.partitions import is_partition
from evaluation_pipelines.defs.runs import UNFINISHED
from evaluation_pipelines.defs.telemetry.ingest import landed_events
from evaluation_pipelines.defs.versions import LatestVersions, parts_version, version_tags
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, JUDGE_SCORES
from evaluation_pipelines.storage.daily_table import BuiltPartition, DailyTable
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores

_JUDGED = next(each for each in DAILY_TABLES if each.table is JUDGE_SCORES)

_MAX_DATES = 31
"""Dates reported in one tick, which may take a minute; the newest dates are reported first."""


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reports dates that were built in a terminal and by no run.",
)
def terminal_builds_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.SkipReason | None:
    """Report each date of the lake that the instance does not know, table by table."""
    instance = context.instance
    # A run may have written partitions that it has not reported yet.
    if instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED)):
        return None
    landed = (each.session_date for each in Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name))
    unknown_landed = _unknown(instance, AGENT_EVENTS_LANDED.name, landed)
    unknown = {
        daily.table.name: _unknown(instance, daily.table.name, stores.lake.partitions(daily.table))
        for daily in DAILY_TABLES
    }
    days = sorted(unknown_landed.union(*unknown.values()))[-_MAX_DATES:]
    checks = CheckResults()
    for day in days:  # each table after its inputs, since its event refers to theirs
        for event in landed_events(stores, day) if day in unknown_landed else ():
            instance.report_runless_asset_event(event)
        for daily in DAILY_TABLES:
            if day in unknown[daily.table.name]:
                built = _built(stores, daily, day)
                instance.report_runless_asset_event(_event(instance, stores, daily, day, built))
                if built.checks:
                    checks.add_built(day, built)
    for key in (each.key for each in check_specs([_JUDGED])):
        for result in checks.asset_check_results([key]):
            instance.report_runless_asset_event(_evaluation(key, result))
    return dg.SkipReason(f"dates built in a terminal: {len(days)} reported") if days else None


def _unknown(instance: dg.DagsterInstance, asset: str, days: Iterable[date]) -> set[date]:
    """Return the partitions among ``days`` that the instance does not know."""
    known = instance.get_materialized_partitions(dg.AssetKey(asset))
    return {day for day in days if is_partition(day) and day.isoformat() not in known}


def _built(stores: Stores, daily: DailyTable, day: date) -> BuiltPartition:
    """Return a partition of the lake.

    Judge scores are few, and their metadata needs all columns, so that they are checked again. Of
    other tables a preview is read, and the results of their checks are not known.
    """
    is_judged = daily is _JUDGED
    rows = stores.lake.read(daily.table, [day], None if is_judged else daily.preview)
    checks = daily.checks if is_judged else ()
    return BuiltPartition(daily.table, rows, tuple(each(rows, daily.table) for each in checks))


def _evaluation(key: dg.AssetCheckKey, result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """Return the result of a check as an event without a run."""
    return dg.AssetCheckEvaluation(
        *(key.asset_key, key.name, result.passed, result.metadata),
        severity=result.severity,
        description=result.description,
    )


def _event(
    instance: dg.DagsterInstance,
    stores: Stores,
    daily: DailyTable,
    day: date,
    built: BuiltPartition,
) -> dg.AssetMaterialization:
    """Return the event that a run would have logged."""
    parts, path = stores.lake.parts(daily.table, [day]), stores.lake.place(daily.table, day)
    more = scores_metadata(built.frame) if daily is _JUDGED else {}
    page = page_link(stores.settings, daily.table, day)
    return dg.AssetMaterialization(
        daily.table.name,
        description="Built in a terminal.",
        partition=day.isoformat(),
        metadata={**partition_metadata(built, daily.preview, path), **page, **more},
        tags=version_tags(
            LatestVersions(instance, [day]),
            daily.code_version,
            parts_version(parts),
            daily.upstream,
            day,
        ),
    )
