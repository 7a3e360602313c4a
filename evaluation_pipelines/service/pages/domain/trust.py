"""How far automatic scores can be trusted, in plain sentences and a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from evaluation_pipelines.formatting import DASH, interval, number, percent, points, signed, whole
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
    """A line of the table; texts of profiles are not escaped."""

    profile: str
    reviews: str
    off: str
    off_interval: str
    bias: str
    bias_interval: str
    mean_error: str
    rank_correlation: str
    missing: str


def answer(found: Sequence[Agreement], waiting: int) -> tuple[str, str]:
    """Return the answer to "can the scores be trusted?", and what is left to do.

    Args:
        found: The agreements of all profile versions.
        waiting: Number of reviews that wait for an answer.
    """
    audits = [each for each in found if each.sample == AUDIT]
    known = [each for each in audits if each.bias.value is not None]
    if not known:
        most = max((each.n for each in audits), default=0)
        return "Not known yet", (
            f"It takes {MIN_PAIRS} reviews of sessions that were drawn at random for one profile; "
            f"the most that a profile has is {most}. {_waiting(waiting)}"
        )
    worst = max(known, key=lambda each: each.mae.value or 0.0)
    return f"Within {points(worst.mae.value)} points of people's scores on average", (
        f"That is {worst.profile_id} version {worst.profile_version}, which differs most of the "
        f"{len(known)} with enough reviews. {_waiting(waiting)}"
    )


def sentence(found: Agreement) -> str:
    """Return what people's reviews say of a profile version that has enough of them."""
    bias = found.bias.value or 0.0
    lean = "too high" if bias > 0 else "too low"
    return (
        f"{found.profile_id} version {found.profile_version}: on average "
        f"{points(abs(bias))} points {lean}"
        f"{_ends(found.bias)}; {percent(found.off.value)} of its scores are off by more than "
        f"{LARGE_ERROR:g} points, by {whole(found.n)} reviews."
    )


def trust_line(found: Agreement) -> TrustLine:
    """Return the line of a profile version; with fewer than MIN_PAIRS reviews it says no share."""
    is_known, ends = found.n >= MIN_PAIRS, found.off.interval
    return TrustLine(
        f"{found.profile_id} version {found.profile_version}",
        whole(found.n),
        percent(found.off.value) if is_known else "too few to say",
        interval(*map(percent, ends)) if is_known and ends is not None else "",
        signed(found.bias.value) if found.bias.value is not None else DASH,
        "" if found.bias.interval is None else interval(*map(signed, found.bias.interval)),
        points(found.mae.value),
        number(found.spearman.value, 2),
        found.missing or "",
    )


def trust_row(found: Agreement) -> tuple[object, ...]:
    """Return CSV_COLUMNS of an agreement."""
    estimates: list[AgreementEstimate] = [getattr(found, name) for name in _ESTIMATES]
    ends = [(each.value, *(each.interval or (None, None))) for each in estimates]
    key = found.profile_id, found.profile_version, found.sample
    return (*key, found.n, found.people, found.missing, *(each for three in ends for each in three))


def _ends(estimate: AgreementEstimate) -> str:
    if estimate.interval is None:
        return ""
    low, high = estimate.interval
    if low <= 0 <= high:
        ends = f"between {points(-low)} too low and {points(high)} too high"
    else:
        smaller, larger = sorted(abs(each) for each in estimate.interval)
        ends = f"between {points(smaller)} and {points(larger)}"
    return f" (95% sure: {ends})"


def _waiting(number_of_reviews: int) -> str:
    return f"Reviews that wait: {whole(number_of_reviews)}."
