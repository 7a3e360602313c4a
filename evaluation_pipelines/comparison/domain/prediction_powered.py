"""What the mean score would be, had people looked at every session: prediction-powered means.

A judge that is too generous is too generous on average, and a random sample that people scored
tells by how much. It must be random: people override what looks wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluation_pipelines.numerics.estimates import UNKNOWN, Estimate, Numbers, mean, t_quantile

SMALLEST_SAMPLE = 30
SMALLEST_ANSWERED = 0.8
"""Where more of the sample is left unanswered, those who answer choose."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What people said of the sessions that are corrected for.

    Attributes:
        places: Which of the sessions people scored because they were drawn at random.
        labels: Their scores, 0-100, in the same order.
        drawn: How many were drawn, answered or not.
        chosen: How many others were corrected because somebody chose to.
    """

    places: Sequence[int]
    labels: Sequence[float]
    drawn: int
    chosen: int = 0


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """The mean as the judge has it and as people would, or the reason why that is not told."""

    naive: Estimate
    corrected: Estimate = UNKNOWN
    audited: int = 0
    reason: str | None = None


def corrected_mean(automatic: Numbers, audit: Audit) -> CorrectedMean:
    """The mean of what people would have said, from all automatic scores and some of people.

    ``mean(label) + λ (mean(automatic of the others) - mean(automatic of the sample))`` with the λ
    that makes the error smallest: Angelopoulos, Duchi and Zrnic, "PPI++: Efficient
    prediction-powered inference", 2023. Runs count as independent here.

    Args:
        automatic: automatic scores of all sessions, 0-100.
        audit: what people said of some.
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
