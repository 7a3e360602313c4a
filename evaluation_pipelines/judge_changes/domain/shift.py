"""Split of a shift of the mean score into the parts of the judge and of the agents.

The variance is the bias-reduced one of Bell and McCaffrey ("Bias reduction in standard errors for
linear regression with multi-stage samples", 2002) for the mean. Each person is one observation
``m_p`` with the share ``a_p`` of all weights, and its squared residual is divided by what is
expected of it under working variances ``v_p = r + (1 - r) / n_p``, where r is how much the values
of a person are similar. The degrees of freedom are the Satterthwaite approximation under the same
variances: a person with most of the sessions leaves few.
"""

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON
from evaluation_pipelines.comparison.domain.runs import LARGEST_UNKNOWN, PEOPLE, SESSIONS
from evaluation_pipelines.formatting import points
from evaluation_pipelines.numerics.estimates import SMALLEST_CORRELATION, Codes, Numbers, t_quantile

ALIKE_IN_PARTS = 0.5
"""How much of what a person's sessions have in common they have in common in another part, too:
a working value, which decides degrees of freedom and small corrections but not what is right."""


WIDEST = 4.0
"""A half-width of the judge's part above this cuts the trend."""


PERIOD_DAYS = 4
"""Length of a period of ``period_means``."""


FEWEST_SCORES = 3
"""A period with fewer scores has no mean."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A figure in points with its error.

    Attributes:
        value: The figure.
        variance: Squared standard error; ``None`` for fewer than two people.
        freedom: Degrees of freedom of the variance.
        people: Number of people, the unknown ones left out.
    """

    value: float
    variance: float | None
    freedom: float
    people: int

    @property
    def half_width(self) -> float | None:
        """Half of the width of the 95% interval; ``None`` without a variance."""
        if self.variance is None:
            return None
        return t_quantile(self.freedom) * float(np.sqrt(self.variance))

    def columns(self, name: str) -> dict[str, float | None]:
        """Return the figure and the ends of its 95% interval as columns of JUDGE_CHANGES."""
        half = self.half_width
        low, high = (None, None) if half is None else (self.value - half, self.value + half)
        return {name: self.value, f"{name}_low": low, f"{name}_high": high}


@dataclass(frozen=True, slots=True)
class Part:
    """Sessions whose weighted mean is a part of a sum.

    Attributes:
        values: One per session, at least one.
        weights: Positive weight of each session.
        people: Person of each session, with the same numbers in all parts; all unknown ones
            (``UNKNOWN_PERSON``) of a part are one unit, which does not count as a person.
        sign: 1 or -1: whether the mean is added or taken away.
    """

    values: Numbers
    weights: Numbers
    people: Codes
    sign: int = 1


def means_sum(*parts: Part) -> Mean:
    """Return the sum of weighted means with errors of people, who may be the same in all of them.

    What a person adds to one mean and to another varies together, so that the errors of the same
    people before and after something cancel as far as these people are similar. Each person adds
    ``q`` to the error: a linear form of the means of all people, with the variance
    ``form @ working @ form'`` under the working variances.
    """
    # Who is unknown in one part is not who is unknown in another.
    codes = [
        np.where(part.people == UNKNOWN_PERSON, UNKNOWN_PERSON - at, part.people)
        for at, part in enumerate(parts)
    ]
    units = np.unique(np.concatenate(codes))
    shares, means, variances = np.zeros((3, len(parts), len(units)))
    common = np.zeros(len(parts))
    for at, (part, own) in enumerate(zip(parts, codes, strict=True)):
        there = np.isin(units, own)
        *cells, common[at] = _cells(part, own)
        shares[at, there], means[at, there], variances[at, there] = cells
    signs = np.array([part.sign for part in parts])
    value = float(signs @ np.sum(shares * means, axis=1))
    people = min(int(np.sum(np.unique(part.people) != UNKNOWN_PERSON)) for part in parts)
    if np.any(np.count_nonzero(shares, axis=1) < 2):
        return Mean(value, None, 0.0, people)
    # working[k, l, u]: covariance of the means of unit u in two parts.
    together = (shares > 0)[:, None] & (shares > 0)[None]
    working = ALIKE_IN_PARTS * np.sqrt(np.outer(common, common))[:, :, None] * together
    diagonal = np.arange(len(parts))
    working[diagonal, diagonal] = variances
    return Mean(value, *_error(signs[:, None] * shares, shares, means, working), people)


