"""Does a model score lower than before: nights, rows, and alerts in words."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.ceiling_change import CeilingBefore, CeilingChange
from evaluation_pipelines.comparison.domain.differences import is_at_ceiling
from evaluation_pipelines.comparison.domain.models import Row, counted, parts, state_of
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.comparison.domain.score_change import (
    ALONE,
    WEEK,
    Levels,
    ScoreChange,
    ScoresBefore,
    boundary,
    chance_in_quarter,
)
from evaluation_pipelines.comparison.domain.verdicts import ALPHA
from evaluation_pipelines.formatting import percent, points, signed, whole

WINDOWS = (1, 2, 3, 4)
"""Weeks of the windows; whole ones, so that each weekday counts the same."""

LONGEST_WINDOW = WEEK * WINDOWS[-1]
BASELINE = 90
"""Days before a window that it is compared with; as many as there are, but at least four weeks."""

SMALLEST_SPAN, SMALLEST_DAYS, SMALLEST_BASELINE = 28, 14, 30
SMALLEST_WINDOW, SMALLEST_WINDOW_DAYS = 10, 3

SCORES, FAILURES, PASSES = "scores", "failures", "passes"
"""What a change is one of: the mean score; near 100 mostly failures, or mostly the other runs."""


@dataclass(frozen=True, slots=True)
class Look:
    """One window, on one night.

    Attributes:
        since: First day of the window.
        night: The day after its last one.
        change: What is seen.
        window: Runs of the window.
        before: Runs of the days before.
        failed_below: Near 100, the score under which a run failed.
    """

    since: int
    night: int
    change: ScoreChange | CeilingChange
    window: Arm
    before: Arm
    failed_below: float | None

    @property
    def weeks(self) -> int:
        """Length of the window."""
        return (self.night - self.since) // WEEK

    @property
    def channel(self) -> str:
        """What the change is one of."""
        if not isinstance(self.change, CeilingChange):
            return SCORES
        return FAILURES if self.change.is_due_to_failures else PASSES

    def failed(self, runs: Arm) -> int | None:
        """Return how many of some runs failed; None unless scores are near 100."""
        below = self.failed_below
        return None if below is None else int((runs.scores < below).sum())


def looks(runs: Arm, nights: Iterable[int]) -> Iterator[Look]:
    """Yield what is seen on each night, windows with too few runs left out.

    Args:
        runs: Runs of one model, sorted by day; classes and people numbered from 0 on.
        nights: Days; a night sees the days before it.
    """
    levels = Levels(int(runs.classes.max()) + 1, int(runs.people.max()) + 1)
    known: dict[int, CeilingBefore | ScoresBefore | None] = {}
    for night in nights:
        for weeks in WINDOWS:
            since = night - weeks * WEEK
            window = of_days(runs, since, night)
            if window_shortage(window) is not None:
                continue
            if since not in known:
                known[since] = _before(runs, since, levels)
            if before := known[since]:
                seen = before.change(window)
                yield Look(since, night, seen, window, before.runs, before.failed_below)


def of_days(runs: Arm, since: int, until: int) -> Arm:
    """Return the runs of some days; ``until`` is the day after the last one."""
    first, last = np.searchsorted(runs.days, [since, until])
    return runs.only(slice(first, last))


def baseline(runs: Arm, since: int) -> Arm:
    """Return the runs that a window is compared with."""
    return of_days(runs, since - BASELINE, since)


def window_shortage(window: Arm) -> str | None:
    """Return what a window lacks; None if it has enough."""
    if len(window) < SMALLEST_WINDOW:
        return f"{len(window)} of {SMALLEST_WINDOW} sessions in the last {LONGEST_WINDOW} days"
    if (days := _day_count(window)) < SMALLEST_WINDOW_DAYS:
        return (
            f"sessions on {days} of {SMALLEST_WINDOW_DAYS} days in the last {LONGEST_WINDOW} days"
        )
    return None


def baseline_shortage(before: Arm, since: int) -> str | None:
    """Return what the days before a window lack; None if they have enough."""
    if len(before) < SMALLEST_BASELINE:
        return f"{len(before)} of {SMALLEST_BASELINE} sessions before the recent weeks"
    span, days = since - int(before.days[0]), _day_count(before)
    if span < SMALLEST_SPAN:
        return f"{span} of {SMALLEST_SPAN} days of history before the recent weeks"
    if days < SMALLEST_DAYS:
        return f"sessions on {days} of {SMALLEST_DAYS} days before the recent weeks"
    if np.ptp(before.scores) == 0 and not is_at_ceiling(before.scores):
        return "scores that vary: all before the recent weeks are the same"
    return None


def _day_count(runs: Arm) -> int:
    return 1 + int(np.count_nonzero(np.diff(runs.days)))


def _before(runs: Arm, since: int, levels: Levels) -> CeilingBefore | ScoresBefore | None:
    """Return the days before a window that starts on a day."""
    before = baseline(runs, since)
    if baseline_shortage(before, since) is not None:
        return None
    return CeilingBefore.of(before, levels) or ScoresBefore(before, levels)


NIGHTS = 7
"""Nights for which an alert stays: a change that lies at the boundary is reported once."""

HISTORY = timedelta(days=BASELINE + LONGEST_WINDOW + NIGHTS - 1)
"""How far the watch looks back."""

ALERT_POINTS = 3.0
"""3% of the scale: a smaller drop is no alert, however certain."""

SESSIONS = 5
"""How many of the lowest sessions of a window are named."""

ALERT, LOWER, HIGHER, STEADY = "alert", "lower", "higher", "steady"
INSUFFICIENT = "insufficient"
"""States of a row."""


def verdict(look: Look, models: int) -> str:
    """Return what one look says, if a number of models is watched."""
    change = look.change
    if _chance(look, models) >= ALPHA or change.value * change.deviates <= 0:
        return STEADY
    if change.value > 0:
        return HIGHER
    return ALERT if change.lasting <= -ALERT_POINTS else LOWER


def regression_rows(runs: pl.DataFrame, until: datetime) -> list[Row]:
    """Return the rows of ``model_regressions``, without ``computed_at`` and null figures.

    A pure function of the runs: the same night gives the same rows, whenever it is computed.

    Args:
        runs: RUNS with a score, from ``HISTORY`` before ``until`` on.
        until: End of the last day; days are those of 24 hours before it.
    """
    watched = [
        model
        for key, part in parts(runs)
        if state_of(key[len(GROUP)], part.height, 0) == "ranked"
        and len((model := _Watched.of(key, counted(part), until)).last_days(LONGEST_WINDOW))
    ]
    nights = range(_TONIGHT - NIGHTS + 1, _TONIGHT + 1)
    seen = [list(looks(model.runs, nights)) for model in watched]
    models = sum(map(bool, seen))
    return [model.row(found, models) for model, found in zip(watched, seen, strict=True)]


_TONIGHT = HISTORY.days
"""Day 0 is the first of the history; this is the day after its last."""


@dataclass(frozen=True, slots=True)
class _Watched:
    """Runs of one model."""

    key: tuple[Any, ...]
    frame: pl.DataFrame
    runs: Arm
    until: datetime

    @classmethod
    def of(cls, key: tuple[Any, ...], used: pl.DataFrame, until: datetime) -> "_Watched":
        start = pl.col("started_at")
        frame = (
            used.filter(start >= until - HISTORY, start < until)
            .with_columns(watch_day=(start - (until - HISTORY)).dt.total_days())
            .sort("started_at", "session_key")
        )
        _, classes = np.unique(frame["class_number"].to_numpy(), return_inverse=True)
        _, codes = np.unique(frame["person_number"].to_numpy(), return_inverse=True)
        runs = Arm(frame["score"].to_numpy(), codes, classes, frame["watch_day"].to_numpy())
        return cls(key, frame, runs, until)

    def last_days(self, days: int) -> Arm:
        """Return the runs of the last days."""
        return of_days(self.runs, _TONIGHT - days, _TONIGHT)

    def row(self, found: Sequence[Look], models: int) -> Row:
        """Return the row: the strongest change if one counts, else the longest window tonight."""
        row: Row = dict(zip((*GROUP, *MODEL), self.key, strict=True))
        tonight = [look for look in found if look.night == _TONIGHT]
        if not tonight:
            return row | {"state": INSUFFICIENT, "missing": self.lacks()}
        state, shown = STEADY, max(tonight, key=lambda look: look.weeks)
        judged = [(verdict(look, models), look) for look in found]
        for strongest in (ALERT, LOWER, HIGHER):
            crossed = [look for state_of_look, look in judged if state_of_look == strongest]
            if crossed:
                state, shown = strongest, max(crossed, key=lambda look: abs(look.change.deviates))
                break
        return row | self._figures(shown, models) | {"state": state, "missing": None}

    def lacks(self) -> str:
        """Return what is missing for the smallest window that has enough runs."""
        for weeks in WINDOWS:
            since = _TONIGHT - weeks * WEEK
            lack = window_shortage(self.last_days(weeks * WEEK))
            if lack is None:
                return baseline_shortage(baseline(self.runs, since), since) or ""
        return lack or ""

    def _figures(self, look: Look, models: int) -> Row:
        change, window = look.change, look.window
        shown = self.frame.filter(pl.col("watch_day").is_between(look.since, look.night - 1))
        people = shown["person"].drop_nulls()
        low, high = change.ends(boundary(ALPHA, look.weeks, ALONE))
        recent = float(window.scores.mean())
        first, last = (self.until - HISTORY + timedelta(days=d) for d in (look.since, look.night))
        # The lowest for their task class and person, the worst first.
        worst = np.argsort(change.errors, kind="stable")[:SESSIONS]
        return {
            "window_since": first,
            "window_until": last,
            "channel": look.channel,
            "recent_runs": len(window),
            "before_runs": len(look.before),
            "before_days": look.since - int(look.before.days[0]),
            "recent_score": recent,
            "before_score": recent - change.value,
            "change": change.value,
            "change_low": low,
            "change_high": high,
            "p_quarter": _chance(look, models),
            "people": people.n_unique(),
            "largest_share": max(Counter(people).values()) / len(people) if len(people) else None,
            "change_without_one": _without_one(look),
            "recent_failed": look.failed(window),
            "before_failed": look.failed(look.before),
            "worst_sessions": shown["session_key"].gather(worst).to_list(),
        }


def _chance(look: Look, models: int) -> float:
    return chance_in_quarter(look.change.deviates, look.weeks, max(models, ALONE))


def _without_one(look: Look) -> float | None:
    """Return the change without the person who moves it most; None for a single person."""
    errors, value = look.change.errors, look.change.value
    people, codes, sizes = np.unique(look.window.people, return_inverse=True, return_counts=True)
    if len(people) < 2:
        return None
    left = (errors.sum() - np.bincount(codes, errors)) / (len(errors) - sizes)
    return float(left.max() if value < 0 else left.min())


_ONE_PERSON = 0.5
"""A drop that loses more than the rest of it without one person is marked so."""

MOST_RUNS = 2 / 3
"""From this share of the runs on, a drop is one of a person rather than of a model."""


def alert_sentences(row: Mapping[str, Any]) -> str:
    """Return since when a model is lower, and by how much; ``row`` is in state "alert"."""
    down = -row["change"]
    ends = f"{points(-row['change_high'])} to {points(-row['change_low'])}"
    since = f"{row['window_since']:%Y-%m-%d}"
    said = [f"{points(down)} points lower since {since} (95% interval: {ends} points lower)."]
    before = f"in the {row['before_days']} days before"
    if row["channel"] == FAILURES:
        said.append(
            f"Not passed: {row['recent_failed']} of {whole(row['recent_runs'])} sessions since "
            f"then, {row['before_failed']} of {whole(row['before_runs'])} {before}."
        )
    else:
        said.append(
            f"Mean automatic score: {points(row['recent_score'])} in {whole(row['recent_runs'])} "
            f"sessions since then, {points(row['before_score'])} {before} for the same people and "
            "task classes."
        )
    if row["people"] == 1:
        said.append("All are from one person.")
    elif row["largest_share"] is not None and row["largest_share"] >= MOST_RUNS:
        said.append(
            f"One person has {percent(row['largest_share'])} of these sessions, so this says "
            "little about others."
        )
    without_one = row["change_without_one"]
    if without_one is not None and without_one > -_ONE_PERSON * down:
        said.append(f"Without one person's sessions the change is {signed(without_one)}.")
    return " ".join(said)
