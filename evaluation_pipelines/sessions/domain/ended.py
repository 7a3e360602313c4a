"""The rule for when a session has ended.

A session window has ended as of a time if one of these holds:

* its agent said so (``explicit_end``: the window was closed by a doff or a ``session_end``), or
* it has been silent for longer than ``EVAL_SESSION_IDLE_MINUTES``, counted from ``ended_at``.

A later event moves ``ended_at`` and so can reopen a window that had ended by silence.

Every feature that treats open sessions differently uses this module: masque lift, scorecards and
session evaluations, the judge and agent reputation. Scorecards also schedule the rebuild of a date
for the time at which its first open session ends by silence.
"""

from datetime import datetime, timedelta

import polars as pl

_SILENCE_MARGIN = timedelta(seconds=1)
"""The silence must be longer than the limit, not as long."""


def is_terminal(now: pl.Expr, idle_minutes: int) -> pl.Expr:
    """Return whether a session has ended as of ``now``, as the column ``is_terminal``.

    Reads ``explicit_end`` (null counts as false) and ``ended_at``.
    """
    silent = pl.col("ended_at") < now - pl.duration(minutes=idle_minutes)
    return (pl.col("explicit_end").fill_null(value=False) | silent).alias("is_terminal")


def open_sentence(ended_at: datetime, idle_minutes: int) -> str:
    """Return what an open session waits for, from the time of its last event (UTC)."""
    end = ended_at + timedelta(minutes=idle_minutes)
    return (
        f"Still open. Counts as ended at {end:%H:%M} ({idle_minutes} minutes after its last event) "
        "or when session_end arrives."
    )


def first_end(sessions: pl.DataFrame, idle_minutes: int) -> datetime | None:
    """Return when the first open session ends if it stays silent; ``None`` if none is open.

    Args:
        sessions: Session windows with ``is_terminal`` and ``ended_at``.
        idle_minutes: The limit of :func:`is_terminal`.
    """
    last_event_at = sessions.filter(~pl.col("is_terminal"))["ended_at"].min()
    if not isinstance(last_event_at, datetime):
        return None
    return last_event_at + timedelta(minutes=idle_minutes) + _SILENCE_MARGIN
