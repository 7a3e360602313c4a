"""The nightly audit sample, and the agreement of automatic and human scores."""

from collections.abc import Iterable
from datetime import date, datetime

from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.scorecards.domain.audit import draw
from evaluation_pipelines.scorecards.domain.calibration import Agreement, agreements
from evaluation_pipelines.scorecards.ledger.override_store import AuditSample, OverrideStore
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.storage.stores import Stores

CATCH_UP_DAYS = 7
"""Number of days for which a missed sample is drawn later."""


def undrawn_dates(stores: Stores, today: date) -> list[date]:
    """Return the dates of the last week, up to yesterday, with sessions and without a sample."""
    drawn = {each.session_date for each in OverrideStore(stores.ledger).samples()}
    return [
        day
        for day in stores.lake.partitions(SESSION_EVALUATIONS)
        if 0 < (today - day).days <= CATCH_UP_DAYS and day not in drawn
    ]


def draw_samples(stores: Stores, dates: Iterable[date], now: datetime) -> int:
    """Draw the samples of ``dates``; samples that were already drawn do not change.

    Returns:
        The number of new sessions.
    """
    size = stores.settings.audit_sample_size
    samples = []
    for day in dates:
        drawn = draw(stores.lake.read(SESSION_EVALUATIONS, [day]), day, size)
        samples += [
            AuditSample(session_date=day, drawn_at=now, **row)
            for row in drawn.iter_rows(named=True)
        ]
    return OverrideStore(stores.ledger).add_samples(samples)


def open_samples(stores: Stores) -> list[AuditSample]:
    """Return the samples without an answer, the oldest first."""
    return [each for each in OverrideStore(stores.ledger).samples() if each.override_id is None]


def calibration(stores: Stores) -> list[Agreement]:
    """Return the agreement of automatic and human scores per profile version."""
    return agreements(overrides_with_states(stores))
