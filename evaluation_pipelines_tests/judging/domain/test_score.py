"""Public fields of a score and its states."""

from dataclasses import replace
from datetime import date

import pytest

from evaluation_pipelines.schemas.judge_score import LoggedTurn, Score, ScoreStatus, reader_record

TODAY = "a" * 64
TURN = LoggedTurn("score-1", "raw", "stop", 10, 0, 5, 0.01, 900.0, 1, 1_000)


def score(status: ScoreStatus = "completed", **columns: object) -> Score:
    given: dict[str, object] = {
        "score_id": "id",
        "organization_id": "acme",
        "session_key": "s1#baseline-1",
        "session_id": "s1",
        "content_hash": "content",
        "agent_id": "codesmith",
        "agent_model": "model-a",
        "session_date": date(2026, 3, 1),
        "judge_profile_id": "default",
        "judge_profile_version": 1,
        "judge_model": "judge-1",
        "rubric": "agent-methodology",
        "prompt_hash": TODAY,
        "samples": 1,
        "status": status,
        "score_triggered_by": "schedule",
        "scored_at_us": 1,
        "attempt": 1,
    }
    return Score(**(given | columns))  # type: ignore[arg-type]


@pytest.mark.parametrize(("prompt_hash", "used"), [(TODAY, True), ("b" * 64, False), (None, False)])
def test_a_record_says_whether_the_current_rubric_was_used(
    prompt_hash: str | None, used: bool
) -> None:
    assert reader_record(score(), prompt_hash)["current_prompt_used"] is used


def test_a_record_has_only_public_fields() -> None:
    record = reader_record(score(total_score=64, turn_log=(TURN,), batch_id="b"), TODAY)

    assert record["total_score"] == 64
    assert record["status"] == "completed"
    assert record["missing_tools_analysis"] is None
    assert not record.keys() & {"turn_log", "batch_id", "endpoint"}
    assert not record.keys() & {"booked_cost_usd", "reserved_cost_usd"}
    assert len(record) == len(Score.__slots__) - 9 + 2


def test_a_failed_scoring_shows_the_last_reply_of_the_judge() -> None:
    empty = replace(TURN, turn="score-1-reminder", text=" ")

    assert reader_record(score("failed", turn_log=(TURN, empty)), TODAY)["failed_reply"] == "raw"
    assert reader_record(score("failed"), TODAY)["failed_reply"] is None
    assert reader_record(score(turn_log=(TURN,)), TODAY)["failed_reply"] is None


@pytest.mark.parametrize(
    ("status", "is_open"),
    [("pending", True), ("in_progress", True), ("completed", False), ("failed", False)],
)
def test_a_scoring_is_open_until_it_ends(status: ScoreStatus, is_open: bool) -> None:
    assert score(status).is_open is is_open
