"""How often corrected means, calibration and lift hold the truth, where it is known."""

from collections.abc import Iterable

import numpy as np

from evaluation_pipelines.numerics.estimates import Estimate
from evaluation_pipelines_tests.simulation.audits import Judge, estimates
from evaluation_pipelines_tests.simulation.measure import Share
from evaluation_pipelines_tests.simulation.people import Reviews, Wearers, agreements, lifts

IGNORING = "corrected mean, unanswered left out"
"""What no interval of the draw can see if people do not answer at random: its bounds do."""

Ends = tuple[float | None, float | None]
Line = tuple[str, str, Share, Share, float]
"""Figure, scenario, intervals that hold the truth, estimates without interval, median width."""

_LIFT = 0.5


def _ends(estimate: Estimate) -> Ends:
    return estimate.low, estimate.high


def corrected(judge: Judge, periods: int) -> list[Line]:
    """Measure the corrected mean; with unanswered sessions that of their bounds, too."""
    found = list(estimates(judge, periods))
    means, bounds = (
        [
            ((row[f"corrected_score_{low}"], row[f"corrected_score_{high}"]), truth)
            for row, truth in found
        ]
        for low, high in (("low", "high"), ("lowest", "highest"))
    )
    if not judge.unanswered:
        return [_line("corrected mean", judge.name, means)]
    return [
        _line(IGNORING, judge.name, means),
        _line("corrected mean with bounds", judge.name, bounds),
    ]


def calibrated(reviews: Reviews, samples: int) -> list[Line]:
    """Measure share, bias and kappa of the calibration."""
    by_name: dict[str, list[tuple[Ends, float | None]]] = {}
    for name, estimate, truth in agreements(reviews, samples):
        by_name.setdefault(name, []).append((_ends(estimate), truth))
    return [_line(name, reviews.name, values) for name, values in by_name.items()]


def lifted(wearers: Wearers, samples: int) -> list[Line]:
    return [_line("lift", wearers.name, [(_ends(lift), _LIFT) for lift in lifts(wearers, samples)])]


def _line(figure: str, name: str, values: Iterable[tuple[Ends | None, float | None]]) -> Line:
    covered, refused, widths = Share(), Share(), []
    for ends, truth in values:
        low, high = ends or (None, None)
        refused.add(is_hit=low is None)
        if low is not None and high is not None and truth is not None:
            covered.add(is_hit=low <= truth <= high)
            widths.append(high - low)
    return figure, name, covered, refused, float(np.median(widths)) if widths else float("nan")
