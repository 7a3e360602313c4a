"""The audit sample: sessions drawn at random for people to review, where reviews are needed most.

People override the scores that they happen to notice, which says little about all others. Only a
random sample shows how far automatic scores can be trusted. Sessions are not drawn with equal
chances, so each drawn one carries its inclusion probability: weighted by its inverse, the sample
represents all sessions (Sarndal, Swensson and Wretman, "Model Assisted Survey Sampling", 1992).
"""

import hashlib
from datetime import date

import numpy as np
import polars as pl

from evaluation_pipelines.numerics.estimates import Numbers
from evaluation_pipelines.schemas import MIXED, SESSION_KEY

STRATUM = ("profile_id", "profile_version", "classification_label", "model")
"""Columns of a stratum; a row of the model comparison lies in one."""

TARGET = 30
"""Answered sessions of a stratum that the corrected mean needs."""

AIM = 35
"""Drawn sessions of a stratum in a window: some are never answered."""

WINDOW_DAYS = 28
"""Number of days whose audits count: those that a comparison covers by default."""

SPREAD = 0.2
"""Share of the draws with the same chance for all sessions: without a chance they would be left out
of what the sample represents."""


def draw(recent: pl.DataFrame, audited: pl.DataFrame, day: date, size: int) -> pl.DataFrame:
    """Draw the audit sample of a date.

    The expected number of draws of each stratum follows its need; within a stratum all sessions
    have the same chance. Sessions are drawn by systematic sampling with unequal probabilities from
    a random order (Hartley and Rao, "Sampling with unequal probabilities and without replacement",
    1962). The date is the seed: the same sessions in any order have the same sample, on every
    machine.

    Args:
        recent: SESSION_EVALUATIONS of ``WINDOW_DAYS`` days, of which ``day`` is the last: those
            that a person could judge.
        audited: A row with STRATUM for each audited session of these days.
        day: The date.
        size: Number of sessions; all sessions are drawn if there are fewer.

    Returns:
        ``organization_id, session_key, content_hash``, STRATUM and ``inclusion_probability`` (0-1)
        of the drawn sessions.
    """
    scored = recent.filter(pl.col("scorecard_100").is_not_null())
    frame = scored.filter(session_date=day)
    strata = frame.group_by(STRATUM).len("sessions").sort(STRATUM)
    shares = strata.join(
        wanted(scored, audited, size),
        on=STRATUM,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["share"]
    expected = allocation(
        strata["sessions"].cast(pl.Float64).to_numpy(),
        shares.fill_null(0).to_numpy(),
        size,
    )
    chances = strata.with_columns(
        inclusion_probability=pl.Series(expected, dtype=pl.Float64) / pl.col("sessions"),
        stratum_lot=_lots(strata, day, STRATUM),
    )
    ordered = (
        frame.select(*SESSION_KEY, "content_hash", *STRATUM, lot=_lots(frame, day, SESSION_KEY))
        .join(chances, on=STRATUM, nulls_equal=True)
        .sort("stratum_lot", "lot", *SESSION_KEY)
    )
    probabilities = ordered["inclusion_probability"].to_numpy()
    chosen = ordered.filter(pl.Series(systematic(probabilities, _start(day)), dtype=pl.Boolean))
    return chosen.select(*SESSION_KEY, "content_hash", *STRATUM, "inclusion_probability")


def reconstructed(evaluations: pl.DataFrame, sample: pl.DataFrame, day: date) -> pl.DataFrame:
    """Return a sample that is older than stored probabilities as ``draw`` would.

    Samples had the sessions with the smallest lots then, all with the same chance. If the sessions
    of the date as they are now would not give the same sample, its probabilities are unknown.

    Args:
        evaluations: SESSION_EVALUATIONS.
        sample: ``organization_id, session_key`` of the sample of the date.
        day: The date.

    Returns:
        The same columns as ``draw``; no row if the probabilities are unknown.
    """
    frame = evaluations.filter(pl.col("scorecard_100").is_not_null(), session_date=day)
    smallest = (
        frame.with_columns(lot=_lots(frame, day, SESSION_KEY)).sort("lot").head(sample.height)
    )
    is_same = smallest.join(sample, on=SESSION_KEY, how="semi").height == sample.height
    return (smallest if is_same else smallest.clear()).select(
        *SESSION_KEY,
        "content_hash",
        *STRATUM,
        inclusion_probability=pl.lit(sample.height / max(frame.height, 1)),
    )


def wanted(scored: pl.DataFrame, audited: pl.DataFrame, size: int) -> pl.DataFrame:
    """Return STRATUM and ``share``, the share of its sessions to audit, where audits are needed.

    No audits are directed to a stratum with fewer than ``TARGET`` sessions, or without one model.
    If the draws of the window do not suffice for all, those that are closest to the target come
    first: thirty audits of one model correct its mean, fifteen of two correct none. What a stratum
    lacks is made up slowly, since sessions with unequal chances tell less than equal ones.

    Args:
        scored: Scored sessions of the window.
        audited: A row with STRATUM for each audited session of the window.
        size: Draws of a night.
    """
    single = pl.col("model").is_not_null() & (pl.col("model") != MIXED)
    sessions = scored.filter(single).group_by(STRATUM).len("sessions")
    lacking = (2 * AIM - pl.col("audited").cast(pl.Int64)).clip(lower_bound=0)
    return (
        sessions.filter(pl.col("sessions") >= TARGET)
        .join(audited.group_by(STRATUM).len("audited"), on=STRATUM, how="left", nulls_equal=True)
        .with_columns(pl.col("audited").fill_null(0))
        .sort("audited", "sessions", *STRATUM, descending=[True, True, *[False] * len(STRATUM)])
        .head(max(size * WINDOW_DAYS // AIM, 1))
        .select(*STRATUM, share=lacking / pl.col("sessions"))
    )


def allocation(sessions: Numbers, shares: Numbers, size: int) -> Numbers:
    """Return the expected number of draws of each stratum, above 0 and at most all its sessions.

    Args:
        sessions: Sessions of each stratum.
        shares: Share of its sessions to audit, as far as draws suffice; 0 without need.
        size: Number of draws.
    """
    if size >= sessions.sum():
        return sessions
    alike = size * sessions / sessions.sum()
    directed = np.maximum(shares * sessions - SPREAD * alike, 0)
    budget = (1 - SPREAD) * size
    directed *= min(1.0, budget / max(float(directed.sum()), 1e-300))
    expected = directed + (1 - directed.sum() / max(size, 1)) * alike
    while (over := expected > sessions).any():
        excess = float((expected - sessions)[over].sum())
        expected = np.where(over, sessions, expected)
        free = expected < sessions
        expected[free] *= 1 + excess / float(expected[free].sum())
    return np.asarray(expected)


def systematic(probabilities: Numbers, start: float) -> list[bool]:
    """Return which units are drawn: those whose stretch contains ``start`` plus a whole number.

    Args:
        probabilities: Inclusion probability of each unit; laid end to end they are the stretches.
        start: 0 or more, less than 1.
    """
    ends = np.concatenate([[0.0], np.cumsum(probabilities)]).round(9)
    # The number of points start, start + 1 ... below each end.
    below = np.ceil(np.maximum(ends - start, 0))
    return [bool(step) for step in np.diff(below) > 0]


def _start(day: date) -> float:
    return int(hashlib.sha256(day.isoformat().encode()).hexdigest()[:12], 16) / 16**12


def _lots(rows: pl.DataFrame, day: date, names: tuple[str, ...]) -> pl.Series:
    lots = [
        hashlib.sha256("\0".join((day.isoformat(), *map(str, key))).encode()).hexdigest()
        for key in rows.select(names).iter_rows()
    ]
    return pl.Series(lots, dtype=pl.String)
