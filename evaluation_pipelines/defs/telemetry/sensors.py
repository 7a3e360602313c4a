"""Sensors: telemetry that landed starts an ingest, dates that got new events start a build."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
)

from evaluation_pipelines.alerts.domain.messages import of_parked_date
from evaluation_pipelines.alerts.send import alert
from evaluation_pipelines.build.build import note_failed_run
from evaluation_pipelines.defs.daily_tables import daily_tables_job
from evaluation_pipelines.defs.partitions import is_partition
from evaluation_pipelines.defs.runs import CANCELED, canceled_lately, failed_lately, is_under_way
from evaluation_pipelines.defs.telemetry.ingest import ingest_landing
from evaluation_pipelines.storage.ledger.rebuild_queue import (
    QueuedDate,
    RebuildQueue,
    ScheduledRebuilds,
)
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.unread_files import find_unread_files, holds_complete_line

_SECONDS_AFTER_FAILURE = 60


@dg.sensor(
    job=ingest_landing,
    minimum_interval_seconds=10,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts an ingest when a complete line lies unread in the landing folder.",
)
def otel_landing_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.SensorResult | dg.SkipReason | None:
    """At most one ingest at a time; the cursor remembers which files hold no complete line yet."""
    job = ingest_landing.name
    if is_under_way(context.instance, job) or failed_lately(
        context.instance, job, _SECONDS_AFTER_FAILURE
    ):
        return None
    if canceled_lately(context.instance, job):
        return dg.SkipReason(CANCELED)
    looked_at: dict[str, int] = json.loads(context.cursor or "{}")
    incomplete: dict[str, int] = {}
    for arrival in find_unread_files(stores)[0]:
        key = f"{arrival.file.device}-{arrival.file.inode}-{arrival.position}"
        size = arrival.file.size_bytes
        if looked_at.get(key) != size and holds_complete_line(stores, arrival):
            return dg.SensorResult(run_requests=[dg.RunRequest()])
        incomplete[key] = size
    return dg.SensorResult(cursor=json.dumps(incomplete))


@dg.sensor(
    job=daily_tables_job,
    minimum_interval_seconds=5,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts a build of the dates that got new events, one contiguous stretch at once.",
)
def touched_dates_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.RunRequest | dg.SkipReason | None:
    """At most one build at a time; the stretch that has waited longest comes first."""
    if is_under_way(context.instance, daily_tables_job.name):
        return None
    if canceled_lately(context.instance, daily_tables_job.name):
        return dg.SkipReason(CANCELED)
    now = datetime.now(UTC)
    ScheduledRebuilds(stores.ledger).wake(now)
    pending = RebuildQueue(stores.ledger).pending(now)
    outside = [each.session_date for each in pending if not is_partition(each.session_date)]
    due = [each for each in pending if is_partition(each.session_date)]
    if not due:
        # One unknown key would spoil the whole tick: such dates wait, and are named.
        dates = ", ".join(map(str, outside))
        return dg.SkipReason(f"not in the range of partitions: {dates}") if outside else None
    first, last = _longest_waiting(due)
    tags = {
        ASSET_PARTITION_RANGE_START_TAG: first.isoformat(),
        ASSET_PARTITION_RANGE_END_TAG: last.isoformat(),
    }
    return dg.RunRequest(tags=tags)


@dg.run_failure_sensor(
    monitored_jobs=[daily_tables_job],
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Notes the dates of a build whose process died, so that they are not tried for "
    "ever.",
)
def failed_build_sensor(
    context: dg.RunFailureSensorContext, stores: dg.ResourceParam[Stores]
) -> None:
    """A build notes its own failures; this one notes what a killed process could not."""
    tags = context.dagster_run.tags
    if ASSET_PARTITION_RANGE_START_TAG not in tags or noted_its_dates(context):
        return
    first = date.fromisoformat(tags[ASSET_PARTITION_RANGE_START_TAG])
    last = date.fromisoformat(tags[ASSET_PARTITION_RANGE_END_TAG])
    reason = f"run {context.dagster_run.run_id} failed: {context.failure_event.message}"
    began = _began(context.instance, context.dagster_run.run_id)
    now = datetime.now(UTC)
    for each in note_failed_run(stores, first, last, began, reason, now):
        if each.parked:
            alert(
                stores, of_parked_date(each.session_date, each.attempts, reason), now, context.log
            )


def stretches(touched: Sequence[QueuedDate]) -> list[list[QueuedDate]]:
    """Runs of consecutive dates; a date that has failed before stands alone."""
    found: list[list[QueuedDate]] = []
    for each in sorted(touched, key=lambda one: one.session_date):
        before = found[-1][-1] if found else None
        if (
            before is not None
            and before.session_date + timedelta(days=1) == each.session_date
            and before.attempts == each.attempts == 0
        ):
            found[-1].append(each)
        else:
            found.append([each])
    return found


def _longest_waiting(due: Sequence[QueuedDate]) -> tuple[date, date]:
    stretch = min(stretches(due), key=lambda dates: min(each.touched_at for each in dates))
    return stretch[0].session_date, stretch[-1].session_date


def noted_its_dates(context: dg.RunFailureSensorContext) -> bool:
    """Whether a run is a build that failed in order, which it does after it noted every date."""
    if context.dagster_run.job_name != daily_tables_job.name:
        return False
    steps = context.get_step_failure_events()
    return any(each.step_failure_data.user_failure_data is not None for each in steps)


def _began(instance: dg.DagsterInstance, run_id: str) -> datetime:
    """When a run started, or was created if its process never came to life."""
    (record,) = instance.get_run_records(dg.RunsFilter(run_ids=[run_id]))
    created = record.create_timestamp
    return datetime.fromtimestamp(record.start_time, UTC) if record.start_time else created
