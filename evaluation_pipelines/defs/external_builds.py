"""Sensor that reports dates built in a terminal, so that the interface shows them as well."""

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from evaluation_pipelines.build import DAILY_TABLES
from evaluation_pipelines.defs.automation import (
    DATA_VERSION_TAG,
    LAST,
    PART_TAG,
    LatestVersions,
    is_partition,
    landed_version,
    newest_part,
    parts_version,
)
from evaluation_pipelines.defs.daily_tables import (
    NO_SESSIONS,
    materialization,
    profiles_are_calibrated,
    stored_partition,
)
from evaluation_pipelines.defs.judging import scores_metadata
from evaluation_pipelines.defs.metadata import CheckResults, check_specs
from evaluation_pipelines.defs.night import retention
from evaluation_pipelines.defs.runs import is_unfinished, ranges_in_runs
from evaluation_pipelines.defs.sessions import scores_match_sessions
from evaluation_pipelines.defs.telemetry.ingest import ingest_landing, landed_events, report_checks
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    JUDGE_SCORES,
    SESSION_EVALUATIONS,
)
from evaluation_pipelines.storage.daily_table import Batch, DailyTable
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import expired_dates
from evaluation_pipelines.storage.parts import Part
from evaluation_pipelines.storage.stores import Stores

_JUDGED = next(table for table in DAILY_TABLES if table.table is JUDGE_SCORES)

_MAX_SECONDS, _MAX_CHECK_SECONDS = 25.0, 40.0
"""After these, no further date is reported or checked: Dagster ends a tick after a minute.

The newest dates come first; the others are reported by the next ticks.
"""

_DATES_TOGETHER = 31
"""Dates that are reported together, a table after the other: runs that follow have them all."""

_FOLLOWED = SESSION_EVALUATIONS.name
"""Table that runs of each date follow. Days without sessions between two dates are reported as
empty in it alone: these runs have one range of dates then, and not one for each gap."""

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
) -> dg.RunRequest | dg.SkipReason:
    """Report each date whose tables are not those of the newest event about it, table by table.

    When all are reported, what only nights evaluate is requested once, before the first night.
    """
    instance, began = context.instance, time.monotonic()
    if is_unfinished(instance, ingest_landing.name):
        # Any date may have landed that it has not reported yet.
        return dg.SkipReason("an ingest has not ended")
    looks, cursor = _Looks.of(stores), _Looks.read(context.cursor)
    if cursor.is_as(looks):
        return dg.SkipReason(cursor.says)
    unreported, quiet = _unreported(instance, stores, cursor.newest_part_id)
    waiting = sorted(set[date]().union(*unreported.values()), reverse=True)
    days = _report_free(instance, stores, waiting, unreported, began)
    with_rows = [day for day in days if day not in quiet]
    checked = with_rows if days else _never_checked(instance, stores)
    for key, result in _check_results(stores, checked, began):
        instance.report_runless_asset_event(_evaluation(key, result))
    if days:
        report_checks(instance, stores)
    if len(days) < len(waiting):
        return dg.SkipReason(f"{len(days)} of {len(waiting)} dates were reported, the rest waits")
    dates = len(stores.lake.partitions(AGENT_SESSIONS))
    if dates and _is_first_look(instance):
        return dg.RunRequest("first look", tags=LAST)
    if days or checked:
        return dg.SkipReason(f"{len(days)} dates were reported, {len(checked)} were checked")
    says = f"{dates} dates, nothing new since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    context.update_cursor(json.dumps(asdict(looks) | {"says": says}))
    return dg.SkipReason(says)


