"""What sensors ask about the runs of a job."""

import time
from datetime import date

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG

from evaluation_pipelines.defs.automation import NIGHT_RUN

UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
"""Runs that are under way or will be."""

SECONDS_AFTER_CANCELLATION = 600
CANCELED = (
    f"the last run was cancelled: the next one waits {SECONDS_AFTER_CANCELLATION // 60} minutes, "
    "unless you start one. To stop for longer, switch this sensor off."
)


def is_under_way(instance: dg.DagsterInstance, job_name: str) -> bool:
    """Whether a run of a job is created and has not ended."""
    return instance.get_runs_count(dg.RunsFilter(job_name=job_name, statuses=UNFINISHED)) > 0


def failed_lately(instance: dg.DagsterInstance, job_name: str, seconds: float) -> bool:
    """Whether the last run of a job failed a short time ago: one more would likely fail too."""
    return _ended_lately(instance, job_name, dg.DagsterRunStatus.FAILURE, seconds)


def canceled_lately(instance: dg.DagsterInstance, job_name: str) -> bool:
    """Whoever cancels a run wants it to stop, not to begin again a moment later."""
    return _ended_lately(
        instance, job_name, dg.DagsterRunStatus.CANCELED, SECONDS_AFTER_CANCELLATION
    )


def is_of_the_night(run: dg.DagsterRun) -> bool:
    """Whether a run is the night's: what fails in it is told, and the rest goes on without it."""
    return NIGHT_RUN.items() <= run.tags.items()


def last_date_done(instance: dg.DagsterInstance, job_name: str) -> date | None:
    """Last date of the range of the last run of a job that succeeded; None when none has."""
    done = dg.RunsFilter(job_name=job_name, statuses=[dg.DagsterRunStatus.SUCCESS])
    for run in instance.get_runs(done, limit=1):
        if last := run.tags.get(ASSET_PARTITION_RANGE_END_TAG):
            return date.fromisoformat(last)
    return None


def _ended_lately(
    instance: dg.DagsterInstance, job_name: str, status: dg.DagsterRunStatus, seconds: float
) -> bool:
    """Whether the last run of a job ended so less than so many seconds ago."""
    for record in instance.get_run_records(dg.RunsFilter(job_name=job_name), limit=1):
        is_so = record.dagster_run.status == status
        return is_so and time.time() - (record.end_time or 0) < seconds
    return False
