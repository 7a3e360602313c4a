"""Agreement of automatic and human scores, and when a profile needs recalibration.

All errors are automatic minus human scores on 0-100: a positive bias means that the profile is too
generous. Intervals need at least ``MIN_PAIRS`` pairs.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

import polars as pl

from evaluation_pipelines.numerics.student import t_quantile
from evaluation_pipelines.schemas import CONTENT_KEY

MIN_PAIRS = 5
"""Pairs of an automatic and a human score that an interval or a correlation needs."""
LARGE_ERROR = 10.0
"""Points; an error above it means that automatic score and person saw different things."""
FEWEST_LARGE_ERRORS = 5
"""With fewer large errors in a sample its spread says little about what it missed."""
MIN_STREAK = 5
"""Consecutive corrections in one direction that call for a recalibration."""

_BANDS = 10
_TWO_SIDED = 0.975

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class AgreementEstimate:
    """An estimate with its 95 % interval; ``None`` if it is unknown."""

    value: float | None
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of automatic and human scores for one profile version and kind of sample.

    Attributes:
        profile_id: The profile.
        profile_version: Its version.
        sample: ``audit`` (drawn at random) or ``chosen`` (chosen by people).
        n: Number of sessions.
        bias: Mean of automatic minus human.
        mae: Mean absolute difference.
        spearman: Rank correlation.
        kappa: Quadratic weighted kappa over ten bands of ten points.
    """

    profile_id: str
    profile_version: int
    sample: str
    n: int
    bias: AgreementEstimate
    mae: AgreementEstimate
    spearman: AgreementEstimate
    kappa: AgreementEstimate


@dataclass(frozen=True, slots=True)
class Streak:
    """The newest corrections of a profile version, all in one direction.

    ``length`` counts them; ``too_high`` is true if the automatic scores were above the human ones.
    """

    profile_id: str
    profile_version: int
    length: int
    too_high: bool

    @property
    def needs_recalibration(self) -> bool:
        """True if the streak is long enough to act on."""
        return self.length >= MIN_STREAK


def agreements(overrides: pl.DataFrame) -> list[Agreement]:
    """Return the agreement per profile version, separately for audit sample and chosen sessions.

    Of each content the newest override of each sample counts: a later override by choice does not
    change the random sample. Overrides without an automatic score are left out.

    Args:
        overrides: OVERRIDES.
    """
    is_audit = pl.col("source") == "audit"
    sample = pl.when(is_audit).then(pl.lit("audit")).otherwise(pl.lit("chosen"))
    pairs = _newest(overrides.with_columns(sample=sample), "sample").sort(
        "profile_id", "profile_version", "sample", maintain_order=True
    )
    groups = pairs.group_by("profile_id", "profile_version", "sample", maintain_order=True)
    return [
        agreement(
            (str(profile), int(str(version)), str(sample)),
            group["automatic_100"].to_list(),
            group["override_100"].to_list(),
        )
        for (profile, version, sample), group in groups
    ]


def agreement(
    which: tuple[str, int, str], automatic: Sequence[float], human: Sequence[float]
) -> Agreement:
    """Return the agreement of paired scores; ``which`` is profile, version and sample."""
    errors = [a - h for a, h in zip(automatic, human, strict=True)]
    return Agreement(
        *which,
        n=len(errors),
        bias=_mean(errors),
        mae=_mean([abs(each) for each in errors]),
        spearman=spearman(automatic, human),
        kappa=kappa(automatic, human),
    )


def streaks(overrides: pl.DataFrame) -> list[Streak]:
    """Return the newest run of corrections in one direction of each profile version.

    A confirmation ends a run. Of each content only the newest override counts: a session that is
    corrected five times is one correction.
    """
    version_key = ("profile_id", "profile_version")
    newest = _newest(overrides).sort(version_key, maintain_order=True)
    found = []
    for (profile, version), group in newest.group_by(version_key, maintain_order=True):
        errors = (group["automatic_100"] - group["override_100"]).round(9).reverse().to_list()
        length = 0
        while length < len(errors) and errors[length] * errors[0] > 0:
            length += 1
        if length:
            found.append(Streak(str(profile), int(str(version)), length, errors[0] > 0))
    return found