@dataclass(frozen=True, slots=True)
class _Looks:
    """What the lake looks like; the cursor has it of the time when nothing was left to do.

    Attributes:
        parts: Number of current parts, and the sum of their ids.
        newest_part_id: The largest of them.
        hour: Each hour dates are looked for that the instance no longer knows.
        says: What the ticks say until it looks different.
    """

    parts: tuple[int, ...] = ()
    newest_part_id: int = 0
    hour: int = 0
    says: str = ""

    @classmethod
    def of(cls, stores: Stores) -> "_Looks":
        *parts, newest_part_id = stores.lake.version()
        return cls(tuple(parts), newest_part_id, int(time.time() // 3600))

    @classmethod
    def read(cls, cursor: str | None) -> "_Looks":
        return cls() if cursor is None else cls(**json.loads(cursor))

    def is_as(self, other: "_Looks") -> bool:
        return replace(self, parts=tuple(self.parts), says="") == other


def _report_free(
    instance: dg.DagsterInstance,
    stores: Stores,
    waiting: Sequence[date],
    unreported: Mapping[str, set[date]],
    began: float,
) -> list[date]:
    """Report the dates that no run is about, as many as the time allows; return them."""
    # A run may have written partitions that it has not reported yet.
    in_runs = ranges_in_runs(instance)
    due = [day for day in waiting if not any(first <= day <= last for first, last in in_runs)]
    days = list[date]()
    while len(days) < len(due) and (not days or time.monotonic() - began <= _MAX_SECONDS):
        together = due[len(days) :][:_DATES_TOGETHER]
        _report(instance, stores, together, unreported)
        days += together
    return days


def _unreported(
    instance: dg.DagsterInstance, stores: Stores, seen_part_id: int
) -> tuple[dict[str, set[date]], set[date]]:
    """Return the dates to report of each table, and which of all dates have no telemetry.

    Of dates that the instance knows only those are looked at that have parts after
    ``seen_part_id``: to read an event takes a millisecond.
    """
    manifest = Manifest(stores.ledger)
    names = (AGENT_EVENTS_LANDED.name, *(table.table.name for table in DAILY_TABLES))
    parts = {name: _by_date(manifest, name) for name in names}
    quiet = _quiet_days(set[date]().union(*parts.values()))
    # What expired is rewritten by nights, and not built again.
    expired, found = expired_dates(stores.ledger).keys(), dict[str, set[date]]()
    for name, of_dates in parts.items():
        known = instance.get_materialized_partitions(dg.AssetKey(name))
        days = set(filter(is_partition, quiet.union(of_dates) if name == _FOLLOWED else of_dates))
        found[name] = {day for day in days if str(day) not in known}
        changed = {
            str(day): of_dates[day]
            for day in (days - found[name] - expired).intersection(of_dates)
            if int(newest_part(of_dates[day])) > seen_part_id
        }
        told = _tags(instance, dg.AssetKey(name), changed.keys())
        found[name] |= {
            date.fromisoformat(day)
            for day, now in changed.items()
            if not _has_parts(told.get(day, {}), name, now)
        }
    return found, quiet


def _has_parts(tags: Mapping[str, str], name: str, parts: Sequence[Part]) -> bool:
    """Return whether the tags of an event about a partition tell the parts that it has."""
    if name == AGENT_EVENTS_LANDED.name:
        return tags.get(DATA_VERSION_TAG) == landed_version(sum(part.row_count for part in parts))
    if PART_TAG in tags:
        return tags[PART_TAG] == newest_part(parts)
    # Of an earlier version of this program, which told the content alone.
    return tags.get(DATA_VERSION_TAG) == parts_version(parts)


def _tags(
    instance: dg.DagsterInstance, key: dg.AssetKey, days: Collection[str]
) -> dict[str, Mapping[str, str]]:
    """Return the tags of the newest event about each partition."""
    if not days:
        return {}
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    ids = instance.event_log_storage.get_latest_storage_id_by_partition(key, kind, {*days})
    newest = dg.AssetRecordsFilter(key, storage_ids=list(ids.values()))
    records = instance.fetch_materializations(newest, limit=len(ids)).records
    found = (record.asset_materialization for record in records)
    return {
        str(materialization.partition): materialization.tags or {}
        for materialization in found
        if materialization is not None
    }


def _by_date(manifest: Manifest, table_name: str) -> dict[date, list[Part]]:
    found: dict[date, list[Part]] = {}
    for part in manifest.all_current(table_name):
        if part.session_date is not None:
            found.setdefault(part.session_date, []).append(part)
    return found


def _report(
    instance: dg.DagsterInstance,
    stores: Stores,
    days: Sequence[date],
    unreported: Mapping[str, set[date]],
) -> None:
    """Report dates table by table, each after its inputs, since its events refer to theirs."""
    for day in filter(unreported[AGENT_EVENTS_LANDED.name].__contains__, days):
        for event in landed_events(stores, day):
            instance.report_runless_asset_event(event)
    latest = LatestVersions(instance, days)
    for daily in DAILY_TABLES:
        for day in filter(unreported[daily.table.name].__contains__, days):
            instance.report_runless_asset_event(_event(stores, daily, day, latest))


def _is_first_look(instance: dg.DagsterInstance) -> bool:
    """Return whether anything of ``first_look`` has never run: a night may have done a part."""
    keys = [definition.check_key for definition in (scores_match_sessions, profiles_are_calibrated)]
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


def _never_checked(instance: dg.DagsterInstance, stores: Stores) -> list[date]:
    """Return the newest dates if a check of their tables was never evaluated.

    The tick that reported them may have been ended by Dagster, on a busy machine.
    """
    newest = stores.lake.partitions(AGENT_SESSIONS)[: -_CHECKED_DATES - 1 : -1]
    days = [day for day in newest if is_partition(day) and _is_checkable(stores, day)]
    tables = [table for table in DAILY_TABLES if days and stores.lake.parts(table.table, days)]
    keys = [spec.key for spec in check_specs(tables)]
    evaluated = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return days if len(evaluated) < len(keys) else []


def _is_checkable(stores: Stores, day: date) -> bool:
    events = sum(part.row_count for part in stores.lake.parts(AGENT_EVENTS, [day]))
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
    for key in (spec.key for spec in check_specs(DAILY_TABLES)):
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
