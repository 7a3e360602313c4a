"""Sensors that start an ingest for unread files, and a build for queued dates."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from time import time

import dagster as dg

from evaluation_pipelines.defs.automation import (
    EVERY_5_SECONDS,
    EVERY_10_SECONDS,
    FIRST,
    ONLY_DUE,
    is_partition,
    range_tags,
    tagged_range,
)
from evaluation_pipelines.defs.daily_tables import daily_tables_job
from evaluation_pipelines.defs.runs import (
    CANCELED,
    canceled_recently,
    failed_recently,
    is_unfinished,
)
from evaluation_pipelines.defs.telemetry.ingest import ingest_landing
from evaluation_pipelines.people.identity_store import identities_fingerprint, sync_identities
from evaluation_pipelines.profiles.sync import files_fingerprint, sync_profiles
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.rebuild_queue import (
    QueuedDate,
    RebuildQueue,
    ScheduledRebuilds,
)
from evaluation_pipelines.storage.lock import KEEP_CURRENT, holders
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFiles
from evaluation_pipelines.telemetry.otel_logs import look_at_rows
from evaluation_pipelines.telemetry.unread_files import find_unread_files, has_complete_line

_SECONDS_AFTER_FAILURE = 60


@dg.sensor(
    job=ingest_landing,
    minimum_interval_seconds=EVERY_10_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts an ingest when the landing folder has an unread complete line.",
)
def otel_landing_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.SensorResult | dg.SkipReason:
    """Request one ingest at a time.

    The cursor has the files without a complete unread line (``incomplete``), and what the folder
    and the ledger looked like when nothing else was unread (``seen``), with what the ticks say
    while they look the same (``says``).
    """
    if (why_not := _why_no_ingest(context.instance) or _kept_current(stores)) is not None:
        return dg.SkipReason(why_not)
    cursor = json.loads(context.cursor or "{}")
    # Taken before the files are listed: the next tick sees later changes.
    # Each hour all files are listed: an incomplete line is read when its file no longer grows.
    hour = int(time() // 3600)
    looks = [stores.landing.fingerprint(), *SourceFiles(stores.ledger).progress(), hour]
    if cursor.get("seen") == looks:
        return dg.SkipReason(cursor.get("says", "nothing new"))
    checked: dict[str, int] = cursor.get("incomplete", {})
    incomplete: dict[str, int] = {}
    for unread in find_unread_files(stores, in_order=False)[0]:
        key = f"{unread.file.device}-{unread.file.inode}-{unread.position}-{unread.is_final}"
        size = unread.file.size_bytes
        if checked.get(key) != size and has_complete_line(stores, unread):
            return dg.SensorResult(run_requests=[dg.RunRequest(tags=FIRST)])
        incomplete[key] = size
    files = len(SourceFiles(stores.ledger).last_seen())
    says = f"files read: {files}, nothing new since {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    if incomplete:
        says += f", {len(incomplete)} end without a complete line"
    return dg.SensorResult(
        cursor=json.dumps({"incomplete": incomplete, "seen": looks, "says": says}),
        skip_reason=dg.SkipReason(says),
    )


def _why_no_ingest(instance: dg.DagsterInstance) -> str | None:
    """Return why no ingest may start now; ``None`` if one may."""
    job = ingest_landing.name
    if is_unfinished(instance, job):
        return "an ingest has not ended"
    if failed_recently(instance, job, _SECONDS_AFTER_FAILURE):
        return "the last ingest failed less than a minute ago"
    return CANCELED if canceled_recently(instance, job) else None


def _kept_current(stores: Stores) -> str | None:
    """Return the service that already reads and builds, so that no run has to; else ``None``."""
    found = (holder for holder in holders(stores.ledger) if holder.name == KEEP_CURRENT)
    keeper = next(found, None)
    if keeper is None:
        return None
    return f"a service does it: process {keeper.process_id} on {keeper.host}"


@dg.sensor(
    job=ingest_landing,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts an ingest when the table of EVAL_OTEL_LOGS_DSN has new rows.",
)
def otel_logs_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.SensorResult | dg.SkipReason:
    """Request an ingest if the table has changed since the cursor, or the last ingest failed."""
    if stores.settings.otel_logs_dsn is None:
        return dg.SkipReason("EVAL_OTEL_LOGS_DSN is not set")
    if (why_not := _why_no_ingest(context.instance) or _kept_current(stores)) is not None:
        return dg.SkipReason(why_not)
    looks = look_at_rows(stores)
    failed = failed_recently(context.instance, ingest_landing.name, math.inf)
    if context.cursor == looks and not failed:
        return dg.SkipReason(f"{looks}, all were read")
    return dg.SensorResult(run_requests=[dg.RunRequest(tags=FIRST)], cursor=looks)


@dg.sensor(
    job=daily_tables_job,
    minimum_interval_seconds=EVERY_5_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts a build of dates with new events, one range of consecutive dates per run.",
)
def touched_dates_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.RunRequest | dg.SkipReason:
    """Request one build at a time, of the range that has waited longest."""
    if (who := _kept_current(stores)) is not None:
        return dg.SkipReason(who)
    if is_unfinished(context.instance, daily_tables_job.name):
        return dg.SkipReason("a build has not ended")
    if canceled_recently(context.instance, daily_tables_job.name):
        return dg.SkipReason(CANCELED)
    now = datetime.now(UTC)
    ScheduledRebuilds(stores.ledger).wake(now)
    _sync_changed_files(context, stores, now)
    pending = RebuildQueue(stores.ledger).pending(now)
    outside = [
        queued_date.session_date
        for queued_date in pending
        if not is_partition(queued_date.session_date)
    ]
    due = [queued_date for queued_date in pending if is_partition(queued_date.session_date)]
    if not due:
        # A request for an unknown partition fails the whole tick: such dates are only named.
        dates = ", ".join(map(str, outside))
        says = f"not in the range of partitions: {dates}" if outside else _none_due(stores)
        return dg.SkipReason(says)
    return dg.RunRequest(tags=range_tags(*_longest_waiting(due)) | FIRST | ONLY_DUE)


def _none_due(stores: Stores) -> str:
    """Return how many dates are built, waiting or parked."""
    dates = RebuildQueue(stores.ledger).all()
    built = sum(queued_date.is_built for queued_date in dates)
    parked = sum(queued_date.parked for queued_date in dates)
    says = f"{built:,} dates are built, nothing is due"
    if later := len(dates) - built - parked:
        says += f", {later:,} wait for their time"
    return says + (f", {parked:,} stopped retrying" if parked else "")


def _sync_changed_files(context: dg.SensorEvaluationContext, stores: Stores, now: datetime) -> None:
    """Register changed profiles and identities; the cursor has the previous files' fingerprint.

    If that fails, for example because of a damaged part, dates are built anyway.
    """
    settings = stores.settings
    profiles = files_fingerprint(settings.profiles_dir)
    seen = f"{profiles} {identities_fingerprint(settings.identities_path)}"
    if seen == context.cursor:
        return
    try:
        for fault in sync_profiles(stores, now).faults:
            context.log.warning(fault)
        if identities_fault := sync_identities(stores, now).fault:
            context.log.warning(identities_fault)
        context.update_cursor(seen)
    except LakeError as error:
        context.log.warning("Judge profiles or identities cannot be registered now: %s", error)


@dg.run_failure_sensor(
    monitored_jobs=[daily_tables_job],
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Records a failed attempt for the dates of a build whose process died, so that "
    "they are not retried forever.",
)
def failed_build_sensor(
    context: dg.RunFailureSensorContext, stores: dg.ResourceParam[Stores]
) -> None:
    """Record the failures that a killed process could not record itself."""
    dates = tagged_range(context.dagster_run.tags)
    if dates is None or has_recorded_failures(context):
        return
    reason = f"run {context.dagster_run.run_id} failed: {context.failure_event.message}"
    began = _start_time(context.instance, context.dagster_run.run_id)
    RebuildQueue(stores.ledger).mark_run_failed(*dates, began, reason, datetime.now(UTC))


def _date_ranges(queued: Sequence[QueuedDate]) -> list[list[QueuedDate]]:
    """Return ranges of consecutive dates; a date that has failed is a range of its own."""
    found: list[list[QueuedDate]] = []
    for queued_date in sorted(queued, key=lambda queued_date: queued_date.session_date):
        before = found[-1][-1] if found else None
        if (
            before is not None
            and before.session_date + timedelta(days=1) == queued_date.session_date
            and before.attempts == queued_date.attempts == 0
        ):
            found[-1].append(queued_date)
        else:
            found.append([queued_date])
    return found


def _longest_waiting(due: Sequence[QueuedDate]) -> tuple[date, date]:
    longest = min(
        _date_ranges(due), key=lambda dates: min(queued_date.touched_at for queued_date in dates)
    )
    return longest[0].session_date, longest[-1].session_date


def has_recorded_failures(context: dg.RunFailureSensorContext) -> bool:
    """True for a build that raised ``dg.Failure``, which it does after recording its failures."""
    if context.dagster_run.job_name != daily_tables_job.name:
        return False
    steps = context.get_step_failure_events()
    return any(step.step_failure_data.user_failure_data is not None for step in steps)


def _start_time(instance: dg.DagsterInstance, run_id: str) -> datetime:
    """Return when a run started, or was created if its process never started."""
    (record,) = instance.get_run_records(dg.RunsFilter(run_ids=[run_id]))
    created = record.create_timestamp
    return datetime.fromtimestamp(record.start_time, UTC) if record.start_time else created
