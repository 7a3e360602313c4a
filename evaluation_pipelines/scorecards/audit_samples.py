"""The audit sample of every night, and how far judges and people agree."""

from collections.abc import Iterable
from datetime import date, datetime

from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.scorecards.domain.audit import draw
from evaluation_pipelines.scorecards.domain.calibration import (
    Agreement,
    Streak,
    agreements,
    streaks,
)
from evaluation_pipelines.scorecards.ledger.override_store import AuditSample, OverrideStore
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.storage.stores import Stores

CATCH_UP_DAYS = 7
"""How far back a night that was missed is made up for."""


def undrawn_dates(stores: Stores, today: date) -> list[date]:
    """The dates of the last week, up to yesterday, with sessions and without a sample."""
    drawn = {each.session_date for each in OverrideStore(stores.ledger).samples()}
    return [
        day
        for day in stores.lake.partitions(SESSION_EVALUATIONS)
        if 0 < (today - day).days <= CATCH_UP_DAYS and day not in drawn
    ]


def draw_samples(stores: Stores, dates: Iterable[date], now: datetime) -> int:
    """Draw the sample of some dates; one that was drawn stays. Gives how many sessions are new."""
    size = stores.settings.audit_sample_size
    samples = []
    for day in dates:
        drawn = draw(stores.lake.read(SESSION_EVALUATIONS, [day]), day, size)
        samples += [
            AuditSample(session_date=day, drawn_at=now, **row)
            for row in drawn.iter_rows(named=True)
        ]
    return OverrideStore(stores.ledger).put_samples(samples)


def open_samples(stores: Stores) -> list[AuditSample]:
    """Sessions that people were asked about and have not answered, the oldest first."""
    return [each for each in OverrideStore(stores.ledger).samples() if each.override_id is None]


def calibration(stores: Stores) -> tuple[list[Agreement], list[Streak]]:
    """Agreement of judge and human per profile version, and corrections in one direction."""
    told = overrides_with_states(stores)
    return agreements(told), streaks(told)
