"""A judge who reads the outcome in the transcript, and a team whose later merges are chance."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from evaluation_pipelines.comparison.domain.outcomes import rule_of
from evaluation_pipelines.comparison.domain.prediction import AGREEMENT, PREDICTS, WRONG_WAY
from evaluation_pipelines.comparison.prediction import Look, prediction_rows, tested_outcomes
from evaluation_pipelines.schemas import SESSION_OUTCOMES
from evaluation_pipelines.sessions.domain.performance import WEIGHTS
from evaluation_pipelines_tests.simulation.measure import Share

_PEOPLE, _SESSIONS = 12, 25
_START = datetime(2026, 1, 1, tzinfo=UTC)
_READ = _START + timedelta(days=100)


def _sessions(random: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Draw sessions with scores, and their outcomes.

    Each has tests after the last edit. A third are merged within the session, 60% of the others
    later. The judge adds 30 points for passed tests and 30 for a merge in the transcript.
    """
    number = _PEOPLE * _SESSIONS
    passed, inside = random.random(number) < 0.6, random.random(number) < 1 / 3
    later = ~inside & (random.random(number) < 0.6)
    judge = 30 + 30 * passed + 30 * inside + random.normal(0, 8, number)
    started = [_START + timedelta(hours=hour) for hour in range(number)]
    sessions = pl.DataFrame(
        {
            "organization_id": ["o"] * number,
            "session_key": [f"s{place}" for place in range(number)],
            "person_id": [f"u{place % _PEOPLE}" for place in range(number)],
            "task_class": ["feature"] * number,
            "repository": ["r"] * number,
            "started_at": started,
            "ended_at": [time + timedelta(minutes=30) for time in started],
            "judge": judge,
            "effective": judge,
            "automatic_100": judge,
            **{name: random.random(number) for name in ("composite", *WEIGHTS)},
        }
    ).with_columns(**{f"{name}@": pl.col("ended_at") for name in ("judge", "effective")})
    after = pl.when(pl.Series(inside)).then(timedelta(minutes=20)).otherwise(timedelta(days=2))
    merged = pl.Series(inside | later)
    happened = pl.when(merged).then(pl.col("started_at") + after)
    kinds = [
        ("merged", merged.cast(pl.Float64), happened),
        ("tests_after_last_edit", pl.Series(passed).cast(pl.Float64), pl.col("started_at")),
    ]
    rows = [
        sessions.select(
            "organization_id",
            "session_key",
            kind=pl.lit(kind),
            value=value,
            happened_at=at,
            reference="session_key",
            source=pl.lit("git"),
            read_at=pl.lit(_READ),
        )
        for kind, value, at in kinds
    ]
    empty = SESSION_OUTCOMES.no_rows
    return sessions, pl.concat([empty, *rows], how="diagonal_relaxed").select(empty.columns)


def leaking_judge(teams: int, seed: int = 2026) -> tuple[Share, float]:
    """Return how often a score gets a verdict, and the mean AUC of the judge by the tests."""
    random, told, agreement = np.random.default_rng(seed), Share(), list[float]()
    for _ in range(teams):
        tested = tested_outcomes(*_sessions(random), rule_of("merged"))
        rows = prediction_rows("o", tested, Look(1, 0.05), _READ)
        told.add(is_hit=bool(rows["verdict"].is_in([PREDICTS, WRONG_WAY]).any()))
        agreement += rows.filter(score="judge", family=AGREEMENT)["auc"].to_list()
    return told, float(np.mean(agreement))
