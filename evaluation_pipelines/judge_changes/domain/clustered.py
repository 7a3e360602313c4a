"""Weighted means with errors of people.

The variance is the bias-reduced one of Bell and McCaffrey ("Bias reduction in standard errors for
linear regression with multi-stage samples", 2002) for the mean. Each person is one observation
``m_p`` with the share ``a_p`` of all weights, and its squared residual is divided by what is
expected of it under working variances ``v_p = r + (1 - r) / n_p``, where r is how much the values
of a person are alike. The degrees of freedom are the Satterthwaite approximation under the same
variances: a person with most of the sessions leaves few.
"""

from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON
from evaluation_pipelines.numerics.estimates import Codes, Estimate, Numbers
from evaluation_pipelines.numerics.shares import SMALLEST_CORRELATION
from evaluation_pipelines.numerics.student import t_quantile


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
        """Half of the width of the 95 % interval; ``None`` without a variance."""
        if self.variance is None:
            return None
        return t_quantile(self.freedom) * float(np.sqrt(self.variance))

    @property
    def estimate(self) -> Estimate:
        """The figure with its 95 % interval."""
        half = self.half_width
        if half is None:
            return Estimate(self.value)
        return Estimate(self.value, self.value - half, self.value + half)

    def minus(self, other: "Mean") -> "Mean":
        """Return the difference of two figures; their variances are added (Welch)."""
        value = self.value - other.value
        people, sessions = min(self.people, other.people), min(self.sessions, other.sessions)
        if self.variance is None or other.variance is None:
            return Mean(value, None, 0.0, people, sessions)
        parts = ((self.variance, self.freedom), (other.variance, other.freedom))
        variance = self.variance + other.variance
        squares = sum(part**2 / freedom for part, freedom in parts)
        freedom = variance**2 / squares if squares > 0 else min(each for _, each in parts)
        return Mean(value, variance, freedom, people, sessions)


def weighted_mean(values: Numbers, weights: Numbers, people: Codes) -> Mean:
    """Return a weighted mean with errors of people.

    Args:
        values: One per session, at least one.
        weights: Positive weight of each session.
        people: Person of each session; all unknown ones (``UNKNOWN_PERSON``) are one unit, which
            does not count as a person.
    """
    units, codes = np.unique(people, return_inverse=True)
    by_person = np.bincount(codes, weights=weights)
    means = np.bincount(codes, weights=weights * values) / by_person
    shares = by_person / by_person.sum()
    value = float(shares @ means)
    known = int(np.sum(units != UNKNOWN_PERSON))
    if len(units) < 2:
        return Mean(value, None, 0.0, known, len(values))
    alike = _correlation(values, codes)
    sizes = by_person**2 / np.bincount(codes, weights=weights**2)
    working = alike + (1 - alike) / sizes
    expected = working * (1 - 2 * shares) + float(shares**2 @ working)
    factors = shares**2 * working / expected
    variance = float(factors @ (means - value) ** 2)
    return Mean(value, variance, _freedom(shares, factors, working), known, len(values))


def _freedom(shares: Numbers, factors: Numbers, working: Numbers) -> float:
    """Return ``tr(BV)^2 / tr(BVBV)`` of the variance as a quadratic form of people's means.

    ``B = (I - 1 a')' diag(c) (I - 1 a')``, and V has the working variances on its diagonal.
    """
    residuals = np.eye(len(shares)) - shares[None, :]
    form = (residuals.T @ (factors[:, None] * residuals)) * working[None, :]
    return float(np.trace(form) ** 2 / np.trace(form @ form))


def _correlation(values: Numbers, codes: Codes) -> float:
    """Return the correlation of two values of a person, by the analysis of variance.

    Donner and Koval, "The estimation of intraclass correlation in the analysis of family data",
    1980. At least ``SMALLEST_CORRELATION``: few people say little about it.
    """
    sizes = np.bincount(codes)
    number, groups = len(values), len(sizes)
    if number == groups:
        return 1.0
    means = np.bincount(codes, weights=values) / sizes
    between = float(sizes @ (means - values.mean()) ** 2) / (groups - 1)
    within = float(np.sum((values - means[codes]) ** 2)) / (number - groups)
    typical = (number - float(sizes @ sizes) / number) / (groups - 1)
    total = between + (typical - 1) * within
    if total <= 0:
        return 1.0
    return min(max((between - within) / total, SMALLEST_CORRELATION), 1.0)
