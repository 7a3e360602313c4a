"""Lift of masques over all dates: their clean sessions against those without a masque.

The comparison is observational: people choose the masque and the task. Sessions are compared only
within an organization and a kind of task; mixed sessions and remainders are left out.
"""

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.differences import (
    MIN_PEOPLE,
    comparable,
    difference,
)
from evaluation_pipelines.comparison.domain.people import Arm, people_mean
from evaluation_pipelines.comparison.domain.runs import PEOPLE, SESSIONS, arms_of, numbered
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    LIFT_MEASURES,
    MASQUE_LIFT,
    SESSION_KEY,
    SESSION_PERFORMANCE,
    UTC_TIME,
)
from evaluation_pipelines.sessions.domain.ended import is_terminal
from evaluation_pipelines.sessions.domain.performance import is_counted
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.stores import Stores

_CLASS = ["organization_id", "task_class"]
_UNITS = {PEOPLE: "person_number", SESSIONS: "session_number"}
_FIGURES = ("mean", "baseline_mean", "difference", "low", "high")


def masque_lift(
    sessions: pl.DataFrame, performance: pl.DataFrame, min_sessions: int
) -> pl.DataFrame:
    """Return the differences, clean minus baseline sessions, in which people weigh the same.

    Intervals are those of the model comparison (``comparison.domain.people``): Student's t on
    people's own differences if five or all of them had sessions with and without the masque, and at
    least half of the sessions of each side are theirs, else Welch's t on people's means.

    Args:
        sessions: Rows of ``agent_sessions`` that have ended.
        performance: Their rows of ``session_performance``.
        min_sessions: Minimum number of sessions on each side, at least 2; with fewer the
            difference is null.

    Returns:
        ``MASQUE_LIFT``: one row for each masque and kind of task with a clean session.
    """
    measured = numbered(_measured(sessions, performance))
    baselines = measured.filter(attribution="baseline")
    of_class = baselines.partition_by(_CLASS, as_dict=True)
    clean = measured.filter(attribution="clean").partition_by([*_CLASS, "masque"], as_dict=True)
    rows = [
        _row(side, of_class.get(key[:-1], baselines.clear()), min_sessions)
        for key, side in clean.items()
    ]
    return pl.DataFrame(rows, schema=MASQUE_LIFT.schema, orient="row").sort(MASQUE_LIFT.order)


def _measured(sessions: pl.DataFrame, performance: pl.DataFrame) -> pl.DataFrame:
    composites = performance.select(*SESSION_KEY, "composite")
    return sessions.join(composites, on=SESSION_KEY, how="left").select(
        *_CLASS,
        "masque",
        "attribution",
        "session_date",
        "session_id",
        "started_at",
        "composite",
        "active_s",
        person="person_id",
        failure_rate=pl.when(pl.col("total_tools") > 0).then(
            pl.col("tools_failed") / pl.col("total_tools")
        ),
        # Telemetry can claim any cost, and the sum of huge costs can be infinite.
        cost_usd=pl.when(pl.col("cost_usd").is_finite()).then("cost_usd"),
    )


def _row(clean: pl.DataFrame, baseline: pl.DataFrame, min_sessions: int) -> dict[str, Any]:
    """Return a row of MASQUE_LIFT."""
    both = pl.concat([clean, baseline])
    sides = [side.with_columns(score="composite") for side in (clean, baseline)]
    kind = arms_of(sides).clustered_by
    units = "people" if kind == PEOPLE else "sessions"
    figures: dict[str, Any] = {}
    for measure in LIFT_MEASURES:
        arms = [_arm(side, measure, _UNITS[kind]) for side in (clean, baseline)]
        found = _compare(arms[0], arms[1], min_sessions, units)
        figures |= {f"{measure}_{name}": value for name, value in found}
    return {
        **clean.select(*_CLASS, "masque").row(0, named=True),
        "sessions": clean.height,
        "baseline_sessions": baseline.height,
        "first_date": both["session_date"].min(),
        "last_date": both["session_date"].max(),
        "clustered_by": kind,
        **figures,
    }


def _arm(side: pl.DataFrame, measure: str, unit: str) -> Arm:
    known = side.filter(pl.col(measure).is_not_null())
    names = (measure, unit, "class_number", "day")
    values, *codes = (known[name].to_numpy() for name in names)
    return Arm(values.astype(np.float64), *codes)


def _compare(clean: Arm, baseline: Arm, min_sessions: int, units: str) -> Iterator[tuple[str, Any]]:
    """Yield the columns of one measure; null if either side has too few sessions or people."""
    yield "sessions", len(clean)
    yield "baseline_sessions", len(baseline)
    smaller = min(len(clean), len(baseline))
    if smaller < min_sessions:
        yield "state", f"not yet: {smaller} of {min_sessions}"
        return
    compared = comparable(clean, baseline)[:2]
    people = min(len(arm.known_people) for arm in compared)
    yield "people", people
    if people < MIN_PEOPLE:
        yield "state", f"too few {units}: {people} of {MIN_PEOPLE}"
        return
    found = difference(clean, baseline)
    means = (people_mean(arm).value for arm in compared)
    yield from zip(_FIGURES, (*means, found.value, found.low, found.high), strict=True)
    yield "state", "shown" if found.error is not None else "no spread"


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
