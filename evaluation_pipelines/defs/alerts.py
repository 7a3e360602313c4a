"""Who is told when something needs people: one sensor that looks, one that hears of failed runs."""

from datetime import UTC, datetime

import dagster as dg
from dagster_shared.error import SerializableErrorInfo

from evaluation_pipelines.alerts.checks import check_alerts
from evaluation_pipelines.alerts.domain.messages import of_failed_run
from evaluation_pipelines.alerts.send import alert
from evaluation_pipelines.defs.telemetry.sensors import noted_its_dates
from evaluation_pipelines.storage.stores import Stores


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Raises alerts: sessions at risk, models that got worse, agents that have gone "
    "silent; and delivers again what the webhook did not take. Starts no run.",
)
def alerts_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.SkipReason | None:
    """What was told is in the ledger, so that no cause is told twice."""
    found = check_alerts(stores, datetime.now(UTC), context.log)
    told = ", ".join(f"{number} {what}" for what, number in found.items())
    return dg.SkipReason(f"alerts: {told}") if told else None


@dg.run_failure_sensor(
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Raises an alert when a run has failed and is not started once more. The same "
    "steps of a job are told once a day; dates that fail to build are told when they are parked.",
)
def failed_run_sensor(
    context: dg.RunFailureSensorContext, stores: dg.ResourceParam[Stores]
) -> None:
    """A build that noted its failed dates is no news: it is tried again by itself."""
    run, now = context.dagster_run, datetime.now(UTC)
    # Dagster's own tag of runs that it is about to start once more.
    if run.tags.get("dagster/will_retry") == "true" or noted_its_dates(context):
        return
    failures = context.get_step_failure_events()
    steps = sorted({each.step_key for each in failures if each.step_key})
    why = next(map(_reason, failures), "") or _reason_of_run(context.failure_event)
    # Dagster's name for runs that somebody, or a condition, asked for asset by asset.
    job = "chosen assets" if run.job_name.startswith("__ASSET_JOB") else run.job_name
    alert(stores, of_failed_run(job, steps, run.run_id, why, now.date()), now, context.log)


def _reason(failure: dg.DagsterEvent) -> str:
    """What a step said of its failure, else the message of its error."""
    data = failure.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    return _first_cause(data.error)


def _reason_of_run(failure: dg.DagsterEvent) -> str:
    """Why a run failed before or outside its steps."""
    why = _first_cause(failure.job_failure_data.error) if failure.event_specific_data else ""
    return why or failure.message or "no reason was given"


def _first_cause(error: SerializableErrorInfo | None) -> str:
    """Message of the error with which it began."""
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message if error is not None else ""
