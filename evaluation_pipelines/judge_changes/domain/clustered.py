"""Weighted means with errors of people.

The variance is the bias-reduced one of Bell and McCaffrey ("Bias reduction in standard errors for
linear regression with multi-stage samples", 2002) for the mean: each person is one observation with
the weight of their sessions, ``m_p`` with share ``a_p``, and the squared residual of a person is
divided by ``1 - 2 a_p + sum a^2``, its expectation in units of one person's variance. The degrees
of freedom are their Satterthwaite approximation: a person with most of the sessions leaves few.
"""

from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON
from evaluation_pipelines.numerics.estimates import Codes, Estimate, Numbers
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
    expected = 1 - 2 * shares + float(shares @ shares)
    factors = shares**2 / expected
    variance = float(factors @ (means - value) ** 2)
    return Mean(value, variance, _freedom(shares, factors), known, len(values))


def _freedom(shares: Numbers, factors: Numbers) -> float:
    """Return ``tr(B)^2 / tr(B^2)`` of the variance as a quadratic form of people's means.

    ``B = (I - 1 a')' diag(c) (I - 1 a')``.
    """
    residuals = np.eye(len(shares)) - shares[None, :]
    form = residuals.T @ (factors[:, None] * residuals)
    return float(np.trace(form) ** 2 / np.sum(form * form))
