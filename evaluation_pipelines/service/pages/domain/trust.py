"""Agreement of automatic with human scores, in sentences and a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from evaluation_pipelines.formatting import interval, percent, pluralize, points, signed, whole
from evaluation_pipelines.numerics.estimates import Estimate
from evaluation_pipelines.scorecards.domain.calibration import (
    LARGE_ERROR,
    MIN_PAIRS,
    Agreement,
)

AUDIT = "audit"
"""The sample that is drawn at random; scores that people chose to correct are no measure."""


@dataclass(frozen=True, slots=True)
class TrustLine:
    """A line of the table; texts of profiles are not escaped.

    ``lacks`` is the number of reviews without which nothing is shown but their number.
    """

    profile: str
    reviews: int
    lacks: int
    off: str
    off_interval: str
    bias: str
    bias_interval: str
    mean_error: str
    missing: str


def answer(found: Sequence[Agreement], waiting: int) -> tuple[str, str]:
    """Return how far automatic scores are from human ones, and what is left to do.

    Args:
        found: The agreements of all profile versions.
        waiting: Number of sessions awaiting review.
    """
    audits = [each for each in found if each.sample == AUDIT]
    known = [each for each in audits if each.bias.value is not None]
    if not known:
        most = max((each.n for each in audits), default=0)
        so_far = f"the most so far is {most}" if most else "none so far"
        needed = f"A profile needs {MIN_PAIRS} blind reviews, {so_far}."
        return "Not measured yet", f"{needed} {_waiting(waiting)}"
    worst = max(known, key=lambda each: each.mae.value or 0.0)
    name = f"{worst.profile_id} v{worst.profile_version}"
    furthest = "" if len(known) == 1 else f", the furthest of {len(known)} profiles"
    return (
        f"Within {points(worst.mae.value)} points of human scores on average",
        f"{pluralize(worst.n, 'blind review')}, profile {name}{furthest}. {_waiting(waiting)}",
    )


def sentence(found: Agreement) -> str:
    """Return how a profile version with enough reviews differs from them."""
    bias = found.bias.value or 0.0
    return (
        f"{found.profile_id} v{found.profile_version}: {points(abs(bias))} points "
        f"{_side(bias)} on average{_ends(found.bias)}. {percent(found.off.value)} of "
        f"{whole(found.n)} scores are off by more than {LARGE_ERROR:g} points."
    )


def trust_line(found: Agreement) -> TrustLine:
    """Return the line of a profile version."""
    off, bias = found.off, found.bias
    return TrustLine(
        f"{found.profile_id} v{found.profile_version}",
        found.n,
        max(0, MIN_PAIRS - found.n),
        percent(off.value),
        interval(percent(off.low), percent(off.high)),
        signed(bias.value),
        interval(signed(bias.low), signed(bias.high)),
        points(found.mae.value),
        found.missing or "",
    )


def _side(bias: float) -> str:
    return "too high" if bias > 0 else "too low"


def _ends(estimate: Estimate) -> str:
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return ""
    if low <= 0 <= high:
        return f" ({points(-low)} too low to {points(high)} too high)"
    smaller, larger = sorted((abs(low), abs(high)))
    return f" ({points(smaller)} to {points(larger)})"


def _waiting(reviews: int) -> str:
    if not reviews:
        return "No session is awaiting review."
    return f"{pluralize(reviews, 'session')} {'is' if reviews == 1 else 'are'} awaiting review."
