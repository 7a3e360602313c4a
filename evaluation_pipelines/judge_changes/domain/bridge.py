"""Split of a shift of the mean score into the parts of the judge and of the agents.

The variance is the bias-reduced one of Bell and McCaffrey ("Bias reduction in standard errors for
linear regression with multi-stage samples", 2002) for the mean. Each person is one observation
``m_p`` with the share ``a_p`` of all weights, and its squared residual is divided by what is
expected of it under working variances ``v_p = r + (1 - r) / n_p``, where r is how much the values
of a person are alike. The degrees of freedom are the Satterthwaite approximation under the same
variances: a person with most of the sessions leaves few.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON
from evaluation_pipelines.comparison.domain.runs import LARGEST_UNKNOWN, PEOPLE, SESSIONS
from evaluation_pipelines.numerics.estimates import Codes, Estimate, Numbers
from evaluation_pipelines.numerics.shares import SMALLEST_CORRELATION
from evaluation_pipelines.numerics.student import t_quantile

ALIKE_IN_PARTS = 0.5
"""How much of what a person's sessions have in common they have in common in another part, too:
a working value, which decides degrees of freedom and small corrections but not what is right."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A figure in points with its error.

    Attributes:
        value: The figure.
        variance: Squared standard error; ``None`` for fewer than two people.
        freedom: Degrees of freedom of the variance.
        people: Number of people, the unknown ones left out.
        sessions: Number of sessions.
    """

    value: float
    variance: float | None
    freedom: float
    people: int
    sessions: int

    @property
    def half_width(self) -> float | None:
        """Half of the width of the 95% interval; ``None`` without a variance."""
        if self.variance is None:
            return None
        return t_quantile(self.freedom) * float(np.sqrt(self.variance))

    @property
    def estimate(self) -> Estimate:
        """The figure with its 95% interval."""
        half = self.half_width
        if half is None:
            return Estimate(self.value)
        return Estimate(self.value, self.value - half, self.value + half)


@dataclass(frozen=True, slots=True)
class Part:
    """Sessions whose weighted mean is a part of a sum.

    Attributes:
        values: One per session, at least one.
        weights: Positive weight of each session.
        people: Person of each session, numbered alike in all parts; all unknown ones
            (``UNKNOWN_PERSON``) of a part are one unit, which does not count as a person.
        sign: 1 or -1: whether the mean is added or taken away.
    """

    values: Numbers
    weights: Numbers
    people: Codes
    sign: int = 1


def weighted_mean(values: Numbers, weights: Numbers, people: Codes) -> Mean:
    """Return a weighted mean with errors of people; see ``Part``."""
    return sum_of_means([Part(values, weights, people)])


def sum_of_means(parts: Sequence[Part]) -> Mean:
    """Return the sum of weighted means with errors of people, who may be the same in all of them.

    What a person adds to one mean and to another varies together, so that the errors of the same
    people before and after something cancel as far as these people are alike.
    """
    # Who is unknown in one part is not who is unknown in another.
    codes = [
        np.where(each.people == UNKNOWN_PERSON, UNKNOWN_PERSON - at, each.people)
        for at, each in enumerate(parts)
    ]
    units = np.unique(np.concatenate(codes))
    cells = [
        _cells(part, np.searchsorted(units, own), len(units))
        for part, own in zip(parts, codes, strict=True)
    ]
    value = float(sum(each.sign * each.value for each in cells))
    people = min(int(np.sum(np.unique(each.people) != UNKNOWN_PERSON)) for each in parts)
    sessions = min(len(each.values) for each in parts)
    if any(np.count_nonzero(each.shares) < 2 for each in cells):
        return Mean(value, None, 0.0, people, sessions)
    variance, freedom = _error(cells)
    return Mean(value, variance, freedom, people, sessions)


@dataclass(frozen=True, slots=True)
class _Cells:
    """Means of the units in one part; units without a session in it have a share of 0.

    Attributes:
        sign: That of the part.
        shares: Share of each unit in the weights of the part.
        means: Mean of each unit.
        working: Working variance of each mean.
        common: Working variance that two sessions of a unit have in common.
    """

    sign: int
    shares: Numbers
    means: Numbers
    working: Numbers
    common: float

    @property
    def value(self) -> float:
        """The mean of the part."""
        return float(self.shares @ self.means)


def _cells(part: Part, codes: Codes, units: int) -> _Cells:
    sums = np.bincount(codes, weights=part.weights, minlength=units)
    squares = np.bincount(codes, weights=part.weights**2, minlength=units)
    totals = np.bincount(codes, weights=part.weights * part.values, minlength=units)
    is_there = sums > 0
    safe = np.where(is_there, sums, 1.0)
    alike = _correlation(part.values, np.unique(codes, return_inverse=True)[1])
    scale = float(part.values.var()) or 1.0
    return _Cells(
        part.sign,
        sums / sums.sum(),
        totals / safe,
        scale * np.where(is_there, alike + (1 - alike) * squares / safe**2, 0.0),
        scale * alike,
    )


def _error(cells: Sequence[_Cells]) -> tuple[float, float]:
    """Return the variance of a sum of means, and its degrees of freedom.

    Each person adds ``q`` to the error: a linear form of the means of all people, with the
    variance ``form @ working @ form'`` under the working variances.
    """
    units = np.arange(len(cells[0].shares))
    weights = np.array([each.sign * each.shares for each in cells])
    # forms[p, k, u]: what the mean of unit u in part k adds to q of person p.
    forms = -weights.T[:, :, None] * np.array([each.shares for each in cells])[None]
    forms[units, :, units] += weights.T
    means = np.array([each.means for each in cells])
    residuals = np.einsum("pku,ku->p", forms, means)
    working = _working(cells)
    spread = np.einsum("pku,klu,qlu->pq", forms, working, forms, optimize=True)
    true = np.einsum("ku,klu,lu->u", weights, working, weights)
    factors = true / np.diag(spread)
    scaled = np.sqrt(np.outer(factors, factors)) * spread
    return float(factors @ residuals**2), float(np.trace(scaled) ** 2 / np.sum(scaled**2))


def _working(cells: Sequence[_Cells]) -> Numbers:
    """Return the working covariances of the means of a unit in two parts, by part, part, unit."""
    common = np.array([each.common for each in cells])
    found = np.repeat(
        (ALIKE_IN_PARTS * np.sqrt(np.outer(common, common)))[:, :, None],
        len(cells[0].shares),
        axis=2,
    )
    for at, each in enumerate(cells):
        found[at, at] = each.working
    is_there = np.array([each.shares > 0 for each in cells])
    return np.asarray(found * (is_there[:, None] & is_there[None]))


def _correlation(values: Numbers, codes: Codes) -> float:
    """Return the correlation of two values of a person, by the analysis of variance.

    Donner and Koval, "The estimation of intraclass correlation in the analysis of family data",
    1980. At least ``SMALLEST_CORRELATION``: few people say little about it.
    """
    sizes = np.bincount(codes)
    number, groups = len(values), len(sizes)
    if groups in {1, number}:
        return 1.0
    means = np.bincount(codes, weights=values) / sizes
    between = float(sizes @ (means - values.mean()) ** 2) / (groups - 1)
    within = float(np.sum((values - means[codes]) ** 2)) / (number - groups)
    typical = (number - float(sizes @ sizes) / number) / (groups - 1)
    total = between + (typical - 1) * within
    if total <= 0:
        return 1.0
    return min(max((between - within) / total, SMALLEST_CORRELATION), 1.0)


WIDE = 2.0
"""A half-width of the judge's part above this is said."""

