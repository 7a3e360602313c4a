"""Batches of the judge: a sensor polls them, and a job collects those that have ended."""

import dagster as dg

from evaluation_pipelines.defs.automation import LAST, NIGHTLY_EVALUATION
from evaluation_pipelines.defs.check_results import CheckResults
from evaluation_pipelines.defs.judging.assets import judge_due_job, publish, report_run
from evaluation_pipelines.defs.judging.config import PATIENCE_S
from evaluation_pipelines.defs.judging.event_log import EventLog
from evaluation_pipelines.defs.runs import (
    CANCELED,
    LoggedProgress,
    canceled_recently,
    failed_recently,
    is_unfinished,
)
from evaluation_pipelines.judging.batch.collect import has_work
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.run import RunRequest, judge, utc_now
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.storage.stores import Stores

_SECONDS_AFTER_FAILURE = 600


@dg.op(pool="judge")
def collect_batches(context: dg.OpExecutionContext, stores: dg.ResourceParam[Stores]) -> None:
    """Store the results of batches that have ended, and send the next turns of their sessions."""
    events = EventLog(context.log, ScoreStore(stores.ledger))
    progress = LoggedProgress(context.log, events)
    request = RunRequest(context.run_id, patience_s=PATIENCE_S, only_continue=True)
    report = judge(stores, request, stores.lake.partitions(AGENT_SESSIONS), progress=progress)
    events()
    report_run(context, report)
    failed = publish(context, stores, sorted(report.dates), report, CheckResults())
    problems = [f"{each.session_date} was not written: {each.error}" for each in failed]
    problems += [] if report.stop_reason is None else [report.stop_reason]
    if problems:
        raise dg.Failure("; ".join(problems), allow_retries=False)


@dg.job(description="Collects batches of the judge that have ended; started by a sensor.")
def collect_judge_batches() -> None:
    """Collect once; what has not ended waits for the next run."""
    collect_batches()


@dg.sensor(
    job=collect_judge_batches,
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Polls the batches of the judge, and starts their collection when one has ended.",
)
def judge_batches_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.RunRequest | dg.SkipReason:
    """Request one run at a time; without batches nothing is polled."""
    if (why_not := stores.settings.why_no_judge) is not None:
        return dg.SkipReason(why_not)
    jobs = (collect_judge_batches.name, judge_due_job.name, NIGHTLY_EVALUATION)
    if any(is_unfinished(context.instance, job) for job in jobs):
        return dg.SkipReason("a run that collects batches has not ended")
    if failed_recently(context.instance, collect_judge_batches.name, _SECONDS_AFTER_FAILURE):
        return dg.SkipReason("the last collection failed less than ten minutes ago")
    if canceled_recently(context.instance, collect_judge_batches.name):
        return dg.SkipReason(CANCELED)
    if has_work(stores, utc_now):
        return dg.RunRequest(tags=LAST)
    waiting = len(BatchStore(stores.ledger).unfinished())
    return dg.SkipReason(f"{waiting} batches at the provider, none to collect")
