"""Sessions as signals and evaluations, worked out by hand."""

from datetime import UTC, date, datetime
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.reputation.domain.signals import (
    agent_session_evaluations,
    identity_id,
    session_event_id,
    session_signals,
)
from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines_tests.world.rows import frame

SESSION = {
    "session_key": "s1#baseline-1",
    "organization_id": "orchard",
    "agent_id": "scout",
    "source_cli": "codex",
    "model": "m",
    "status": "completed",
    "ended_at": datetime(2026, 11, 20, 12, 0, 0, 123_456, tzinfo=UTC),
    "effective_100": 80.0,
    "passed": True,
    "effective_source": "scorecard",
    "confidence": 0.9,
    "session_date": date(2026, 11, 20),
    "mean_api_ms": 1500.0,
    "is_terminal": True,
}
JOINED = {"mean_api_ms": pl.Float64(), "is_terminal": pl.Boolean()}
SCHEMA = {**SESSION_EVALUATIONS.schema, **JOINED}


def sessions(**changes: Any) -> pl.DataFrame:
    return frame(SCHEMA, [SESSION | changes])


def signal(**changes: Any) -> dict[str, Any]:
    return session_signals(sessions(**changes)).to_dicts()[0]


def test_a_session_is_one_signal_about_its_agent() -> None:
    row = signal()
    assert row["event_id"] == str(session_event_id("orchard", "s1#baseline-1"))
    assert row["identity_id"] == str(identity_id("orchard", "scout"))
    assert row["timestamp"] == datetime(2026, 11, 20, 12, 0, 0, 123_000, tzinfo=UTC)
    # (80 - 50) / 50 = 0.6
    assert row["score_delta"] == pytest.approx(0.6)
    assert (row["category"], row["event_type"]) == ("task_quality", "task_completed")
    assert (row["reference_type"], row["reference_id"]) == ("session", "s1#baseline-1")
    assert {attribute["key"]: attribute["value"] for attribute in row["attributes"]} == {
        "agent_id": "scout",
        "effective_source": "scorecard",
        "organization_id": "orchard",
        "session_date": "2026-11-20",
    }


@pytest.mark.parametrize(
    ("score", "status", "delta", "event_type"),
    [
        (100.0, "completed", 1.0, "task_completed"),
        (50.0, "completed", 0.0, "task_completed"),
        (40.0, "completed", -0.2, "task_completed"),
        (39.9, "completed", -0.202, "task_failed"),
        (0.0, "completed", -1.0, "task_failed"),
        (90.0, "failed", 0.8, "task_failed"),
    ],
)
def test_the_delta_follows_the_score_and_the_type_the_status_too(
    score: float, status: str, delta: float, event_type: str
) -> None:
    row = signal(effective_100=score, status=status)
    assert row["score_delta"] == pytest.approx(delta)
    assert row["event_type"] == event_type


@pytest.mark.parametrize(
    ("source", "confidence", "expected"),
    [
        ("override", 1.0, 1.0),
        ("scorecard", 0.9, 0.9),
        ("judge", None, 0.7),
        ("composite", None, 0.5),
        ("status", None, 0.5),
    ],
)
def test_a_signal_is_as_sure_as_the_source_of_its_score(
    source: str, confidence: float | None, expected: float
) -> None:
    row = signal(effective_source=source, confidence=confidence)
    assert row["confidence"] == expected


def test_only_a_session_with_a_score_is_a_signal_and_only_one_that_has_ended_an_evaluation() -> (
    None
):
    unscored = sessions(effective_100=None, effective_source="none")
    running = sessions(is_terminal=False, effective_source="override")
    assert (session_signals(unscored).height, session_signals(running).height) == (0, 1)
    for rows in (unscored, running):
        assert agent_session_evaluations(rows).is_empty()


@pytest.mark.parametrize("passed", [True, False])
def test_an_ended_session_is_an_evaluation_that_passes_as_the_session(*, passed: bool) -> None:
    row = agent_session_evaluations(sessions(passed=passed)).to_dicts()[0]
    assert row == {
        "evaluation_id": str(session_event_id("orchard", "s1#baseline-1")),
        "organization_id": "orchard",
        "agent_id": "scout",
        "evaluated_at": SESSION["ended_at"],
        "passed": passed,
        "latency_ms": 1500.0,
        "latency_budget_ms": 120_000.0,
        "model": "m",
        "source": "session",
        "reference_id": "s1#baseline-1",
    }


def test_a_session_that_names_no_agent_counts_for_its_program() -> None:
    assert signal(agent_id=None)["identity_id"] == str(identity_id("orchard", "codex"))
    nameless = signal(agent_id=None, source_cli=None)
    assert nameless["identity_id"] == str(identity_id("orchard", "unknown"))
