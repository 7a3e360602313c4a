"""Signals for tests, and their scores computed anew in Polars from the definition."""

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import polars as pl

from evaluation_pipelines.schemas import AGENT_EVALUATIONS, REPUTATION_EVENTS, SIGNAL_CATEGORIES

WEIGHTS = {"task_quality": 0.40, "economic": 0.35, "identity_hygiene": 0.25}


def uuid(number: int) -> str:
    """The UUID with this number."""
    return str(UUID(int=number))


def signal(number: int, identity: int, at: datetime, **values: object) -> dict[str, object]:
    """One signal about a session; what is not given is a perfect task."""
    return {
        "event_id": uuid(number),
        "timestamp": at,
        "identity_id": uuid(identity),
        "category": "task_quality",
        "event_type": "task_completed",
        "score_delta": 1.0,
        "confidence": 1.0,
        "reference_type": "session",
        "reference_id": f"session-{number}",
        "attributes": [{"key": "session_date", "value": "2026-11-20"}],
        **values,
    }


def signals_frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    """Signals as REPUTATION_EVENTS."""
    return pl.DataFrame(rows, schema=REPUTATION_EVENTS.schema)


def evaluations_frame(
    ids: Iterable[str],
    start: datetime = datetime(2026, 11, 1, tzinfo=UTC),
    every: timedelta = timedelta(),
) -> pl.DataFrame:
    """Evaluations (AGENT_EVALUATIONS) of agent ``scout`` that passed, one after the other."""
    rows = [
        {
            "evaluation_id": evaluation_id,
            "organization_id": "default",
            "agent_id": "scout",
            "evaluated_at": start + number * every,
            "passed": True,
            "latency_ms": None,
            "latency_budget_ms": 100.0,
            "model": None,
            "source": "gate",
            "reference_id": evaluation_id,
        }
        for number, evaluation_id in enumerate(ids)
    ]
    return pl.DataFrame(rows, schema=AGENT_EVALUATIONS.schema)


def random_signals(number: int, identities: int, days: int, end: datetime) -> pl.DataFrame:
    """Signals of all categories, at random times of the days before ``end``, from a fixed seed."""
    chance = random.Random(20261122)  # noqa: S311 - the same signals every time
    rows = [
        signal(
            1_000_000 + index,
            chance.randrange(identities),
            end - timedelta(milliseconds=chance.randrange(days * 86_400_000)),
            category=chance.choice(SIGNAL_CATEGORIES),
            score_delta=round(chance.uniform(-1, 1), 3) if chance.random() > 0.1 else 0.0,
            confidence=round(chance.random(), 2),
        )
        for index in range(number)
    ]
    return signals_frame(rows)


def expected_scores(signals: pl.DataFrame, now: datetime) -> dict[str, dict[str, float | None]]:
    """Every identity's scores by the definition, one identity after the other."""
    known = signals.filter(pl.col("timestamp") <= now)
    return {
        identity: _scores(known.filter(pl.col("identity_id") == identity), now)
        for identity in known["identity_id"].unique().to_list()
    }


def _scores(own: pl.DataFrame, now: datetime) -> dict[str, float | None]:
    window = _ninety_days(own, now)
    means = {name: _mean(window, name) for name in WEIGHTS}
    seen = {name: mean for name, mean in means.items() if mean is not None}
    weight = sum(WEIGHTS[name] for name in seen)
    overall = sum(WEIGHTS[name] * mean for name, mean in seen.items())
    return {
        "overall_score": overall,
        **{f"{name}_score": mean or 0.0 for name, mean in means.items()},
        "total_events": window.height,
        "positive_events": window.filter(pl.col("score_delta") > 0).height,
        "negative_events": window.filter(pl.col("score_delta") < 0).height,
        "confidence": min(1.0, window.height / 100),
        "score_7d_ago": _overall(own, now - timedelta(days=7)),
        "score_30d_ago": _overall(own, now - timedelta(days=30)),
        "overall_observed": overall / weight if seen else None,
        "weighted_overall": sum(WEIGHTS[name] * _weighted_mean(window, name) for name in WEIGHTS),
    }


def _ninety_days(own: pl.DataFrame, now: datetime) -> pl.DataFrame:
    at = pl.col("timestamp")
    return own.filter((at <= now) & (at > now - timedelta(days=90)))


def _overall(own: pl.DataFrame, now: datetime) -> float | None:
    window = _ninety_days(own, now)
    if window.is_empty():
        return None
    return sum(weight * (_mean(window, name) or 0.0) for name, weight in WEIGHTS.items())


def _mean(window: pl.DataFrame, category: str) -> float | None:
    deltas = window.filter(pl.col("category") == category)["score_delta"].to_list()
    return sum(deltas) / len(deltas) if deltas else None


def _weighted_mean(window: pl.DataFrame, category: str) -> float:
    rows = window.filter(pl.col("category") == category)
    pairs = list(zip(rows["score_delta"], rows["confidence"], strict=True))
    trust = sum(confidence for _, confidence in pairs)
    return sum(delta * confidence for delta, confidence in pairs) / trust if trust else 0.0


def at(text: str) -> datetime:
    """A UTC time."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
