"""Alerts of failed runs end when good runs since have done what the failed one was to do."""

from collections.abc import Collection, Mapping
from datetime import date, datetime, timedelta

import dagster as dg

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import FAILED_RUN, RaisedAlert, run_of
from evaluation_pipelines.defs.partitions import tagged_dates
from evaluation_pipelines.storage.ledger.ledger import Ledger

_MOST_RUNS = 100
"""Newest good runs of a job that are looked at."""
_UNKNOWN_FOR = timedelta(days=1)
"""A run may be unknown here and known to another instance of Dagster with the same ledger."""


def end_alerts_of_good_jobs(instance: dg.DagsterInstance, ledger: Ledger, now: datetime) -> None:
    """End the open alerts of failed runs whose work was done since, or that were deleted.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    raised = [each for each in AlertStore(ledger).all() if each.ended_at is None]
    failed = [each for each in raised if each.alert.kind == FAILED_RUN]
    over = {each.alert.cause for each in failed if _is_over(instance, each, now)}
    AlertStore(ledger).end(FAILED_RUN, over, now)


def _is_over(instance: dg.DagsterInstance, raised: RaisedAlert, now: datetime) -> bool:
    run_id = run_of(raised.alert)
    failed = None if run_id is None else instance.get_run_record_by_id(run_id)
    if failed is None:
        return raised.raised_at < now - _UNKNOWN_FOR
    job = failed.dagster_run.job_name
    good = dg.RunsFilter(job_name=job, statuses=[dg.DagsterRunStatus.SUCCESS])
    since = [
        each.dagster_run
        for each in instance.get_run_records(good, limit=_MOST_RUNS)
        if (each.end_time or 0) > (failed.end_time or 0)
    ]
    return _is_done_by(since, failed.dagster_run)


def _is_done_by(runs: Collection[dg.DagsterRun], failed: dg.DagsterRun) -> bool:
    """True if there are runs with all assets and checks of a failed one, of all of its dates."""
    whole = [each for each in runs if _has_all_of(each, failed)]
    done = {day for each in whole for day in _dates_of(each.tags)}
    return bool(whole) and done.issuperset(_dates_of(failed.tags))


def _has_all_of(run: dg.DagsterRun, other: dg.DagsterRun) -> bool:
    """Compare what two runs of a job select; ``None`` is everything."""
    pairs = (
        (run.asset_selection, other.asset_selection),
        (run.asset_check_selection, other.asset_check_selection),
    )
    return all(ours is None or (theirs is not None and theirs <= ours) for ours, theirs in pairs)


def _dates_of(tags: Mapping[str, str]) -> set[date]:
    dates = tagged_dates(tags)
    if dates is None:
        return set()
    first, last = dates
    return {first + timedelta(days=each) for each in range((last - first).days + 1)}
