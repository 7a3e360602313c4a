"""Automatic scores that people checked, and the mean of each model corrected by them.

A corrected mean estimates the mean score if people had scored every session.

A judge that is too generous is too generous on average, and a random sample scored by people shows
by how much. The sample must be random: people override what looks wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.models import Row, has_values, numbers_of, spread_out
from evaluation_pipelines.comparison.domain.runs import GROUP, MODEL
from evaluation_pipelines.numerics.estimates import Estimate, Numbers, Share, t_quantile
from evaluation_pipelines.scorecards.domain.audit import TARGET
from evaluation_pipelines.scorecards.domain.calibration import FEWEST_LARGE_ERRORS, LARGE_ERROR

Chosen = np.ndarray[tuple[int], np.dtype[np.bool_]]

SMALLEST_COVERAGE = 0.8
"""If fewer of the sessions had a chance to be drawn, the sample does not represent all."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Sessions that were drawn at random for people to score.

    Attributes:
        automatic: Their automatic scores, 0-100.
        labels: Scores by people, 0-100; NaN where there is no answer yet.
        probabilities: Their inclusion probabilities.
        others: Answered sessions whose probability is not known.
        chosen: Sessions that people chose to override.
        coverage: Share of all sessions that had a chance to be drawn.
    """

    automatic: Numbers
    labels: Numbers
    probabilities: Numbers
    others: int = 0
    chosen: int = 0
    coverage: float = 1.0


_NONE: Row = dict.fromkeys(
    (
        *("corrected_score", "corrected_score_low", "corrected_score_high"),
        *("corrected_score_lowest", "corrected_score_highest"),
        *("naive_score", "audited", "unanswered", "correction_reason"),
    )
)


def corrected_mean(automatic: Numbers, audit: Audit, scored: float = 1.0) -> Row:
    """Estimate the mean score by people of all sessions.

    The difference estimator (Sarndal, Swensson and Wretman, "Model Assisted Survey Sampling", 1992,
    section 6.3): ``mean(automatic) + sum(w * (label - automatic)) / sum(w)``, w being the inverse
    inclusion probabilities of the audited sessions. Its variance is that of the draw: it speaks of
    these sessions, not of other people's.

    Args:
        automatic: Automatic scores of all sessions, 0-100.
        audit: The sessions among them that people were asked to score.
        scored: Share of the sessions whose score is a judgment; that of others is a fact.

    Returns:
        The columns of ``model_comparison`` about it; ``corrected_score_lowest`` and ``_highest``
        are the ends of the interval if people had given 0, or 100, to the unanswered sessions.
    """
    naive = float(automatic.mean())
    answered = ~np.isnan(audit.labels)
    number, unanswered = int(answered.sum()), int((~answered).sum())
    found = _NONE | {
        "naive_score": naive,
        "audited": number,
        "unanswered": unanswered,
        "correction_reason": _refusal(number, audit),
    }
    if found["correction_reason"] is not None:
        return found
    corrected, lowest, highest = (
        _corrected(naive, audit, np.where(answered, audit.labels, missing), scored)
        for missing in (np.nan, 0.0, 100.0)
    )
    return found | {
        **spread_out("corrected_score", corrected),
        "corrected_score_lowest": lowest.low,
        "corrected_score_highest": highest.high,
    }


def _refusal(number: int, audit: Audit) -> str | None:
    if number < TARGET:
        reason = f"{number} of {TARGET} reviewed sessions needed"
        if audit.others:
            reason += f", {audit.others} more were drawn with unknown probabilities"
        if audit.chosen:
            reason += f", {audit.chosen} more were corrected, but chosen and not drawn at random"
        return reason
    if audit.coverage < SMALLEST_COVERAGE:
        return f"only {audit.coverage:.0%} of the sessions are of dates with an audit sample"
    return None


def _corrected(naive: float, audit: Audit, labels: Numbers, scored: float) -> Estimate:
    """Return the estimate from all sessions with a label."""
    known = ~np.isnan(labels)
    weights = 1 / audit.probabilities[known]
    # Those who answer are taken for a random part of those who were asked.
    response = float(weights.sum() / (1 / audit.probabilities).sum())
    missing = 1 - audit.probabilities[known] * response
    errors = _Errors(labels[known] - audit.automatic[known], weights, missing)
    low, high = errors.ends(worst=(-naive, 100 - naive))
    value = naive + scored * errors.mean
    return Estimate(value, naive + scored * low, naive + scored * high).within(0, 100)


@dataclass(frozen=True, slots=True)
class _Errors:
    """Label less automatic score of a sample: ``missing`` is one less the chance of each."""

    values: Numbers
    weights: Numbers
    missing: Numbers

    @property
    def mean(self) -> float:
        """The weighted mean."""
        return float(self.weights @ self.values / self.weights.sum())

    def ends(self, worst: tuple[float, float]) -> tuple[float, float]:
        """Return the interval of the weighted mean.

        With few large errors, those and the others are judged apart, as scores at the ceiling are:
        Wilson's interval for the share of large errors in either direction, joined by MOVER.

        Args:
            worst: Sizes of a large error down and up, where the sample has none.
        """
        mean, large = self.mean, np.abs(self.values) > LARGE_ERROR
        if int(large.sum()) >= FEWEST_LARGE_ERRORS:
            half = self._half(self.values)
            return mean - half, mean + half
        half = self._half(np.where(large, 0.0, self.values))
        down = self._moved(large & (self.values < 0), worst[0])
        up = self._moved(large & (self.values > 0), worst[1])
        low = np.sqrt(half**2 + down[1] ** 2 + up[0] ** 2)
        high = np.sqrt(half**2 + down[0] ** 2 + up[1] ** 2)
        return mean - float(low), mean + float(high)

    def _half(self, values: Numbers) -> float:
        """Return half of Student's interval of the weighted mean of some values.

        The variance of a ratio of sums over independent draws, ``sum((1 - p) w² (x - mean)²) /
        sum(w)²`` (the same book, section 5.6), as of as many sessions of equal weight as have the
        same sum of squares (Kish, "Survey Sampling", 1965).
        """
        total = float(self.weights.sum())
        number = total**2 / float(self.weights @ self.weights)
        left = self.weights * (values - self.weights @ values / total) / total
        variance = float(self.missing @ left**2) * number / (number - 1)
        return t_quantile(number - 1) * float(np.sqrt(variance))

    def _moved(self, chosen: Chosen, size: float) -> tuple[float, float]:
        """Return the points by which fewer, and more, large errors would move the mean."""
        spread = float(self.missing @ self.weights**2)
        if spread == 0:  # every session was looked at
            return 0.0, 0.0
        total = float(self.weights.sum())
        share = Share(float(self.weights @ chosen) / total, total**2 / spread, len(chosen) - 1)
        if chosen.any():
            size = float(self.weights[chosen] @ self.values[chosen] / self.weights[chosen].sum())
        low, high = share.ends()
        return abs(size) * (share.value - low), abs(size) * (high - share.value)


AUDITS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "profile_id": pl.String(),
        "label": pl.Float64(),
        "is_random": pl.Boolean(),
        "inclusion_probability": pl.Float64(),
        "session_date": pl.Date(),
    }
)
"""One row per session and profile of the audit sample or with an override.

