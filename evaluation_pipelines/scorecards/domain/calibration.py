"""Agreement of automatic and human scores.

All errors are automatic minus human scores on 0-100: a positive bias means that the profile is too
generous. Figures of the audit sample are weighted by inverse inclusion probabilities. Intervals are
clustered by the person whose session it is, if the people are known.

A profile needs recalibration when its corrections lean one way beyond chance, by a sequential sign
test, valid however often one looks. If a correction made the score lower as often as higher,
``2^n times the integral of p^k (1 - p)^(n - k) over p from 0 to 1``, for k of n corrections that
made it lower, would be a martingale that starts at 1: the mixture of Robbins, "Statistical methods
related to the law of the iterated logarithm" (1970). By Ville's inequality it ever reaches 1/a with
a probability of at most a (Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric,
nonasymptotic confidence sequences", 2021). Half of the error goes to all corrections of a profile
version, half is divided among its criteria (Bonferroni, which needs no independence).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.numerics.estimates import (
    UNKNOWN,
    Codes,
    Estimate,
    Numbers,
    ranks,
    t_quantile,
    weighted_share,
)
from evaluation_pipelines.schemas import CONTENT_KEY

MIN_PAIRS = 30
"""Pairs of an automatic and a human score that a bias and a rank correlation need."""
MIN_KAPPA_PAIRS = 60
"""Pairs that a weighted kappa needs."""
MIN_PEOPLE = 5
"""People whose sessions an estimate needs, where they are known."""
LARGEST_UNKNOWN = 0.2
"""If the people of more sessions are unknown, sessions count as independent."""
LARGE_ERROR = 10.0
"""Points; an error above it means that automatic score and person saw different things."""
FEWEST_LARGE_ERRORS = 5
"""With fewer large errors in a sample its spread says little about what it missed."""

_BANDS = 10

ESTIMATES = ("off", "bias", "mae", "spearman", "kappa")

AGREEMENT_COLUMNS = {
    "profile_id": pl.String,
    "profile_version": pl.Int64,
    "sample": pl.String,
    "n": pl.Int64,
    "people": pl.Int64,
    "missing": pl.String,
    **{f"{name}{end}": pl.Float64 for name in ESTIMATES for end in ("", "_low", "_high")},
}
"""Columns of an agreement as a record; the ends are those of 95% intervals."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of automatic and human scores for one profile version and kind of sample.

    Attributes:
        profile_id: The profile.
        profile_version: Its version.
        sample: ``audit`` (drawn at random), ``audit, unweighted`` (with unknown probabilities) or
            ``chosen`` (chosen by people).
        n: Number of sessions.
        people: Number of people whose sessions they are; None if they are not known.
        off: Share of the sessions whose scores differ by more than ``LARGE_ERROR``.
        missing: What bias, mean absolute difference and rank correlation lack; None if nothing.
        bias: Mean of automatic minus human.
        mae: Mean absolute difference.
        spearman: Rank correlation.
        kappa: Quadratic weighted kappa over ten bands of ten points.
    """

    profile_id: str
    profile_version: int
    sample: str
    n: int
    people: int | None
    off: Estimate
    missing: str | None
    bias: Estimate = UNKNOWN
    mae: Estimate = UNKNOWN
    spearman: Estimate = UNKNOWN
    kappa: Estimate = UNKNOWN

    def record(self) -> dict[str, Any]:
        """Return AGREEMENT_COLUMNS."""
        parts = {"": "value", "_low": "low", "_high": "high"}
        numbers = {
            f"{name}{end}": getattr(getattr(self, name), part)
            for name in ESTIMATES
            for end, part in parts.items()
        }
        return {name: numbers.get(name, getattr(self, name, None)) for name in AGREEMENT_COLUMNS}


@dataclass(frozen=True, slots=True)
class Pairs:
    """Automatic and human scores of the same sessions, 0-100.

    ``weights`` are inverse inclusion probabilities; sessions with the same code in ``clusters`` are
    of the same person.
    """

    automatic: Numbers
    human: Numbers
    weights: Numbers
    clusters: Codes

    @property
    def errors(self) -> Numbers:
        """Automatic minus human scores."""
        return np.asarray(self.automatic - self.human)

    def without(self, cluster: int) -> "Pairs":
        """Return the pairs of all other clusters."""
        kept = self.clusters != cluster
        parts = (self.automatic, self.human, self.weights, self.clusters)
        return Pairs(*(part[kept] for part in parts))


def agreements(overrides: pl.DataFrame) -> list[Agreement]:
    """Return the agreement per profile version, separately for audit sample and chosen sessions.

    Of each content the newest override of each sample counts: a later override by choice does not
    change the random sample. Overrides without an automatic score are left out.

    Args:
        overrides: OVERRIDES with ``person_id`` and ``inclusion_probability``, null if unknown.
    """
    is_known = pl.col("inclusion_probability").is_not_null()
    sample = (
        pl.when(pl.col("source") != "audit")
        .then(pl.lit("chosen"))
        .when(is_known)
        .then(pl.lit("audit"))
        .otherwise(pl.lit("audit, unweighted"))
    )
    pairs = _newest(overrides.with_columns(sample=sample), "sample").sort(
        "profile_id", "profile_version", "sample", maintain_order=True
    )
    groups = pairs.group_by("profile_id", "profile_version", "sample", maintain_order=True)
    return [
        _agreement((str(profile), int(str(version)), str(sample)), group)
        for (profile, version, sample), group in groups
    ]


def _agreement(which: tuple[str, int, str], group: pl.DataFrame) -> Agreement:
    has_people = group["person_id"].null_count() <= LARGEST_UNKNOWN * group.height
    person = pl.col("person_id").rank("dense")
    unit = person.fill_null(0) if has_people else pl.int_range(pl.len())
    weight = pl.lit(1.0) if which[2] != "audit" else 1 / pl.col("inclusion_probability")
    numbers = group.select("automatic_100", "override_100", weight=weight, unit=unit.cast(pl.Int64))
    pairs = Pairs(*(column.to_numpy() for column in numbers))
    people = group["person_id"].drop_nulls().n_unique() if has_people else None
    return agreement(which, pairs, people)


def agreement(which: tuple[str, int, str], pairs: Pairs, people: int | None = None) -> Agreement:
    """Return the agreement of paired scores; ``which`` is profile, version and sample."""
    number, large = len(pairs.errors), np.abs(pairs.errors) > LARGE_ERROR
    missing = _missing(number, int(large.sum()), people)
    found = (*which, number, people, _off(large.astype(np.float64), pairs), missing)
    if missing is not None:
        return Agreement(*found)
    return Agreement(
        *found,
        bias=_jackknife(pairs, lambda part: _mean(part.errors, part.weights)),
        mae=_jackknife(pairs, lambda part: _mean(np.abs(part.errors), part.weights)),
        spearman=_correlated(pairs, spearman),
        kappa=_correlated(pairs, kappa) if number >= MIN_KAPPA_PAIRS else UNKNOWN,
    )


def _missing(number: int, large: int, people: int | None) -> str | None:
    if number < MIN_PAIRS:
        return f"not yet: {number} of {MIN_PAIRS}"
    if people is not None and people < MIN_PEOPLE:
        return f"too few people: {people} of {MIN_PEOPLE}"
    if large < FEWEST_LARGE_ERRORS:
        return f"too few large errors: {large} of {FEWEST_LARGE_ERRORS}"
    return None


def spearman(pairs: Pairs) -> float | None:
    """Return the correlation of the ranks (ties share their mean); ``None`` without spread."""
    first, second = ranks(pairs.automatic), ranks(pairs.human)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def kappa(pairs: Pairs) -> float | None:
    """Return Cohen's quadratic weighted kappa of scores in ten bands.

    ``1 - sum(d² observed) / sum(d² expected)``, d being the distance of the bands (Cohen, "Weighted
    kappa", 1968); ``None`` if one of both has all scores in one band, whatever the other says.
    """
    first, second = _bands(pairs.automatic), _bands(pairs.human)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    weights = pairs.weights / pairs.weights.sum()
    observed = float(weights @ (first - second) ** 2)
    apart = float(weights @ first**2 + weights @ second**2)
    return 1 - observed / (apart - 2 * float(weights @ first) * float(weights @ second))


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


def _mean(values: Numbers, weights: Numbers) -> float:
    return float(weights @ values / weights.sum())


def _off(large: Numbers, pairs: Pairs) -> Estimate:
    """Return a share with Wilson's interval, wider for similar sessions of a person."""
    found = weighted_share(large, pairs.clusters, pairs.weights)
    if found is None:
        return Estimate(_mean(large, pairs.weights))
    return Estimate(found.value, *found.ends())


def _jackknife(pairs: Pairs, statistic: Callable[[Pairs], float]) -> Estimate:
    """Return a statistic with its interval from its values without each of the clusters."""
    value, left = statistic(pairs), [statistic(others) for others in _without_each(pairs)]
    half = _half_width(pairs, np.array(left))
    return Estimate(value, value - half, value + half)


def _without_each(pairs: Pairs) -> Iterator[Pairs]:
    """Yield the pairs without each of the clusters, in the order of their codes."""
    return (pairs.without(cluster) for cluster in np.unique(pairs.clusters))


def _half_width(pairs: Pairs, left: Numbers) -> float:
    """Return half of Student's interval from the values ``left`` without each of the clusters.

    The degrees of freedom are those of as many clusters of equal weight as have the same sum of
    squares. Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11.
    """
    codes = np.unique(pairs.clusters, return_inverse=True)[1]
    weights = np.bincount(codes, weights=pairs.weights)
    freedom = max(float(weights.sum() ** 2 / (weights @ weights)) - 1, 1.0)
    groups = len(left)
    error = np.sqrt((groups - 1) / groups * ((left - left.mean()) ** 2).sum())
    return t_quantile(freedom) * float(error)


def _correlated(pairs: Pairs, statistic: Callable[[Pairs], float | None]) -> Estimate:
    """Return a statistic between -1 and 1 with its interval, computed on atanh.

    Without an interval if one cluster decides whether the statistic is known, or it is -1 or 1.
    """
    value, left = statistic(pairs), [statistic(others) for others in _without_each(pairs)]
    known = np.array([figure for figure in left if figure is not None])
    if value is None or len(known) < len(left) or np.abs([value, *known]).max() > 1 - 1e-9:
        return Estimate(value)
    middle, half = np.arctanh(value), _half_width(pairs, np.arctanh(known))
    return Estimate(value, float(np.tanh(middle - half)), float(np.tanh(middle + half)))


def _bands(scores: Numbers) -> Numbers:
    return np.minimum(np.floor(scores * _BANDS / 100), _BANDS - 1)


FALSE_NOTICES = 0.05
"""Probability that a profile version without a lean ever has a notice."""

_VERSION = ("profile_id", "profile_version")


@dataclass(frozen=True, slots=True)
class Lean:
    """Corrections of a profile version: all of them, or those that name a criterion.

    Attributes:
        profile_id: The profile.
        profile_version: Its version.
        criterion_id: The criterion; ``None`` for all corrections.
        corrections: Number of corrected session contents.
        too_high: Number of them whose automatic score was above the human one.
        annotators: Number of people who made them.
        required: Evidence that counts as beyond chance.
    """

    profile_id: str
    profile_version: int
    criterion_id: str | None
    corrections: int
    too_high: int
    annotators: int
    required: float

    @property
    def is_beyond_chance(self) -> bool:
        """True if the corrections lean one way beyond chance."""
        return evidence(self.corrections, self.too_high) >= self.required

    @property
    def notice(self) -> str:
        """The lean as a sentence without a period."""
        lowered = self.too_high * 2 > self.corrections
        count = self.too_high if lowered else self.corrections - self.too_high
        criterion = "" if self.criterion_id is None else f", criterion {self.criterion_id}"
        people = "1 person" if self.annotators == 1 else f"{self.annotators} people"
        return (
            f"recalibrate {self.profile_id} version {self.profile_version}{criterion}: {count} of "
            f"{self.corrections} corrections (by {people}) made the score "
            f"{'lower' if lowered else 'higher'}, which is beyond chance"
        )


def leans(overrides: pl.DataFrame, criteria: Mapping[tuple[str, int], int]) -> list[Lean]:
    """Return the lean of each corrected profile version, and of each criterion named there.

    Confirmations do not count. Of each session content the first correction counts, overall and of
    each criterion: a later one, which can follow from it, would spoil the sequence.

    Args:
        overrides: OVERRIDES.
        criteria: Number of criteria by profile id and version.
    """
    error = (pl.col("automatic_100") - pl.col("override_100")).round(9)
    corrections = (
        overrides.with_columns(error=error)
        .filter(pl.col("error") != 0)
        .sort("made_at", pl.col("override_id").cast(pl.Int64))
    )
    every = _counted(corrections.with_columns(criterion_id=pl.lit(None, pl.String)))
    named = _counted(corrections.filter(pl.col("criterion_id").is_not_null()))
    found = pl.concat([every, named]).sort(*_VERSION, "criterion_id", nulls_last=False)
    return [
        Lean(**row, required=_required(row["criterion_id"], criteria[_version(row)]))
        for row in found.iter_rows(named=True)
    ]


def evidence(corrections: int, too_high: int) -> float:
    """Return the value of the martingale: how much likelier these counts are under some lean."""
    n, k = corrections, too_high
    log_choices = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    # The exponent of thousands of corrections in one direction is beyond a float.
    return math.exp(min(n * math.log(2) - math.log(n + 1) - log_choices, 700.0))


def _version(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["profile_id"], row["profile_version"]


def _required(criterion_id: str | None, criteria: int) -> float:
    return (2 if criterion_id is None else 2 * criteria) / FALSE_NOTICES


def _counted(corrections: pl.DataFrame) -> pl.DataFrame:
    group = (*_VERSION, "criterion_id")
    first = corrections.unique([*CONTENT_KEY, *group], keep="first", maintain_order=True)
    return first.group_by(group, maintain_order=True).agg(
        corrections=pl.len(),
        too_high=(pl.col("error") > 0).sum(),
        annotators=pl.col("annotator").n_unique(),
    )
