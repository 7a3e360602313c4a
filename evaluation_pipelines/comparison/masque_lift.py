"""The lake table of masque lift, over the sessions of all dates."""

from collections.abc import Iterable
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.comparison.domain.masque_lift import masque_lift
from evaluation_pipelines.schemas import AGENT_SESSIONS, MASQUE_LIFT, SESSION_PERFORMANCE, UTC_TIME
from evaluation_pipelines.sessions.domain.ended import is_terminal
from evaluation_pipelines.sessions.domain.performance import is_counted
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores


def compare_masques(
    lake: Lake,
    settings: Settings,
    now: datetime,
    dates: Iterable[date],
    which: SessionFilter = ALL_SESSIONS,
) -> pl.DataFrame:
    """Return MASQUE_LIFT of the chosen sessions of ``dates`` that have ended as of ``now``.

    Raises:
        LakeError: A file cannot be read.
    """
    days = list(dates)
    sessions = lake.read(AGENT_SESSIONS, days, where=which.condition() & is_counted())
    ended = sessions.filter(is_terminal(pl.lit(now).cast(UTC_TIME), settings.session_idle_minutes))
    return masque_lift(ended, lake.read(SESSION_PERFORMANCE, days), settings.baseline_min)


def write_masque_lift(stores: Stores, now: datetime) -> pl.DataFrame:
    """Compare the masques over all dates and replace the table ``masque_lift``.

    Returns:
        The rows that were written.

    Raises:
        LakeError: A file cannot be read or written.
    """
    lake = stores.lake.snapshot()
    lift = compare_masques(lake, stores.settings, now, lake.partitions(AGENT_SESSIONS))
    stores.lake.write(lift, MASQUE_LIFT, None)
    return lift