``label`` is the score by a person (0-100), null while a drawn session has no answer. Date and
probability are those of the draw, null where they are unknown.
"""

_KEYS = ["organization_id", "session_key", "profile_id"]


def audits_of(overrides: pl.DataFrame, drawn: pl.DataFrame) -> pl.DataFrame:
    """Return AUDITS: the random sample with its answers, and overrides that people chose to make.

    Args:
        overrides: OVERRIDES; those of superseded content do not count.
        drawn: The audit samples: ``organization_id``, ``session_key``, ``profile_id``,
            ``inclusion_probability`` and ``session_date``.
    """
    said = overrides.filter(pl.col("state") != "stale").sort("made_at", "override_id")
    answers = said.filter(pl.col("source") == "audit").unique(_KEYS, keep="last")
    asked = (
        pl.concat([drawn, answers.select(_KEYS)], how="diagonal")
        .sort("inclusion_probability", nulls_last=True)
        .unique(_KEYS, keep="first")
    )
    random = asked.join(answers.select(*_KEYS, label="override_100"), on=_KEYS, how="left")
    chosen = said.join(asked, on=_KEYS, how="anti").unique(_KEYS, keep="last")
    return (
        pl.concat(
            [
                random.with_columns(is_random=pl.lit(value=True)),
                chosen.select(*_KEYS, label="override_100", is_random=pl.lit(value=False)),
            ],
            how="diagonal",
        )
        .select(AUDITS.names())
        .cast(AUDITS)
        .sort(_KEYS)
    )


def correct(rows: Sequence[Row], runs: pl.DataFrame, audits: pl.DataFrame) -> None:
    """Add the corrected mean to rows whose scores are those of a judge profile.

    Args:
        rows: Rows of ``model_comparison``.
        runs: RUNS of the same time range.
        audits: AUDITS.
    """
    counted = runs.filter(~pl.col("is_disqualified"))
    for row in rows:
        row.update(_NONE)
        if row["effective_source"] == "scorecard" and row["runs"]:
            row.update(_correction(counted.filter(has_values((*GROUP, *MODEL), row)), audits))


def _correction(runs: pl.DataFrame, audits: pl.DataFrame) -> Row:
    # The score of a run that failed at the start is what happened, not a judgment.
    judged = runs.filter(~pl.col("failed_at_start"))
    asked = judged.join(audits, on=_KEYS, how="inner", maintain_order="left")
    is_known = pl.col("inclusion_probability").is_not_null()
    drawn = asked.filter("is_random", is_known)
    dates = audits.filter(is_known)["session_date"].unique()
    could_be_drawn = judged["started_at"].dt.date().is_in(dates.implode())
    audit = Audit(
        automatic=numbers_of(drawn, "score"),
        labels=numbers_of(drawn, "label"),
        probabilities=numbers_of(drawn, "inclusion_probability"),
        others=asked.filter("is_random", ~is_known, pl.col("label").is_not_null()).height,
        chosen=asked.filter(~pl.col("is_random")).height,
        coverage=float(could_be_drawn.sum()) / max(judged.height, 1),
    )
    return corrected_mean(numbers_of(runs, "score"), audit, judged.height / runs.height)