def spearman(first: Sequence[float], second: Sequence[float]) -> AgreementEstimate:
    """Return Pearson's correlation of the ranks (ties share their mean); ``None`` without spread.

    The interval is Fisher's, with the variance ``(1 + r²/2) / (n - 3)`` of Bonett and Wright,
    "Sample size requirements for estimating Pearson, Kendall and Spearman correlations" (2000).
    """
    value = _correlation(_ranks(first), _ranks(second))
    if value is None or len(first) < MIN_PAIRS:
        return AgreementEstimate(None)
    if abs(value) > 1 - 1e-12:
        return AgreementEstimate(value, (value, value))
    half = _z() * math.sqrt((1 + value**2 / 2) / (len(first) - 3))
    center = math.atanh(value)
    return AgreementEstimate(value, (math.tanh(center - half), math.tanh(center + half)))


def kappa(first: Sequence[float], second: Sequence[float]) -> AgreementEstimate:
    """Return Cohen's quadratic weighted kappa of scores in ten bands.

    ``1 - sum(d² observed) / sum(d² expected)``, d being the distance of the bands (Cohen, "Weighted
    kappa", 1968); ``None`` if the expected sum is 0. The interval is the jackknife's.
    """
    pairs = [(_band(a), _band(b)) for a, b in zip(first, second, strict=True)]
    value = _kappa(pairs)
    if value is None or len(pairs) < MIN_PAIRS:
        return AgreementEstimate(None)
    without = [_kappa(pairs[:index] + pairs[index + 1 :]) for index in range(len(pairs))]
    known = [each for each in without if each is not None]
    if len(known) < len(pairs):
        return AgreementEstimate(value)
    middle, n = fmean(known), len(known)
    error = math.sqrt((n - 1) / n * sum((each - middle) ** 2 for each in known))
    half = t_quantile(n - 1) * error
    return AgreementEstimate(value, (max(value - half, -1.0), min(value + half, 1.0)))


def _newest(overrides: pl.DataFrame, *also_by: str) -> pl.DataFrame:
    """Return the newest override of each content and profile version, oldest first.

    Overrides without an automatic score are left out.
    """
    return (
        overrides.filter(pl.col("automatic_100").is_not_null())
        .sort("made_at", pl.col("override_id").cast(pl.Int64))
        .unique(
            [*CONTENT_KEY, "profile_id", "profile_version", *also_by],
            keep="last",
            maintain_order=True,
        )
    )


def _mean(values: Sequence[float]) -> AgreementEstimate:
    """Return the mean with Student's interval."""
    if len(values) < MIN_PAIRS:
        return AgreementEstimate(fmean(values))
    half = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return AgreementEstimate(fmean(values), (fmean(values) - half, fmean(values) + half))


def _kappa(pairs: Sequence[tuple[int, int]]) -> float | None:
    observed = sum((a - b) ** 2 for a, b in pairs) / len(pairs)
    rows, columns = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    expected = (
        sum((a - b) ** 2 * rows[a] * columns[b] for a in rows for b in columns) / len(pairs) ** 2
    )
    return None if expected == 0 else 1 - observed / expected


def _band(score: float) -> int:
    return min(int(score * _BANDS / 100), _BANDS - 1)


def _ranks(values: Sequence[float]) -> list[float]:
    return pl.Series(values, dtype=pl.Float64).rank("average").to_list()


def _correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    mean_1, mean_2 = fmean(first), fmean(second)
    spread_1 = math.fsum((each - mean_1) ** 2 for each in first)
    spread_2 = math.fsum((each - mean_2) ** 2 for each in second)
    if spread_1 == 0 or spread_2 == 0:
        return None
    both = math.fsum((a - mean_1) * (b - mean_2) for a, b in zip(first, second, strict=True))
    return both / math.sqrt(spread_1 * spread_2)


def _z() -> float:
    return NormalDist().inv_cdf(_TWO_SIDED)