WIDEST = 4.0
"""A half-width above this cuts the trend."""

FEWEST_PEOPLE = 5
"""Fewer people are said: the judge's part is an indication."""

Trend = Literal["bridged", "cut"]


@dataclass(frozen=True, slots=True)
class Split:
    """A shift of the mean score and its two parts, in points.

    Attributes:
        judges_part: Mean difference of the judges, new minus former, on the same sessions.
        before: Mean score before the change by the former judge; ``None`` without any.
        after: Mean score after it by the new judge; ``None`` without any.
        former: Mean score of the anchors by the former judge.
        new: Mean score of the anchors by the new judge.
        shift: Mean after minus mean before; ``None`` without scores on both sides.
        agents_part: What is left of the shift without the judge's part.
        clustered_by: What is taken to vary together.
    """

    judges_part: Mean
    before: Mean | None
    after: Mean | None
    former: Mean
    new: Mean
    shift: Mean | None
    agents_part: Mean | None
    clustered_by: str

    @property
    def trend(self) -> Trend:
        """Whether the scores before may be shifted to the scale of the new judge."""
        half = self.judges_part.half_width
        return "bridged" if half is not None and half <= WIDEST else "cut"


def split(anchors: pl.DataFrame, before: pl.DataFrame, after: pl.DataFrame) -> Split:
    """Split the shift between two judges.

    Args:
        anchors: ``former_score``, ``new_score`` (means of the samples), ``weight``, ``person``
            (null if unknown), ``organization_id``, ``session_id``, ``session_date``; at least one.
        before: ``total_score`` by the former judge of the sessions before the change, and the
            columns of people and sessions.
        after: The same by the new judge of those after it.
    """
    units, clustered_by = _units(anchors, before, after)
    people, of_before, of_after = units
    weights = anchors["weight"].to_numpy()
    former, new = (anchors[name].to_numpy() for name in ("former_score", "new_score"))
    less, minus = _part(before, of_before, -1), Part(new - former, weights, people, -1)
    more = _part(after, of_after, 1)
    has_both = not (before.is_empty() or after.is_empty())
    return Split(
        weighted_mean(new - former, weights, people),
        None if before.is_empty() else weighted_mean(less.values, less.weights, of_before),
        None if after.is_empty() else sum_of_means([more]),
        weighted_mean(former, weights, people),
        weighted_mean(new, weights, people),
        sum_of_means([more, less]) if has_both else None,
        sum_of_means([more, less, minus]) if has_both else None,
        clustered_by,
    )


