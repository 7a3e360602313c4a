"""Sensors that send: alerts of periodic checks and failed runs, and evaluations."""

from datetime import UTC, datetime
from typing import Any

import dagster as dg

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.checks import check_alerts
from evaluation_pipelines.attention.domain.messages import failed_run_alert
from evaluation_pipelines.attention.send import raise_alert
from evaluation_pipelines.defs.runs import end_good_job_alerts
from evaluation_pipelines.defs.telemetry.sensors import has_recorded_failures
from evaluation_pipelines.evaluations.send import send_evaluations
from evaluation_pipelines.storage.lock import LockTimeoutError
from evaluation_pipelines.storage.stores import Stores

WILL_RETRY_TAG = "dagster/will_retry"
_SEND_SECONDS = 20.0
IMPLICIT_ASSET_JOB_NAME = "__ASSET_JOB"
"""Beginning of the job name of runs of selected assets: no user has defined it."""


@dg.sensor(
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Raises alerts about sessions at risk, models that got worse and agents that "
    "stopped sending, ends alerts of failed runs after a successful one, and retries alerts "
    "that the webhook did not accept. Starts no run.",
)
def alerts_sensor(
    context: dg.SensorEvaluationContext, stores: dg.ResourceParam[Stores]
) -> dg.SkipReason:
    """Run the alert checks; the ledger keeps an alert from being sent twice."""
    now = datetime.now(UTC)
    end_good_job_alerts(context.instance, stores.ledger, now)
    found = check_alerts(stores, now, context.log)
    summary = ", ".join(f"{number} {what}" for what, number in found.items())
    return dg.SkipReason(f"alerts: {summary or 'none'}")


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Sends new and changed evaluations to the receivers of the settings, and tries "
    "again what failed. Starts no run.",
)
def evaluations_sensor(stores: dg.ResourceParam[Stores]) -> dg.SkipReason:
    """Send evaluations for as long as a tick may take."""
    try:
        sent = send_evaluations(stores, lambda: datetime.now(UTC), seconds=_SEND_SECONDS)
    except LockTimeoutError as error:
        return dg.SkipReason(f"{error}")
    return dg.SkipReason("\n".join(map(str, sent)) or "no receiver of evaluations is set")


@dg.run_failure_sensor(
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Raises an alert when a run has failed and is not retried, once a day for the "
    "same steps of a job. A date that cannot be built raises one when it is parked.",
)
def failed_run_sensor(
    context: dg.RunFailureSensorContext, stores: dg.ResourceParam[Stores]
) -> None:
    """Alert about a failed run, unless it is a build that recorded its failed dates."""
    run, now = context.dagster_run, datetime.now(UTC)
    if run.tags.get(WILL_RETRY_TAG) == "true" or has_recorded_failures(context):
        return
    failures = context.get_step_failure_events()
    steps = sorted({failure.step_key for failure in failures if failure.step_key})
    reason = next(map(_step_reason, failures), "") or _run_reason(context.failure_event)
    is_implicit = run.job_name.startswith(IMPLICIT_ASSET_JOB_NAME)
    job = "selected assets" if is_implicit else run.job_name
    alert = failed_run_alert(job, steps, run.run_id, reason, now.date())
    # A job that fails, goes well and fails again the same day: people were told today.
    if not AlertStore(stores.ledger).reopen(alert, now):
        raise_alert(stores, alert, now, context.log)


def _step_reason(failure: dg.DagsterEvent) -> str:
    """Return the description that a step gave its failure, or the message of its error."""
    data = failure.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return data.user_failure_data.description
    return _root_cause(data.error)


def _run_reason(failure: dg.DagsterEvent) -> str:
    """Return why a run failed before or outside its steps."""
    reason = _root_cause(failure.job_failure_data.error) if failure.event_specific_data else ""
    return reason or failure.message or "no reason was given"


def _root_cause(error: Any) -> str:
    """Return the message of the first error in the chain of causes."""
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message if error is not None else ""
