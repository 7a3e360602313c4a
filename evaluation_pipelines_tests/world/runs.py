"""Runs of models with sensible defaults, for tests of the comparison."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.audits import AUDITS
from evaluation_pipelines.comparison.domain.compare import Comparison, Question, compare
from evaluation_pipelines.comparison.domain.people import Arm
from evaluation_pipelines.comparison.domain.runs import RUNS
from evaluation_pipelines.schemas import SCORECARDS
from evaluation_pipelines_tests.world.rows import Row, frame, row

UNTIL = datetime(2026, 11, 21, tzinfo=UTC)
SINCE = UNTIL - timedelta(days=28)
QUESTION = Question(SINCE, UNTIL)
COMPUTED_AT = datetime(2026, 11, 21, 6, tzinfo=UTC)


def run(number: int, score: float | None = 80.0, **columns: object) -> Row:
    """One run of ``model-a`` under ``code``, by a user of its own, two days before the end."""
    defaults: Row = {
        "organization_id": "default",
        "session_key": f"s{number}#baseline-1",
        "classification_label": "code",
        "effective_source": "none" if score is None else "composite",
        "model": "model-a",
        "provider": "provider-a",
        "task_class": "debug",
        "started_at": UNTIL - timedelta(days=2),
        "score": score,
        "is_disqualified": False,
        "cost_usd": 0.5,
        "total_tokens": 1000,
        "active_ms": 60_000.0,
        "person": f"user {number}",
        "session_id": f"s{number}",
        "failed_at_start": False,
        "status": "completed",
    }
    return row(RUNS, defaults, columns)


def runs(rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """RUNS."""
    return frame(RUNS, rows)


def sample(
    model: str, scores: Sequence[float], start: int, users: int = 12, **columns: object
) -> list[Row]:
    """A run for each score, dealt to users in turn; ``start`` is the number of the first."""
    return [
        run(start + at, score, **({"model": model, "person": f"user {at % users}"} | columns))
        for at, score in enumerate(scores)
    ]


def scores(mean: float, number: int, spread: float = 8.0, seed: int = 1) -> list[float]:
    """Scores with about this mean and spread, 0-100."""
    drawn = np.random.default_rng(seed).normal(mean, spread, number)
    return [float(score) for score in np.clip(drawn, 0, 100)]


def audits(*rows: Mapping[str, object]) -> pl.DataFrame:
    """AUDITS, drawn on the day of ``run`` with probability 1/2 unless given."""
    drawn: Row = {"inclusion_probability": 0.5, "session_date": (UNTIL - timedelta(days=2)).date()}
    return frame(AUDITS, [drawn | dict(given) for given in rows])


def card(**columns: object) -> Row:
    """The card ``card 1``, on a scale of 0 to 10."""
    defaults: Row = {"card_id": "card 1", "scale_min": 0.0, "scale_max": 10.0, "reasoning": "c 2.0"}
    return row(SCORECARDS.schema, defaults, columns)


def cards(*rows: Mapping[str, object]) -> pl.DataFrame:
    """SCORECARDS."""
    return frame(SCORECARDS.schema, rows)


def compared(
    rows: Iterable[Mapping[str, object]], question: Question = QUESTION, **more: Any
) -> Comparison:
    """The comparison of some runs, without any audit unless given."""
    asked = more.pop("audits", audits())
    return compare(runs(rows), asked, question, COMPUTED_AT, **more)


def three_models() -> list[Row]:
    """A good, an equally good and a worse, cheaper model with 48 runs each."""
    return [
        *sample("aspen", scores(85, 48, seed=1), 0, cost_usd=0.4),
        *sample("birch", scores(70, 48, seed=2), 100, cost_usd=0.1),
        *sample("cedar", scores(85, 48, seed=3), 200, cost_usd=0.5),
    ]


def worse_lately() -> list[Row]:
    """Runs of seven weeks of ``a``, six a day; in the last week they are 30 points lower."""
    return [
        run
        for ago in range(1, 50)
        for run in sample(
            "a",
            scores(60 if ago > 7 else 30, 6, 10, seed=ago),
            100 * ago,
            started_at=UNTIL - timedelta(days=ago),
        )
    ]


def arm(
    values: Sequence[float],
    classes: Sequence[int] | None = None,
    people: Sequence[int] | None = None,
    days: Sequence[int] | None = None,
) -> Arm:
    """A side of a comparison: one class, one day, and each run by a person, unless given."""
    number = len(values)
    return Arm(
        np.asarray(values, dtype=np.float64),
        np.asarray(people if people is not None else range(number), dtype=np.int64),
        np.asarray(classes if classes is not None else [0] * number, dtype=np.int64),
        np.asarray(days if days is not None else [0] * number, dtype=np.int64),
    )


def daily(scores: Sequence[float], first: int = 0, runs: int = 2) -> Arm:
    """Some runs a day by one person, with the scores in turn."""
    days = [first + at // runs for at in range(len(scores))]
    return arm(scores, people=[0] * len(scores), days=days)


def model(found: Comparison, name: str, **columns: object) -> dict[str, Any]:
    """The only row of a model."""
    rows = found.models.filter(pl.col("model") == name, **columns).rows(named=True)
    assert len(rows) == 1
    return rows[0]
