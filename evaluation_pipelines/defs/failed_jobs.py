"""Alerts of failed runs end when their job has had a good run since."""

from datetime import datetime

import dagster as dg

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import FAILED_RUN, run_of
from evaluation_pipelines.storage.ledger.ledger import Ledger

_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]
_MOST_RUNS = 100
"""Newest runs of a job that are looked at: runs of selected assets may be about others."""


def end_alerts_of_good_jobs(instance: dg.DagsterInstance, ledger: Ledger, now: datetime) -> None:
    """End the open alerts of failed runs whose job went well since, or whose run was deleted.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    alerts = [each for each in AlertStore(ledger).all() if each.ended_at is None]
    failed = [each.alert for each in alerts if each.alert.kind == FAILED_RUN]
    over = {each.cause for each in failed if _went_well_since(instance, run_of(each))}
    AlertStore(ledger).end(FAILED_RUN, over, now)


def _went_well_since(instance: dg.DagsterInstance, run_id: str | None) -> bool:
    failed = None if run_id is None else instance.get_run_by_id(run_id)
    if failed is None:
        return True
    ended = dg.RunsFilter(job_name=failed.job_name, statuses=_ENDED)
    newest_first = instance.get_runs(ended, limit=_MOST_RUNS)
    newest = next((each for each in newest_first if _does_all_of(each, failed)), failed)
    return newest.status == dg.DagsterRunStatus.SUCCESS


def _does_all_of(run: dg.DagsterRun, other: dg.DagsterRun) -> bool:
    """True if a run has all assets of another run of the same job; ``None`` are all of the job."""
    ours, theirs = run.asset_selection, other.asset_selection
    return ours is None or (theirs is not None and theirs <= ours)
