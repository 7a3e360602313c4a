"""What lists show of a judge score, its row in the table, and scores that are left out."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.judging.domain.badge import (
    Badge,
    badge,
    band,
    every_scoring_has_its_session,
    score_rows,
    totals_are_in_range,
    without_flagged,
)
from evaluation_pipelines.schemas import JUDGE_SCORES, SCORE_FLAGS
from evaluation_pipelines.schemas.judge_score import Score, reader_record
from evaluation_pipelines_tests.judging.ledger.score_builders import HASH, new_score, turn


@pytest.mark.parametrize(
    ("score", "expected"),
    [(0, "red"), (49.9, "red"), (50, "yellow"), (74, "yellow"), (75, "green"), (100, "green")],
)
def test_a_band_begins_with_its_lowest_score(score: float, expected: str) -> None:
    assert band(score) == expected


def scoring(status: str, total: int | None = None, **flags: bool | None) -> Any:
    values = {"judge_model": "judge-1", "status": status, "total_score": total, "is_left": False}
    values["error_message"] = "refused" if status == "failed" else None
    return SimpleNamespace(**(dict.fromkeys(SCORE_FLAGS) | values | flags))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (scoring("pending"), Badge("Waits for the judge", None, "judge-1")),
        (scoring("pending", is_left=True), Badge("Not scored", None, "judge-1")),
        (scoring("in_progress"), Badge("Scoring", None, "judge-1")),
        (
            scoring("failed", truncated=True),
            Badge("Failed", None, "judge-1", ("truncated",), "refused"),
        ),
        (scoring("completed", 0, truncated=False), Badge("0 red", 0, "judge-1")),
        (scoring("completed", 62), Badge("62 yellow", 62, "judge-1")),
    ],
)
def test_a_badge_is_the_total_with_its_band_or_the_state(found: Any, expected: Badge) -> None:
    assert badge(found) == expected


def rows(*given: tuple[str, float | None, str | None, bool | None, bool | None]) -> pl.DataFrame:
    names = ("status", "total_score", "error_message", "injection_suspected", "truncated")
    others = [pl.lit(None, pl.Boolean).alias(name) for name in SCORE_FLAGS if name not in names]
    return pl.DataFrame(given, schema=names, orient="row").with_columns(others)


def test_flagged_scores_have_no_total_and_say_which_flags_leave_them_out() -> None:
    found = rows(
        ("completed", 100.0, None, True, True),
        ("completed", 70.0, None, False, True),
        ("completed", 60.0, None, None, None),
        ("failed", None, "refused", True, False),
    )

    assert without_flagged(found, ()).equals(found)
    one = without_flagged(found, ("injection_suspected",))
    why = "its judge score is left out by EVAL_JUDGE_EXCLUDE_FLAGGED: "
    assert one.select("status", "total_score", "error_message").rows() == [
        ("flagged", None, f"{why}injection_suspected"),
        ("completed", 70.0, None),
        ("completed", 60.0, None),
        ("failed", None, "refused"),
    ]
    both = without_flagged(found, ("truncated", "injection_suspected"))
    assert both["error_message"].to_list()[:2] == [
        f"{why}injection_suspected and truncated",
        f"{why}truncated",
    ]


KEY = ("acme", "s1#baseline-1")
SECOND_US = 1_000_000


def score(**changes: Any) -> Score:
    """Return a pending scoring, requested one second after the epoch."""
    given: dict[str, Any] = {"score_id": "1", "scored_at_us": SECOND_US}
    return new_score(**(given | changes))


def done(**changes: Any) -> Score:
    """Return a scoring that was completed one second later."""
    given = {
        "status": "completed",
        "total_score": 64,
        "criteria_scores": {"logical_flow": 16},
        "failure_tags": ["incomplete_evidence"],
        "sample_totals": [64, 70],
        "score_spread": 4.24,
        "redactions": {"email": 2},
        "completed_at_us": 2 * SECOND_US,
    }
    return score(**(given | changes))


def table(*scores: Score) -> pl.DataFrame:
    return score_rows(scores, {KEY: HASH}, {KEY: "content-1"})


def test_a_row_has_values_documents_and_times_and_null_for_what_is_unknown() -> None:
    (row,) = table(done()).to_dicts()

    assert (row["total_score"], row["score_spread"]) == (64.0, 4.24)
    assert json.loads(row["criteria_scores"]) == {"logical_flow": 16}
    assert json.loads(row["sample_totals"]) == [64, 70]
    assert json.loads(row["redactions"]) == {"email": 2}
    assert row["failure_tags"] == ["incomplete_evidence"]
    assert row["scored_at"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert row["completed_at"] == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert row["started_at"] is None
    (row,) = table(score()).to_dicts()
    unknown = ("total_score", "criteria_scores", "failure_tags", "sample_totals", "completed_at")
    assert [row[name] for name in unknown] == [None] * len(unknown)


@pytest.mark.parametrize(
    ("changes", "is_current", "uses_current_prompt"),
    [
        ({}, True, True),
        ({"content_hash": "content-0"}, False, True),
        ({"session_key": "s9#baseline-1"}, None, False),
        ({"prompt_hash": "b" * 64}, True, False),
    ],
)
def test_a_row_says_whether_content_and_rubric_are_current(
    changes: dict[str, str], is_current: bool | None, uses_current_prompt: bool
) -> None:
    (row,) = table(done(**changes)).to_dicts()

    assert (row["is_current"], row["current_prompt_used"]) == (is_current, uses_current_prompt)


def test_rows_are_sorted_and_an_empty_table_has_all_columns() -> None:
    later = done(score_id="2", scored_at_us=5 * SECOND_US)
    assert table(later, done()).get_column("score_id").to_list() == ["1", "2"]
    assert table().schema == JUDGE_SCORES.schema


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (done(), True),
        (done(total_score=0), True),
        (done(total_score=100), True),
        (score(), True),
        (done(total_score=101), False),
        (done(total_score=None), False),
        (score(status="failed", total_score=3), False),
    ],
)
def test_only_completed_scorings_have_a_total_from_0_to_100(given: Score, passed: bool) -> None:
    result = totals_are_in_range(table(given), JUDGE_SCORES)

    assert (result.passed, result.severity) == (passed, "error")
    assert result.examples == (() if passed else ("1",))


def test_a_scoring_without_a_session_is_a_warning() -> None:
    orphan = done(score_id="2", session_key="s9#baseline-1")
    result = every_scoring_has_its_session(table(done(), orphan), JUDGE_SCORES)

    assert (result.passed, result.severity) == (False, "warning")
    assert result.found == "1 judgments without a session window"
    assert result.examples == ("s9#baseline-1",)
    assert every_scoring_has_its_session(table(done()), JUDGE_SCORES).passed


def test_a_record_has_only_public_fields_and_says_whether_its_rubric_is_current() -> None:
    record = reader_record(done(turn_log=(turn(),), batch_id="b"), HASH)

    assert (record["total_score"], record["status"]) == (64, "completed")
    assert record["missing_tools_analysis"] is None
    hidden = {"turn_log", "batch_id", "endpoint", "booked_cost_usd", "reserved_cost_usd"}
    assert not record.keys() & hidden
    assert len(record) == len(Score.__slots__) - 9 + 2
    current = {words: reader_record(done(), words) for words in (HASH, "b" * 64, None)}
    used = [record["current_prompt_used"] for record in current.values()]
    assert used == [True, False, False]


def test_a_failed_scoring_shows_the_last_reply_of_the_judge() -> None:
    log = turn(text="raw"), replace(turn("score-1-reminder"), text=" ")

    assert reader_record(score(status="failed", turn_log=log), HASH)["failed_reply"] == "raw"
    assert reader_record(score(status="failed"), HASH)["failed_reply"] is None
    assert reader_record(done(turn_log=log), HASH)["failed_reply"] is None


def test_a_scoring_is_open_until_it_ends() -> None:
    states = ("pending", "in_progress", "completed", "failed")
    assert [score(status=state).is_open for state in states] == [True, True, False, False]
