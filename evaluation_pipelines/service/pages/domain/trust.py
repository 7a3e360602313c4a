"""Agreement of automatic with human scores, in sentences and a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.formatting import DASH, interval, percent, points, signed, whole
from evaluation_pipelines.scorecards.domain.calibration import (
    LARGE_ERROR,
    MIN_PAIRS,
    Agreement,
    AgreementEstimate,
)

AUDIT = "audit"
"""The sample that is drawn at random; scores that people chose to correct are no measure."""


_ESTIMATES = ("off", "bias", "mae", "spearman", "kappa")

CSV_COLUMNS = {
    "profile_id": pl.String,
    "profile_version": pl.Int64,
    "sample": pl.String,
    "n": pl.Int64,
    "people": pl.Int64,
    "missing": pl.String,
    **{f"{name}{end}": pl.Float64 for name in _ESTIMATES for end in ("", "_low", "_high")},
}
"""Columns of the downloaded table; the ends are those of 95% intervals."""


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
        needed = f"A profile needs {MIN_PAIRS} blind reviews. The most so far is {most}."
        return "Not measured yet", f"{needed} {_waiting(waiting)}"
    worst = max(known, key=lambda each: each.mae.value or 0.0)
    name = f"{worst.profile_id} v{worst.profile_version}"
    furthest = "" if len(known) == 1 else f", the furthest of {len(known)} profiles"
    return (
        f"Within {points(worst.mae.value)} points of human scores on average",
        f"Profile {name}{furthest}. {_waiting(waiting)}",
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
    ends = found.off.interval
    return TrustLine(
        f"{found.profile_id} v{found.profile_version}",
        found.n,
        max(0, MIN_PAIRS - found.n),
        percent(found.off.value),
        "" if ends is None else interval(*map(percent, ends)),
        signed(found.bias.value) if found.bias.value is not None else DASH,
        "" if found.bias.interval is None else interval(*map(signed, found.bias.interval)),
        points(found.mae.value),
        found.missing or "",
    )


def trust_row(found: Agreement) -> tuple[object, ...]:
    """Return CSV_COLUMNS of an agreement."""
    estimates: list[AgreementEstimate] = [getattr(found, name) for name in _ESTIMATES]
    ends = [(each.value, *(each.interval or (None, None))) for each in estimates]
    key = found.profile_id, found.profile_version, found.sample
    return (*key, found.n, found.people, found.missing, *(each for three in ends for each in three))


def _side(bias: float) -> str:
    return "too high" if bias > 0 else "too low"


def _ends(estimate: AgreementEstimate) -> str:
    if estimate.interval is None:
        return ""
    low, high = estimate.interval
    if low <= 0 <= high:
        return f" ({points(-low)} too low to {points(high)} too high)"
    smaller, larger = sorted(abs(each) for each in estimate.interval)
    return f" ({points(smaller)} to {points(larger)})"


def _waiting(reviews: int) -> str:
    if not reviews:
        return "No session is awaiting review."
    sessions = "1 session is" if reviews == 1 else f"{whole(reviews)} sessions are"
    return f"{sessions} awaiting review."
