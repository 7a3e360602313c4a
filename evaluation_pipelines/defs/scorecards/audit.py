"""Nightly audit sample: a few random sessions for people to review."""

from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.defs.automation import LAST
from evaluation_pipelines.scorecards.audit_samples import draw_samples, undrawn_dates
from evaluation_pipelines.scorecards.open_samples import open_samples
from evaluation_pipelines.storage.stores import Stores


@dg.op(description="Draws the sample of yesterday, and those of missed nights.")
def draw_audit_sample(context: dg.OpExecutionContext, stores: dg.ResourceParam[Stores]) -> None:
    """Draw missing samples; a date keeps its sample, so running twice changes nothing."""
    now = datetime.now(UTC)
    dates = undrawn_dates(stores, now.date())
    drawn, waiting = draw_samples(stores, dates, now), len(open_samples(stores))
    context.log.info(
        "%d sessions of %d dates drawn; %d wait for review: page /reviews",
        drawn,
        len(dates),
        waiting,
    )
    context.add_output_metadata({"drawn": drawn, "waiting": waiting})


@dg.job(description="Draws random sessions for people to review.")
def draw_audit_samples() -> None:
    """Draw the audit samples in one step."""
    draw_audit_sample()


# Late enough that no session of yesterday is still open.
nightly_audit_sample = dg.ScheduleDefinition(
    name="nightly_audit_sample",
    job=draw_audit_samples,
    cron_schedule="30 2 * * *",
    tags=LAST,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Draws the audit sample of yesterday, every night at half past two.",
)
