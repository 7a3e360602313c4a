"""Sensor that reports dates built in a terminal, so that the interface shows them as well."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from evaluation_pipelines.build.daily_tables import DAILY_TABLES
from evaluation_pipelines.defs.check_results import CheckResults, check_specs
from evaluation_pipelines.defs.daily_tables import NO_SESSIONS, materialization, stored_partition
from evaluation_pipelines.defs.judging.metadata import scores_metadata
from evaluation_pipelines.defs.partitions import is_partition
from evaluation_pipelines.defs.retention import retention
from evaluation_pipelines.defs.runs import is_unfinished, ranges_in_runs
from evaluation_pipelines.defs.scorecards.checks import profiles_are_calibrated
from evaluation_pipelines.defs.sessions.checks import scores_match_sessions
from evaluation_pipelines.defs.telemetry.checks import report_checks
from evaluation_pipelines.defs.telemetry.ingest import ingest_landing, landed_events
from evaluation_pipelines.defs.versions import LatestVersions
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    JUDGE_SCORES,
)
from evaluation_pipelines.storage.daily_table import Batch, DailyTable
from evaluation_pipelines.storage.ledger.expired_dates import expired_dates
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.stores import Stores

_JUDGED = next(each for each in DAILY_TABLES if each.table is JUDGE_SCORES)

_MAX_SECONDS, _MAX_CHECK_SECONDS = 25.0, 40.0
"""After these, no further date is reported or checked: Dagster ends a tick after a minute.

The newest dates come first; the others are reported by the next ticks.
"""

_DATES_TOGETHER = 10
"""Dates whose latest versions are looked up together."""

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
    if is_unfinished(instance, ingest_landing.name):
        return None  # any date may have landed that it has not reported yet
    in_runs = ranges_in_runs(instance)
    landed = {each.session_date for each in Manifest(stores.ledger).dates(AGENT_EVENTS_LANDED.name)}
    built = {each.table.name: set(stores.lake.partitions(each.table)) for each in DAILY_TABLES}
    quiet = _quiet_days(landed.union(*built.values()))
    unknown_landed = _unknown(instance, AGENT_EVENTS_LANDED.name, landed | quiet)
    unknown = {name: _unknown(instance, name, dates | quiet) for name, dates in built.items()}
    waiting = sorted(unknown_landed.union(*unknown.values()), reverse=True)
    # A run may have written partitions that it has not reported yet.
    free = [day for day in waiting if not any(first <= day <= last for first, last in in_runs)]
    days, due = list[date](), sorted(free, key=quiet.__contains__)
    while len(days) < len(due) and (not days or time.monotonic() - began <= _MAX_SECONDS):
        together = due[len(days) :][:_DATES_TOGETHER]
        _report(instance, stores, together, {AGENT_EVENTS_LANDED.name: unknown_landed, **unknown})
        days += together
    with_rows = [each for each in days if each not in quiet]
    checked = with_rows if due else _never_checked(instance, stores)
    for key, result in _check_results(stores, checked, began):
        instance.report_runless_asset_event(_evaluation(key, result))
    if days:
        report_checks(instance, stores)
    if len(days) < len(waiting):
        return None
    has_dates = bool(stores.lake.partitions(AGENT_SESSIONS))
    return dg.RunRequest("first look") if has_dates and _is_first_look(instance) else None


def _report(
    instance: dg.DagsterInstance,
    stores: Stores,
    days: Sequence[date],
    unknown: Mapping[str, set[date]],
) -> None:
    """Report dates table by table, each after its inputs, since its events refer to theirs."""
    for day in filter(unknown[AGENT_EVENTS_LANDED.name].__contains__, days):
        for event in landed_events(stores, day):
            instance.report_runless_asset_event(event)
    latest = LatestVersions(instance, days)
    for daily in DAILY_TABLES:
        for day in filter(unknown[daily.table.name].__contains__, days):
            instance.report_runless_asset_event(_event(stores, daily, day, latest))


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
    stores: Stores, daily: DailyTable, day: date, latest: LatestVersions
) -> dg.AssetMaterialization:
    """Return the event that a run would have logged."""
    columns = None if daily is _JUDGED else daily.preview
    built = stored_partition(stores, daily, day, columns)
    more = scores_metadata(built.frame) if daily is _JUDGED else {}
    why = "Built in a terminal." if stores.lake.parts(daily.table, [day]) else NO_SESSIONS
    return materialization(stores, daily, day, built, more, latest, why)
