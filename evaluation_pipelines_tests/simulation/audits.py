"""Audited sessions whose true scores are known, to try the draw and the corrected mean on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import starmap

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.audits import (
    Audit,
    corrected_mean,
)
from evaluation_pipelines.comparison.domain.models import Row
from evaluation_pipelines.scorecards.domain.audit import STRATUM, WINDOW_DAYS, draw

Random = np.random.Generator
Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]

_FIRST = date(2026, 1, 1)
_NIGHTS = 48
"""Nights of a sample: those of a window, and some before, since the draw looks back."""


@dataclass(frozen=True, slots=True)
class Judge:
    """How a judge errs; sessions of some models come every day, more of them on busy days.

    Attributes:
        name: What is special about it.
        mean: Mean automatic score.
        bias: Points by which it is too generous, always.
        spread: Standard deviation of its errors.
        tail: Mean of an exponential part by which it is too generous.
        on_busy_days: Points by which it is more generous on busy days.
        missed: Share of sessions in which it misses a failure (people give 0 to 40).
        unanswered: Share of the drawn sessions, those people would score worst, without an answer.
        models: Sessions a day of each model.
        size: Draws of a night.
    """

    name: str
    mean: float = 70.0
    bias: float = 8.0
    spread: float = 10.0
    tail: float = 0.0
    on_busy_days: float = 0.0
    missed: float = 0.0
    unanswered: float = 0.0
    models: tuple[float, ...] = (12, 6, 3, 2)
    size: int = 5


_CEILING = Judge("", mean=95.0, bias=0.0, spread=0.0)

JUDGES: tuple[Judge, ...] = (
    Judge("too generous by 8, sd 10"),
    Judge("the same, two models, 3 draws a night", models=(10, 5), size=3),
    Judge("too generous by 15 on busy days only", bias=0.0, on_busy_days=15.0),
    Judge("errors with a long tail", bias=0.0, spread=0.0, tail=8.0),
    Judge("accurate to 3 points", bias=0.0, spread=3.0),
    replace(_CEILING, name="at the ceiling, 2 % failures missed", missed=0.02),
    replace(_CEILING, name="at the ceiling, 7 % failures missed", missed=0.07),
    Judge("the worst 20 % of the drawn unanswered, 8 draws a night", unanswered=0.2, size=8),
)


def estimates(judge: Judge, samples: int, seed: int = 2026) -> Iterator[tuple[Row, float]]:
    """Yield the corrected mean of each model of each sample, and the true mean."""
    random = np.random.default_rng(seed)
    for number in range(samples):
        # Another period has other lots.
        first = _FIRST + timedelta(days=number * _NIGHTS)
        every = pl.concat(starmap(_night, _nights(judge, random, first)))
        drawn = _drawn(every, first, judge.size)
        last = pl.col("session_date") >= first + timedelta(days=_NIGHTS - WINDOW_DAYS)
        window, audited = every.filter(last), drawn.filter(last)
        for model in range(len(judge.models)):
            part = window.filter(model=str(model))
            said = _answers(audited.filter(model=str(model)), judge.unanswered)
            found = corrected_mean(part["scorecard_100"].to_numpy(), said)
            yield found, float(part["label"].to_numpy().mean())


def _nights(
    judge: Judge, random: Random, first: date
) -> Iterator[tuple[date, int, Numbers, Numbers]]:
    for night in range(_NIGHTS):
        is_busy = random.random() < 0.3
        for model, mean in enumerate(judge.models):
            number = int(random.poisson(mean * (2.0 if is_busy else 0.6)))
            automatic = np.clip(judge.mean + random.normal(0, 12, number), 0, 100)
            if judge.mean > 90:
                automatic = np.clip(judge.mean + random.normal(0, 3, number), 0, 100)
            errors = judge.bias + random.normal(0, judge.spread, number)
            errors += random.exponential(judge.tail, number) if judge.tail else 0.0
            errors += judge.on_busy_days * is_busy
            label = np.clip(automatic - errors, 0, 100)
            missed = random.random(number) < judge.missed
            label = np.where(missed, random.uniform(0, 40, number), label)
            yield first + timedelta(days=night), model, automatic, label


def _night(day: date, model: int, automatic: Numbers, label: Numbers) -> pl.DataFrame:
    rows = {"scorecard_100": automatic, "label": label}
    return pl.DataFrame(rows).with_columns(
        session_key=pl.format("{} {} {}", pl.lit(str(day)), pl.lit(model), pl.int_range(pl.len())),
        organization_id=pl.lit("o"),
        content_hash=pl.lit("0"),
        profile_id=pl.lit("p"),
        profile_version=pl.lit(1, pl.Int64),
        classification_label=pl.lit("code"),
        model=pl.lit(str(model)),
        session_date=pl.lit(day),
    )


def _drawn(every: pl.DataFrame, first: date, size: int) -> pl.DataFrame:
    """Return the audited sessions: each night sees those that were drawn before."""
    found = every.clear().with_columns(inclusion_probability=pl.lit(0.0))
    names = ["session_key", "inclusion_probability"]
    for night in range(_NIGHTS):
        day = first + timedelta(days=night)
        recent = pl.col("session_date").is_between(day - timedelta(days=WINDOW_DAYS - 1), day)
        sample = draw(every.filter(recent), found.filter(recent).select(STRATUM), day, size)
        found = pl.concat([found, every.join(sample.select(names), on="session_key")])
    return found


def _answers(audited: pl.DataFrame, unanswered: float) -> Audit:
    labels = audited["label"].to_numpy().copy()
    if unanswered:
        labels[labels <= np.quantile(labels, unanswered)] = np.nan
    automatic = audited["scorecard_100"].to_numpy()
    return Audit(automatic, labels, audited["inclusion_probability"].to_numpy())
