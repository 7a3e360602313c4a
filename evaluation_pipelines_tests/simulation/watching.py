"""How often the regression watch cries where nothing changed, and finds what did."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.regressions import ALERT, Look, looks, verdict
from evaluation_pipelines.comparison.domain.score_change import ALONE, boundary
from evaluation_pipelines.comparison.domain.verdicts import ALPHA
from evaluation_pipelines_tests.simulation.histories import History, history
from evaluation_pipelines_tests.simulation.measure import Share

LARGEST_FALSE = 0.05


@dataclass(slots=True)
class Watched:
    """What a kind of history gave.

    Attributes:
        kind: The kind.
        false: Quarters with an alert about a model that did not change.
        found: Drops that raised an alert within 28 nights.
        covered: Intervals that hold the truth: on all nights of a quarter, or of the first alert.
        nights: Nights from a drop to its alert.
        off: Days from the drop to the day that the alert names.
    """

    kind: History
    false: Share = field(default_factory=Share)
    found: Share = field(default_factory=Share)
    covered: Share = field(default_factory=Share)
    nights: list[int] = field(default_factory=list)
    off: list[int] = field(default_factory=list)

    @property
    def median_night(self) -> float:
        """Median night of an alert."""
        return median(self.nights) if self.nights else math.nan

    def is_noisy(self) -> bool:
        """Return True if there are more false alerts than allowed, beyond chance."""
        limit = LARGEST_FALSE + 2 * math.sqrt(0.05 * 0.95 / max(self.false.trials, 1))
        return self.false.trials > 0 and self.false.value > limit


def watch(kind: History, histories: int, seed: int = 2026) -> Watched:
    """Look at histories night after night, and count."""
    random, measured = np.random.default_rng(seed), Watched(kind)
    for _ in range(histories):
        if kind.has_drop:
            _count_drop(measured, history(kind, 0, random))
        else:
            quarter = [history(kind, model, random) for model in range(kind.models)]
            _count_quarter(measured, quarter)
    return measured


def alerts(found: Iterable[Look], models: int) -> list[Look]:
    """Return the looks that raise an alert in a report of some models."""
    return [look for look in found if verdict(look, models) == ALERT]


def _count_quarter(measured: Watched, runs: list[Arm]) -> None:
    kind, crossed = measured.kind, False
    for run in runs:
        seen = list(looks(run, kind.nights))
        crossed |= bool(alerts(seen, kind.models))
        measured.covered.add(
            is_hit=all(
                abs(look.change.deviates) <= boundary(ALPHA, look.weeks, ALONE) for look in seen
            )
        )
    measured.false.add(is_hit=crossed)


def _count_drop(measured: Watched, runs: Arm) -> None:
    kind = measured.kind
    raised = alerts(looks(runs, kind.nights), kind.models)
    measured.found.add(is_hit=bool(raised))
    if not raised:
        return
    night = min(look.night for look in raised)
    first = max(
        (look for look in raised if look.night == night), key=lambda look: -look.change.deviates
    )
    measured.nights.append(night - kind.before)
    measured.off.append(abs(first.since - kind.before))
    share = float((first.window.days >= kind.before).mean())
    share -= float((first.before.days >= kind.before).mean())
    low, high = first.change.ends(boundary(ALPHA, first.weeks, ALONE))
    measured.covered.add(is_hit=low <= -kind.lost * share <= high)
