"""Events: one for each new score and one more for a low score, never twice."""

import json
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.scorecards.domain.evaluation import (
    announcements,
    event_id,
    labels_without_profile,
)
from evaluation_pipelines_tests.builders import START

ROW: dict[str, Any] = {
    "session_key": "s1#baseline-1",
    "session_id": "s1",
    "organization_id": "default",
    "agent_id": "claude-code",
    "model": "model-a",
    "provider": "provider-a",
    "classification_label": "simple",
    "effective_100": 80.0,
    "effective_source": "scorecard",
    "confidence": 0.9,
    "quality_risk": False,
    "profile_id": "p",
    "card_id": "card",
    "override_id": None,
    "content_hash": "0",
    "session_date": START.date(),
}


def evaluations(*changes: dict[str, Any]) -> pl.DataFrame:
    empty = dict.fromkeys(SESSION_EVALUATIONS.schema, None)
    rows = [empty | ROW | each for each in changes]
    return pl.DataFrame(rows, schema=SESSION_EVALUATIONS.schema, orient="row")


def kinds(*changes: dict[str, Any]) -> list[str]:
    return [each.kind for each in announcements(evaluations(*changes))]


def test_every_score_has_a_feedback_event_and_a_low_score_a_risk_event() -> None:
    assert kinds({}) == ["evaluation.model_feedback"]
    assert kinds({"effective_100": 10.0, "quality_risk": True}) == [
        "evaluation.model_feedback",
        "evaluation.quality_risk",
    ]


def test_without_a_score_there_is_no_event() -> None:
    assert kinds({"effective_100": None, "effective_source": "none", "quality_risk": None}) == []


def test_a_session_that_no_profile_matches_has_no_event_and_its_label_is_counted() -> None:
    unmatched = {"profile_id": None, "card_id": None, "effective_source": "composite"}
    risk = {**unmatched, "effective_100": 10.0, "quality_risk": True}

    assert kinds(unmatched, risk) == []
    rows = evaluations({}, unmatched, risk, {**unmatched, "classification_label": "ops"})
    assert labels_without_profile(rows) == {"ops": 1, "simple": 2}


def test_the_payload_has_session_score_confidence_and_source() -> None:
    (event,) = announcements(evaluations({}))
    payload = event.payload_values()

    assert payload == json.loads(event.payload)
    assert payload["event"] == "evaluation.model_feedback"
    for name in ("session_key", "agent_id", "model", "provider", "classification_label"):
        assert payload[name] == ROW[name]
    assert (payload["effective_100"], payload["effective_source"]) == (80.0, "scorecard")
    assert (payload["confidence"], payload["card_id"]) == (0.9, "card")


def test_equal_events_have_the_same_id() -> None:
    (first,), (again,) = announcements(evaluations({})), announcements(evaluations({}))

    assert first.event_id == again.event_id


@pytest.mark.parametrize(
    "change",
    [
        {"card_id": "other"},
        {"content_hash": "1"},
        {"override_id": "7"},
        {"session_key": "s2"},
        {"organization_id": "other"},
    ],
)
def test_another_card_content_or_override_is_a_new_event(change: dict[str, Any]) -> None:
    kind = "evaluation.model_feedback"

    assert event_id(kind, ROW | change) != event_id(kind, ROW)


def test_the_two_kinds_have_different_ids() -> None:
    assert event_id("a", ROW) != event_id("b", ROW)


def test_without_a_card_the_id_contains_the_source() -> None:
    by = {
        source: event_id("a", ROW | {"card_id": None, "effective_source": source})
        for source in ("judge", "composite", "status")
    }

    assert len(set(by.values())) == 3
