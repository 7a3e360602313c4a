"""What the watch sees of one model on some nights: windows of one to four weeks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.regression.day_spread import WEEK
from evaluation_pipelines.comparison.domain.regression.expected_scores import Levels
from evaluation_pipelines.comparison.domain.regression.failure_change import (
    FailureChange,
    failed_below,
    failure_change,
)
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
"""Channels: mean score; at the ceiling share of failures, and mean score of the other runs."""


@dataclass(frozen=True, slots=True)
class Look:
    """One window, on one night, by one channel.

    Attributes:
        since: First day of the window.
        night: The day after its last one.
        channel: What is looked at.
        change: What is seen.
        window: Runs of the window that count in the channel.
        before: Runs of the days before that do.
        failed_below: At the ceiling, the score under which a run failed.
    """

    since: int
    night: int
    channel: str
    change: ScoreChange | FailureChange
    window: Arm
    before: Arm
    failed_below: float | None

    @property
    def weeks(self) -> int:
        """Length of the window."""
        return (self.night - self.since) // WEEK


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
                yield from before.looks(window, night)


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
        return f"{len(window)} of {SMALLEST_WINDOW} runs in the last {LONGEST_WINDOW} days"
    days = _number_of_days(window)
    if days < SMALLEST_WINDOW_DAYS:
        return f"runs on {days} of {SMALLEST_WINDOW_DAYS} days in the last {LONGEST_WINDOW} days"
    return None


def shortage_of_baseline(before: Arm, since: int) -> str | None:
    """Return what the days before a window lack; None if they have enough."""
    if len(before) < SMALLEST_BASELINE:
        return f"{len(before)} of {SMALLEST_BASELINE} runs before the recent weeks"
    span, days = since - int(before.days[0]), _number_of_days(before)
    if span < SMALLEST_SPAN:
        return f"{span} of {SMALLEST_SPAN} days of history before the recent weeks"
    if days < SMALLEST_DAYS:
        return f"runs on {days} of {SMALLEST_DAYS} days before the recent weeks"
    if np.ptp(before.scores) == 0 and failed_below(before.scores) is None:
        return "scores that vary: all before the recent weeks are the same"
    return None


def _number_of_days(runs: Arm) -> int:
    return 1 + int(np.count_nonzero(np.diff(runs.days)))


@dataclass(frozen=True, slots=True)
class _Before:
    """What windows that begin on a day are compared with; ``passes`` at the ceiling only."""

    since: int
    runs: Arm
    levels: Levels
    scores: ScoresBefore
    failed_below: float | None

    def looks(self, window: Arm, night: int) -> Iterator[Look]:
        """Yield what each channel sees in a window."""
        below = self.failed_below
        if below is None:
            change = self.scores.change(window)
            yield Look(self.since, night, SCORES, change, window, self.runs, None)
            return
        failures = failure_change(self.runs, window, self.levels, below)
        yield Look(self.since, night, FAILURES, failures, window, self.runs, below)
        passes = window.only(window.scores >= below)
        if self.scores.varies and shortage_of_window(passes) is None:
            change = self.scores.change(passes)
            yield Look(self.since, night, PASSES, change, passes, self.scores.runs, below)


def _before(runs: Arm, since: int, levels: Levels) -> _Before | None:
    before = baseline(runs, since)
    if shortage_of_baseline(before, since) is not None:
        return None
    below = failed_below(before.scores)
    scored = before if below is None else before.only(before.scores >= below)
    return _Before(since, before, levels, ScoresBefore(scored, levels), below)
