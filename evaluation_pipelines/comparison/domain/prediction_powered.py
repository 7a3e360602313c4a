"""Prediction-powered means: the mean score if people had scored every session.

A judge that is too generous is too generous on average, and a random sample scored by people shows
by how much. The sample must be random: people override what looks wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.numerics.estimates import UNKNOWN, Estimate, Numbers, mean
from evaluation_pipelines.numerics.student import t_quantile

SMALLEST_SAMPLE = 30
SMALLEST_ANSWERED = 0.8
"""Below this share of answers, the people who answer select the sample."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Scores by people for a set of sessions.

    Attributes:
        places: Indexes of the sessions that people scored because they were drawn at random.
        labels: Their scores, 0-100, in the same order.
        drawn: Number of drawn sessions, answered or not.
        chosen: Number of other sessions that people chose to override.
    """

    places: Sequence[int]
    labels: Sequence[float]
    drawn: int
    chosen: int = 0


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """Automatic and corrected mean, or the reason why there is no corrected one."""

    naive: Estimate
    corrected: Estimate = UNKNOWN
    audited: int = 0
    reason: str | None = None


def corrected_mean(automatic: Numbers, audit: Audit) -> CorrectedMean:
    """Estimate the mean of scores by people from all automatic scores and some by people.

    ``mean(label) + λ (mean(automatic of the others) - mean(automatic of the sample))`` with the λ
    that minimizes the error: Angelopoulos, Duchi and Zrnic, "PPI++: Efficient prediction-powered
    inference", 2023. Runs count as independent here.

    Args:
        automatic: Automatic scores of all sessions, 0-100.
        audit: Scores by people for some of them.
    """
    naive, number = mean(automatic).within(0, 100), len(audit.labels)
    reason = _refusal(audit)
    if reason is not None:
        return CorrectedMean(naive, audited=number, reason=reason)
    labels = np.asarray(audit.labels, dtype=np.float64)
    drawn = np.zeros(len(automatic), dtype=bool)
    drawn[list(audit.places)] = True
    sample, others = automatic[list(audit.places)], automatic[~drawn]
    return CorrectedMean(naive, _powered(labels, sample, others), number)


def _refusal(audit: Audit) -> str | None:
    number = len(audit.labels)
    if number < SMALLEST_SAMPLE:
        others = (
            f"; {audit.chosen} more were corrected, but chosen and not drawn at random"
            if audit.chosen
            else ""
        )
        return f"{number} of the {SMALLEST_SAMPLE} audited sessions that it takes{others}"
    if number < SMALLEST_ANSWERED * audit.drawn:
        return (
            f"only {number} of {audit.drawn} sessions that were drawn were scored: "
            "those that were may not be a random sample"
        )
    return None


def _powered(labels: Numbers, sample: Numbers, others: Numbers) -> Estimate:
    number, rest = len(labels), len(others)
    if rest < 2:  # everything was looked at
        return mean(labels).within(0, 100)
    spread = float(np.concatenate([sample, others]).var(ddof=1))
    together = float(np.cov(labels, sample)[0, 1])
    weight = 0.0 if spread < 1e-12 else together / (spread * (1 + number / rest))
    weight = min(max(weight, 0.0), 1.0)
    value = float(labels.mean()) + weight * float(others.mean() - sample.mean())
    variance = float((labels - weight * sample).var(ddof=1)) / number
    variance += weight**2 * float(others.var(ddof=1)) / rest
    half = t_quantile(number - 1) * math.sqrt(variance)
    return Estimate(value, value - half, value + half).within(0, 100)
