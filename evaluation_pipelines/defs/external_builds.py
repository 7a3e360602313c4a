"""Sensor that reports dates built in a terminal, so that the interface shows them as well."""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines.defs.check_results import CheckResults, check_specs
from evaluation_pipelines.defs.judging.metadata import scores_metadata
from evaluation_pipelines.defs.metadata import partition_metadata
from evaluation_pipelines.defs.page_links import page_link
from evaluation_pipelines.defs.partitions import is_partition
from evaluation_pipelines.defs.retention import retention
from evaluation_pipelines.defs.runs import UNFINISHED
from evaluation_pipelines.defs.scorecards.checks import profiles_are_calibrated
from evaluation_pipelines.defs.sessions.checks import scores_match_sessions
from evaluation_pipelines.defs.telemetry.checks import report_checks
from evaluation_pipelines.defs.telemetry.ingest import landed_events
from evaluation_pipelines.defs.versions import LatestVersions, parts_version, version_tags
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    JUDGE_SCORES,
)
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition, DailyTable
from evaluation_pipelines.storage.ledger.expired_dates import expired_dates
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores

_JUDGED = next(each for each in DAILY_TABLES if each.table is JUDGE_SCORES)

_MAX_SECONDS, _MAX_CHECK_SECONDS = 25.0, 40.0
"""After these, no further date is reported or checked: Dagster ends a tick after a minute.

The newest dates come first; the others are reported by the next ticks.
"""

_CHECKED_DATES = 3
_MAX_CHECKED_EVENTS = 20_000
"""Dates of a tick whose tables are checked, and their events: that takes as long as to build."""

first_look_job = dg.define_asset_job(
    "first_look",
    selection=dg.AssetSelection.assets(retention)
    | dg.AssetSelection.checks(scores_match_sessions, profiles_are_calibrated),
    description="What else the first night does, as soon as there are sessions.",
)


@dg.sensor(
    job=first_look_job,
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reports dates that were built in a terminal and by no run.",
)
def terminal_builds_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.RunRequest | None:
    """Report each date of the lake that the instance does not know, table by table.

    A day without sessions between two dates with sessions is reported as empty, not left missing.
    When all are reported, what only nights evaluate is requested once, before the first night.
    """
    instance, began = context.instance, time.monotonic()
    # A run may have written partitions that it has not reported yet.
    if instance.get_runs_count(dg.RunsFilter(statuses=UNFINISHED)):
        return None
    landed = {each.session_date for each in Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name)}
    built = {each.table.name: set(stores.lake.partitions(each.table)) for each in DAILY_TABLES}
    quiet = _quiet_days(landed.union(*built.values()))
    unknown_landed = _unknown(instance, AGENT_EVENTS_LANDED.name, landed | quiet)
    unknown = {name: _unknown(instance, name, dates | quiet) for name, dates in built.items()}
    waiting = sorted(unknown_landed.union(*unknown.values()), reverse=True)
    days, due = list[date](), sorted(waiting, key=quiet.__contains__)
    for day in due:
        if days and time.monotonic() - began > _MAX_SECONDS:
            break
        days.append(day)
        for event in landed_events(stores, day) if day in unknown_landed else ():
            instance.report_runless_asset_event(event)
        for daily in DAILY_TABLES:  # each after its inputs, since its event refers to theirs
            if day in unknown[daily.table.name]:
                event = _event(instance, stores, daily, day)
                instance.report_runless_asset_event(event)
    with_rows = [each for each in days if each not in quiet]
    checked = with_rows if due else _never_checked(instance, stores)
    for key, result in _check_results(stores, checked, began):
        instance.report_runless_asset_event(_evaluation(key, result))
    if days:
        report_checks(instance, stores)
    if len(days) < len(due):
        return None
    has_dates = bool(stores.lake.partitions(AGENT_SESSIONS))
    return dg.RunRequest("first look") if has_dates and _is_first_look(instance) else None


def _is_first_look(instance: dg.DagsterInstance) -> bool:
    """Return whether anything of ``first_look`` has never run: a night may have done a part."""
    keys = [each.check_key for each in (scores_match_sessions, profiles_are_calibrated)]
    evaluated = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    is_made = instance.get_latest_materialization_event(retention.key) is not None
    return not is_made or len(evaluated) < len(keys)


def _quiet_days(dates: set[date]) -> set[date]:
    """Return the days between dates with telemetry that have none; all are partitions."""
    dates = set(filter(is_partition, dates))
    if not dates:
        return set()
    first, last = min(dates), max(dates)
    every = (first + timedelta(days=number) for number in range((last - first).days))
    return set(every) - dates


def _unknown(instance: dg.DagsterInstance, asset: str, days: Iterable[date]) -> set[date]:
    """Return the partitions among ``days`` that the instance does not know."""
    known = instance.get_materialized_partitions(dg.AssetKey(asset))
    return {day for day in days if is_partition(day) and day.isoformat() not in known}


def _built(stores: Stores, daily: DailyTable, day: date) -> BuiltPartition:
    """Return a partition of the lake: a preview; for the metadata of judge scores all columns."""
    rows = stores.lake.read(daily.table, [day], None if daily is _JUDGED else daily.preview)
    return BuiltPartition(daily.table, rows, ())


def _never_checked(instance: dg.DagsterInstance, stores: Stores) -> list[date]:
    """Return the newest dates if a check of their tables was never evaluated.

    The tick that reported them may have been ended by Dagster, on a busy machine.
    """
    newest = stores.lake.partitions(AGENT_SESSIONS)[: -_CHECKED_DATES - 1 : -1]
    days = [day for day in newest if is_partition(day) and _is_checkable(stores, day)]
    tables = [each for each in DAILY_TABLES if days and stores.lake.parts(each.table, days)]
    keys = [each.key for each in check_specs(tables)]
    evaluated = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return days if len(evaluated) < len(keys) else []


def _is_checkable(stores: Stores, day: date) -> bool:
    events = sum(each.row_count for each in stores.lake.parts(AGENT_EVENTS, [day]))
    return events <= _MAX_CHECKED_EVENTS and day not in expired_dates(stores.ledger)


def _check_results(
    stores: Stores, days: Sequence[date], began: float
) -> Iterator[tuple[dg.AssetCheckKey, dg.AssetCheckResult]]:
    """Yield the results of the checks on the newest dates, of a tick that began at a time.

    A check compares tables while they are made: they are made again, and nothing is written.
    """
    checks = CheckResults()
    for day in days[:_CHECKED_DATES]:
        if time.monotonic() - began > _MAX_CHECK_SECONDS:
            break
        if not _is_checkable(stores, day):
            continue
        batch = Batch(stores, [day], datetime.now(UTC), is_small=True)
        for daily in DAILY_TABLES:
            if stores.lake.parts(daily.table, [day]):
                checks.add_built(day, daily.make(batch)[day])
    for key in (each.key for each in check_specs(DAILY_TABLES)):
        yield from ((key, result) for result in checks.asset_check_results([key]))


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
) -> dg.AssetMaterialization:
    """Return the event that a run would have logged."""
    built = _built(stores, daily, day)
    parts, path = stores.lake.parts(daily.table, [day]), stores.lake.place(daily.table, day)
    more = scores_metadata(built.frame) if daily is _JUDGED else {}
    page = page_link(stores.settings, daily.table, day)
    return dg.AssetMaterialization(
        daily.table.name,
        description="Built in a terminal." if parts else "No session began on this day.",
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
