"""Does a model score lower than before: nights, rows, and alerts in words."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.differences import is_at_ceiling
from evaluation_pipelines.comparison.domain.models import Row, counted, parts, state_of
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.comparison.domain.score_change import (
    ALONE,
    WEEK,
    CeilingBefore,
    CeilingChange,
    Levels,
    ScoreChange,
    ScoresBefore,
    boundary,
    chance_in_quarter,
)
from evaluation_pipelines.comparison.domain.verdicts import ALPHA
from evaluation_pipelines.formatting import percent, points, signed, whole
from evaluation_pipelines.numerics.estimates import Numbers

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
        return FAILURES if self.change.is_of_failures else PASSES


def looks(runs: Arm, nights: Iterable[int]) -> Iterator[Look]:
    """Yield what is seen on each night, windows with too few runs left out.

    Args:
        runs: Runs of one model, sorted by day; classes and people numbered from 0 on.
        nights: Days; a night sees the days before it.
    """
    levels = Levels(int(runs.classes.max()) + 1, int(runs.people.max()) + 1)
    known: dict[int, _Before | None] = {}
    for night in nights:
        for weeks in WINDOWS:
            since = night - weeks * WEEK
            window = of_days(runs, since, night)
            if shortage_of_window(window) is not None:
                continue
            if since not in known:
                known[since] = _before(runs, since, levels)
            before = known[since]
            if before is not None:
                yield before.look(window, night)


def of_days(runs: Arm, since: int, until: int) -> Arm:
    """Return the runs of some days; ``until`` is the day after the last one."""
    first, last = np.searchsorted(runs.days, [since, until])
    return Arm(
        *(getattr(runs, name)[first:last] for name in ("scores", "people", "classes", "days"))
    )


def baseline(runs: Arm, since: int) -> Arm:
    """Return the runs that a window is compared with."""
    return of_days(runs, since - BASELINE, since)


def shortage_of_window(window: Arm) -> str | None:
    """Return what a window lacks; None if it has enough."""
    if len(window) < SMALLEST_WINDOW:
        return f"{len(window)} of {SMALLEST_WINDOW} sessions in the last {LONGEST_WINDOW} days"
    days = _number_of_days(window)
    if days < SMALLEST_WINDOW_DAYS:
        return (
            f"sessions on {days} of {SMALLEST_WINDOW_DAYS} days in the last {LONGEST_WINDOW} days"
        )
    return None


def shortage_of_baseline(before: Arm, since: int) -> str | None:
    """Return what the days before a window lack; None if they have enough."""
    if len(before) < SMALLEST_BASELINE:
        return f"{len(before)} of {SMALLEST_BASELINE} sessions before the recent weeks"
    span, days = since - int(before.days[0]), _number_of_days(before)
    if span < SMALLEST_SPAN:
        return f"{span} of {SMALLEST_SPAN} days of history before the recent weeks"
    if days < SMALLEST_DAYS:
        return f"sessions on {days} of {SMALLEST_DAYS} days before the recent weeks"
    if np.ptp(before.scores) == 0 and not is_at_ceiling(before.scores):
        return "scores that vary: all before the recent weeks are the same"
    return None


def _number_of_days(runs: Arm) -> int:
    return 1 + int(np.count_nonzero(np.diff(runs.days)))


@dataclass(frozen=True, slots=True)
class _Before:
    """What windows that begin on a day are compared with."""

    since: int
    scores: ScoresBefore | CeilingBefore

    def look(self, window: Arm, night: int) -> Look:
        """Return what is seen in a window."""
        scores = self.scores
        below = scores.failed_below if isinstance(scores, CeilingBefore) else None
        return Look(self.since, night, scores.change(window), window, scores.runs, below)


def _before(runs: Arm, since: int, levels: Levels) -> _Before | None:
    before = baseline(runs, since)
    if shortage_of_baseline(before, since) is not None:
        return None
    return _Before(since, CeilingBefore.of(before, levels) or ScoresBefore(before, levels))


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
        each
        for key, part in parts(runs)
        if state_of(key[len(GROUP)], part.height, 0) == "ranked"
        and (each := _Watched.of(key, counted(part), until)).is_used
    ]
    seen = [list(each.looks()) for each in watched]
    models = sum(map(bool, seen))
    return [each.row(found, models) for each, found in zip(watched, seen, strict=True)]


@dataclass(frozen=True, slots=True)
class _Watched:
    """Runs of one model; day 0 is the first of the history, ``tonight`` the day after the last."""

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
        people = frame["person_number"].to_numpy()
        _, codes = np.unique(people, return_inverse=True)
        runs = Arm(frame["score"].to_numpy(), codes, classes, frame["watch_day"].to_numpy())
        return cls(key, frame, runs, until)

    @property
    def tonight(self) -> int:
        return HISTORY.days

    @property
    def is_used(self) -> bool:
        """Whether it has a run in the longest window."""
        return len(of_days(self.runs, self.tonight - LONGEST_WINDOW, self.tonight)) > 0

    def looks(self) -> Iterable[Look]:
        """Return what is seen on each of the last nights."""
        return looks(self.runs, range(self.tonight - NIGHTS + 1, self.tonight + 1))

    def row(self, found: Sequence[Look], models: int) -> Row:
        """Return the row: the strongest change if one counts, else the longest window tonight."""
        row: Row = dict(zip((*GROUP, *MODEL), self.key, strict=True))
        tonight = [each for each in found if each.night == self.tonight]
        if not tonight:
            return row | {"state": INSUFFICIENT, "missing": self.lacks()}
        said = [(each, verdict(each, models)) for each in found]
        for state in (ALERT, LOWER, HIGHER):
            crossed = [each for each, what in said if what == state]
            if crossed:
                shown = max(crossed, key=lambda each: abs(each.change.deviates))
                break
        else:
            state, shown = STEADY, max(tonight, key=lambda each: each.weeks)
        return row | self._figures(shown, models) | {"state": state, "missing": None}

    def lacks(self) -> str:
        """Return what is missing for the smallest window that has enough runs."""
        for weeks in WINDOWS:
            since = self.tonight - weeks * WEEK
            lack = shortage_of_window(of_days(self.runs, since, self.tonight))
            if lack is None:
                return shortage_of_baseline(baseline(self.runs, since), since) or ""
        return lack or ""

    def _figures(self, look: Look, models: int) -> Row:
        change, window = look.change, look.window
        shown = self.frame.filter(pl.col("watch_day").is_between(look.since, look.night - 1))
        low, high = change.ends(boundary(ALPHA, look.weeks, ALONE))
        recent = float(window.scores.mean())
        return {
            "window_since": self._time(look.since),
            "window_until": self._time(look.night),
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
            "people": shown["person"].n_unique() - int(shown["person"].has_nulls()),
            "largest_share": _largest_share(shown["person"].drop_nulls()),
            "change_without_one": _without_one(look),
            "recent_failed": _failed(window, look),
            "before_failed": _failed(look.before, look),
            "worst_sessions": _lowest(shown["session_key"], change.errors),
        }

    def _time(self, day: int) -> datetime:
        return self.until - HISTORY + timedelta(days=day)


def _chance(look: Look, models: int) -> float:
    return chance_in_quarter(look.change.deviates, look.weeks, max(models, ALONE))


def _failed(runs: Arm, look: Look) -> int | None:
    if look.failed_below is None:
        return None
    return int((runs.scores < look.failed_below).sum())


def _without_one(look: Look) -> float | None:
    """Return the change without the person who moves it most; None for a single person."""
    errors, value = look.change.errors, look.change.value
    people, codes, sizes = np.unique(look.window.people, return_inverse=True, return_counts=True)
    if len(people) < 2:
        return None
    left = (errors.sum() - np.bincount(codes, errors)) / (len(errors) - sizes)
    return float(left.max() if value < 0 else left.min())


def _largest_share(people: pl.Series) -> float | None:
    """Return the share of the person with the most runs; None if none is known."""
    if people.is_empty():
        return None
    return int(people.value_counts()["count"].max()) / len(people)  # type: ignore[arg-type]


def _lowest(keys: pl.Series, errors: Numbers) -> list[str]:
    """Return the sessions that are lowest for their task class and person, the worst first."""
    return [str(keys[int(place)]) for place in np.argsort(errors, kind="stable")[:SESSIONS]]


_ONE_PERSON = 0.5
"""A drop that loses more than the rest of it without one person is marked so."""

MOST_RUNS = 2 / 3
"""From this share of the runs on, a drop is one of a person rather than of a model."""


def alert_sentences(row: Mapping[str, Any]) -> str:
    """Return since when a model is lower, and by how much; ``row`` is in state "alert"."""
    down = -row["change"]
    ends = f"{points(-row['change_high'])} to {points(-row['change_low'])}"
    said = [f"Down {points(down)} points since {row['window_since']:%Y-%m-%d} ({ends})."]
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