def _error(
    weights: Numbers, shares: Numbers, means: Numbers, working: Numbers
) -> tuple[float, float]:
    """Return the variance of a sum of means, and its degrees of freedom."""
    # forms[p, k, u]: what the mean of unit u in part k adds to q of person p.
    forms = -weights.T[:, :, None] * shares[None]
    units = np.arange(weights.shape[1])
    forms[units, :, units] += weights.T
    residuals = np.einsum("pku,ku->p", forms, means)
    spread = np.einsum("pku,klu,qlu->pq", forms, working, forms, optimize=True)
    factors = np.einsum("ku,klu,lu->u", weights, working, weights) / np.diag(spread)
    scaled = np.sqrt(np.outer(factors, factors)) * spread
    return float(factors @ residuals**2), float(np.trace(scaled) ** 2 / np.sum(scaled**2))


def _cells(part: Part, codes: Codes) -> tuple[Numbers, Numbers, Numbers, float]:
    """Return share, mean and working variance of each unit, and what its sessions share of it."""
    codes = np.unique(codes, return_inverse=True)[1]
    sums = np.bincount(codes, weights=part.weights)
    squares = np.bincount(codes, weights=part.weights**2)
    totals = np.bincount(codes, weights=part.weights * part.values)
    alike = _correlation(part.values, codes)
    scale = float(part.values.var()) or 1.0
    variances = scale * (alike + (1 - alike) * squares / sums**2)
    return sums / sums.sum(), totals / sums, variances, scale * alike


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


def split(anchors: pl.DataFrame, before: pl.DataFrame, after: pl.DataFrame) -> dict[str, Any]:
    """Split the shift between two judges into columns of JUDGE_CHANGES.

    Args:
        anchors: ``former_score``, ``new_score`` (means of the samples), ``weight``, ``person``
            (null if unknown), ``organization_id``, ``session_id``, ``session_date``; at least one.
        before: ``total_score`` by the former judge of the sessions before the change, and the
            columns of people and sessions.
        after: The same by the new judge of those after it.
    """
    (people, of_before, of_after), clustered_by = _units(anchors, before, after)
    weights = anchors["weight"].to_numpy()
    former, new = (anchors[name].to_numpy() for name in ("former_score", "new_score"))
    judges = means_sum(Part(new - former, weights, people))
    half = judges.half_width
    found = {
        "people": judges.people,
        "clustered_by": clustered_by,
        **judges.columns("judges_part"),
        "half_width": half,
        "former_anchor_score": float(np.average(former, weights=weights)),
        "new_anchor_score": float(np.average(new, weights=weights)),
        "before_score": before["total_score"].mean(),
        "before_sessions": before.height,
        "after_score": after["total_score"].mean(),
        "after_sessions": after.height,
        "trend": "bridged" if half is not None and half <= WIDEST else "cut",
        "reason": None,
    }
    if found["trend"] == "cut":
        rough = f"the judge's part is known to within {points(half)} points only"
        found["reason"] = "the anchors are of a single person" if half is None else rough
    if before.is_empty() or after.is_empty():
        return found
    more, less = (
        Part(side["total_score"].to_numpy().astype(np.float64), np.ones(side.height), who, sign)
        for side, who, sign in ((after, of_after, 1), (before, of_before, -1))
    )
    agents = means_sum(more, less, Part(new - former, weights, people, -1))
    shift = means_sum(more, less).value
    return {**found, "shift": shift, **agents.columns("agents_part")}


def _units(*frames: pl.DataFrame) -> tuple[list[Codes], str]:
    """Return what varies together in each frame: people, or sessions and days if too few are known.

    A session id is one within its organization; a person may be in several.
    """
    unknown = sum(frame["person"].null_count() for frame in frames)
    has_people = unknown <= LARGEST_UNKNOWN * sum(frame.height for frame in frames)
    session = pl.concat_str(
        "organization_id", "session_id", pl.col("session_date").cast(pl.String), separator="\0"
    )
    texts = [frame.select(unit="person" if has_people else session) for frame in frames]
    numbers = pl.concat(texts)["unit"].rank("dense").cast(pl.Int64).fill_null(UNKNOWN_PERSON)
    ends = np.cumsum([frame.height for frame in frames])
    return np.split(numbers.to_numpy(), ends[:-1]), PEOPLE if has_people else SESSIONS


def period_means(scores: pl.DataFrame, changed_on: date) -> pl.DataFrame:
    """Return ``middle`` (days from the change), ``mean`` and ``sessions`` of periods of 4 days.

    None lies on both sides of the change. Those with fewer than three scores are left out.

    Args:
        scores: ``session_date`` and ``total_score``.
        changed_on: First day of the new judge: a period begins on it.
    """
    offset = (pl.col("session_date") - changed_on).dt.total_days()
    return (
        scores.group_by(middle=(offset.floordiv(PERIOD_DAYS) + 0.5) * PERIOD_DAYS)
        .agg(mean=pl.col("total_score").mean(), sessions=pl.len())
        .filter(pl.col("sessions") >= FEWEST_SCORES)
        .sort("middle")
    )