def _part(scores: pl.DataFrame, people: Codes, sign: int) -> Part:
    values = scores["total_score"].to_numpy().astype(np.float64)
    return Part(values, np.ones(len(values)), people, sign)


def _units(*frames: pl.DataFrame) -> tuple[list[Codes], str]:
    """Return what varies together in each frame: people, or sessions and days if too few are known.

    A session id is one within its organization; a person may be in several.
    """
    unknown = sum(each["person"].null_count() for each in frames)
    has_people = unknown <= LARGEST_UNKNOWN * sum(each.height for each in frames)
    session = pl.concat_str(
        "organization_id", "session_id", pl.col("session_date").cast(pl.String), separator="\0"
    )
    texts = [each.select(unit="person" if has_people else session) for each in frames]
    sizes = [each.height for each in texts]
    numbered = pl.concat(texts)["unit"].rank("dense").cast(pl.Int64).fill_null(UNKNOWN_PERSON)
    ends = np.cumsum(sizes)
    numbers = numbered.to_numpy()
    codes = [numbers[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    return codes, PEOPLE if has_people else SESSIONS


PERIOD = timedelta(days=4)
"""Length of a period; none lies on both sides of the change."""

FEWEST_SCORES = 3
"""A period with fewer scores has no point."""


@dataclass(frozen=True, slots=True)
class Point:
    """Mean score of the sessions of a period.

    Attributes:
        middle: Days from the change to the middle of the period; negative before it.
        mean: Mean score.
        sessions: Number of sessions.
    """

    middle: float
    mean: float
    sessions: int


def points(scores: pl.DataFrame, changed_on: date) -> list[Point]:
    """Return the means of the periods of ``scores``, in order of time.

    Args:
        scores: ``session_date`` and ``total_score``.
        changed_on: First day of the new judge: a period begins on it.
    """
    days = PERIOD.days
    offset = (pl.col("session_date") - changed_on).dt.total_days()
    grouped = (
        scores.group_by(period=offset.floordiv(days))
        .agg(pl.col("total_score").mean(), pl.len().alias("sessions"))
        .filter(pl.col("sessions") >= FEWEST_SCORES)
        .sort("period")
    )
    return [
        Point((period + 0.5) * days, mean, sessions)
        for period, mean, sessions in grouped.iter_rows()
    ]
