"""Scorecards in Dagster: the weekly audit, their events and their checks."""

from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.defs.automation import LAST
from evaluation_pipelines.formatting import interval, number
from evaluation_pipelines.numerics.estimates import Estimate
from evaluation_pipelines.reporting.domain.markdown import markdown_table
from evaluation_pipelines.schemas import SCORECARDS
from evaluation_pipelines.schemas.scorecards import MAX_SHOWN, Announced, Announcement
from evaluation_pipelines.scorecards.blind_reviews import (
    calibration,
    draw_samples,
    open_samples,
    profile_leans,
    undrawn_dates,
)
from evaluation_pipelines.scorecards.domain.calibration import Agreement
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.storage.stores import Stores


@dg.op(description="Draws the sample of yesterday, and those of missed nights.")
def draw_audit_sample(context: dg.OpExecutionContext, stores: dg.ResourceParam[Stores]) -> None:
    """Draw missing samples; a date keeps its sample, so running twice changes nothing."""
    now = datetime.now(UTC)
    dates = undrawn_dates(stores, now.date())
    drawn, waiting = draw_samples(stores, dates, now), len(open_samples(stores))
    context.log.info(
        "%d sessions of %d dates drawn. %d wait for review: page /reviews",
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


MAX_OBSERVATIONS = MAX_SHOWN
"""Observations of one run. If there would be more, the events of a date are only counted, in the
metadata of its materialization.

A backfill has thousands of events, and Dagster stores each as slowly as a whole partition.
"""


@dataclass(slots=True)
class Observations:
    """Observations of a run; the ledger has every event in ``service_events``."""

    asset: str
    _count: int = 0

    def of(self, announced: Announced) -> list[dg.AssetObservation]:
        """Return an observation for each event of a date, or none if they would be too many."""
        number = announced.counts.total()
        if self._count + number > MAX_OBSERVATIONS:
            return []
        self._count += number
        return [_observation(self.asset, each) for each in announced.events]


def event_counts(announced: Announced) -> dict[str, dg.MetadataValue]:
    """Return the number of new events of each kind as metadata of their partition."""
    kinds = sorted(announced.counts.items())
    return {f"new {kind}": dg.MetadataValue.int(number) for kind, number in kinds}


def _observation(asset: str, event: Announcement) -> dg.AssetObservation:
    return dg.AssetObservation(
        asset,
        partition=event.session_date.isoformat(),
        description=event.kind,
        metadata={
            "event": event.kind,
            "event_id": event.event_id,
            "session_key": event.session_key,
            "effective_100": event.effective_100,
            "payload": dg.MetadataValue.json(event.payload_values()),
        },
        tags={"event": event.kind},
    )


_HEADINGS = (
    *("profile", "version", "sample", "n", "off by > 10"),
    *("bias", "mean error", "Spearman", "kappa"),
)


@dg.asset_check(
    asset=SCORECARDS.name,
    description="No profile is corrected in one direction beyond chance.",
)
def profiles_are_calibrated(stores: dg.ResourceParam[Stores]) -> dg.AssetCheckResult:
    """Warn if the corrections of a profile version lean one way beyond chance."""
    overrides = overrides_with_states(stores)
    notices = [each.notice for each in profile_leans(stores, overrides) if each.is_beyond_chance]
    return dg.AssetCheckResult(
        passed=not notices,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "expected": "corrections in both directions, or few of them",
            "found": "; ".join(notices) or "no profile version to recalibrate",
            "agreement, automatic minus human": dg.MetadataValue.md(
                markdown_table(_HEADINGS, [_row(each) for each in calibration(stores, overrides)])
            ),
        },
    )


def _row(each: Agreement) -> tuple[object, ...]:
    return (
        each.profile_id,
        each.profile_version,
        each.sample,
        each.n,
        _format_estimate(each.off),
        each.missing or _format_estimate(each.bias),
        *(_format_estimate(estimate) for estimate in (each.mae, each.spearman, each.kappa)),
    )


def _format_estimate(estimate: Estimate) -> str:
    ends = interval(number(estimate.low, 2), number(estimate.high, 2))
    return f"{number(estimate.value, 2)} ({ends})" if ends else number(estimate.value, 2)
