"""State of the runs of a job."""

import time
from datetime import date

import dagster as dg

from evaluation_pipelines.defs.automation import NIGHT_RUN
from evaluation_pipelines.defs.partitions import tagged_dates, tagged_range

UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
"""Statuses of runs that were created and have not ended."""

SECONDS_AFTER_CANCELLATION = 600
CANCELED = (
    f"the last run was canceled: the next one waits {SECONDS_AFTER_CANCELLATION // 60} minutes, "
    "unless you start one. To stop for longer, switch this sensor off."
)


def is_unfinished(instance: dg.DagsterInstance, job_name: str) -> bool:
    """True if a run of a job was created and has not ended."""
    return instance.get_runs_count(dg.RunsFilter(job_name=job_name, statuses=UNFINISHED)) > 0


def ranges_in_runs(instance: dg.DagsterInstance) -> list[tuple[date, date]]:
    """Return the first and last date of each unfinished run over dates."""
    runs = instance.get_runs(dg.RunsFilter(statuses=UNFINISHED))
    return [dates for run in runs if (dates := tagged_dates(run.tags))]


def failed_recently(instance: dg.DagsterInstance, job_name: str, seconds: float) -> bool:
    """True if the last run of a job failed less than ``seconds`` ago: another would fail, too."""
    return _ended_recently(instance, job_name, dg.DagsterRunStatus.FAILURE, seconds)


def canceled_recently(instance: dg.DagsterInstance, job_name: str) -> bool:
    """True if the last run of a job was canceled a short time ago: it must not start again."""
    return _ended_recently(
        instance, job_name, dg.DagsterRunStatus.CANCELED, SECONDS_AFTER_CANCELLATION
    )


def is_nightly(run: dg.DagsterRun) -> bool:
    """True for a nightly run, whose steps report failures as alerts and let later steps go on."""
    return NIGHT_RUN.items() <= run.tags.items()


def last_date_done(instance: dg.DagsterInstance, job_name: str) -> date | None:
    """Return the last date of the last run of a job that succeeded; ``None`` if none has."""
    done = dg.RunsFilter(job_name=job_name, statuses=[dg.DagsterRunStatus.SUCCESS])
    for run in instance.get_runs(done, limit=1):
        if dates := tagged_range(run.tags):
            return dates[1]
    return None


def _ended_recently(
    instance: dg.DagsterInstance, job_name: str, status: dg.DagsterRunStatus, seconds: float
) -> bool:
    """True if the last run of a job ended in ``status`` less than ``seconds`` ago."""
    for record in instance.get_run_records(dg.RunsFilter(job_name=job_name), limit=1):
        is_so = record.dagster_run.status == status
        return is_so and time.time() - (record.end_time or 0) < seconds
    return False
