"""The nightly audit sample: a few sessions drawn at random for people to look at."""

from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.scorecards.audit_samples import draw_samples, open_samples, undrawn_dates
from evaluation_pipelines.storage.stores import Stores


@dg.op(description="Draws the sample of yesterday, and of nights that were missed.")
def draw_audit_sample(context: dg.OpExecutionContext, stores: dg.ResourceParam[Stores]) -> None:
    """A date that has its sample keeps it: running twice changes nothing."""
    now = datetime.now(UTC)
    dates = undrawn_dates(stores, now.date())
    drawn, waiting = draw_samples(stores, dates, now), len(open_samples(stores))
    context.log.info(
        "%d sessions of %d dates drawn; %d wait for a look: evaluation-pipelines scorecards audit",
        drawn,
        len(dates),
        waiting,
    )
    context.add_output_metadata({"drawn": drawn, "waiting": waiting})


@dg.job(description="Draws sessions at random for people to look at.")
def draw_audit_samples() -> None:
    """One step."""
    draw_audit_sample()


# When the day before is over everywhere its sessions could still be open.
nightly_audit_sample = dg.ScheduleDefinition(
    name="nightly_audit_sample",
    job=draw_audit_samples,
    cron_schedule="30 2 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Draws the audit sample of yesterday, every night at half past two.",
)
