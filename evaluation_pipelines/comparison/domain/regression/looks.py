"""What the watch sees of one model on some nights: windows of one to four weeks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.comparison.domain.ceiling import is_at_ceiling
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.regression.ceiling_change import (
    CeilingBefore,
    CeilingChange,
)
from evaluation_pipelines.comparison.domain.regression.day_spread import WEEK
from evaluation_pipelines.comparison.domain.regression.expected_scores import Levels
from evaluation_pipelines.comparison.domain.regression.score_change import (
    ScoreChange,
    ScoresBefore,
)

WINDOWS = (1, 2, 3, 4)
"""Weeks of the windows; whole ones, so that each weekday counts alike."""

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
