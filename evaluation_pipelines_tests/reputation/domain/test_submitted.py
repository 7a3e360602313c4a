"""The record of an agent that counts evaluations which ClickHouse does not have yet."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from evaluation_pipelines.reputation.domain.signals import session_event_id
from evaluation_pipelines.reputation.submitted import (
    EvaluationError,
    SubmittedEvaluation,
    counted,
    inline_record,
    inline_windows,
)
from evaluation_pipelines.schemas import AGENT_WINDOWS

NOW = datetime(2026, 12, 1, tzinfo=UTC)
AGENT = ("acme", "scout")
SENT = SubmittedEvaluation("acme", "scout", passed=True)


def window(first: int, last: int, in_all: int | None = None) -> pl.DataFrame:
    """Return evaluations with these numbers, a minute apart, all passed without a latency."""
    rows = [
        {
            "organization_id": "acme",
            "agent_id": "scout",
            "evaluation_id": f"e{number:04}",
            "evaluated_at": NOW - timedelta(days=1) + timedelta(minutes=number),
            "passed": True,
            "latency_budget_ms": 100.0,
            "evaluations_in_all": in_all,
        }
        for number in range(first, last)
    ]
    return pl.DataFrame(rows, schema=AGENT_WINDOWS.schema)


def test_each_agent_has_its_own_window_and_numbers() -> None:
    other = pl.lit("other").alias("agent_id")
    exported = pl.concat([window(0, 500, 700), window(0, 3, 3).with_columns(other)])
    submitted = pl.concat([window(499, 502), window(2, 5).with_columns(other)])
    found = inline_windows(exported, submitted)
    counts = found.group_by("agent_id").agg(
        pl.len(), pl.col("evaluation_id").min(), pl.col("evaluations_in_all").unique()
    )
    # scout: e0000 to e0501 are 502, the newest 500 begin with e0002, two are new. other: e0000 to
    # e0004, of which two are new.
    assert {name: more for name, *more in counts.rows()} == {
        "scout": [500, "e0002", [702]],
        "other": [5, "e0000", [5]],
    }


def test_sessions_that_await_review_are_not_counted() -> None:
    ids = [str(session_event_id("acme", key)) for key in ("a#baseline-1", "b#baseline-1")]
    windows = window(0, 5, 9).with_columns(
        evaluation_id=pl.Series([ids[0], "e1", ids[1], "e3", "e4"])
    )
    found = counted(windows, {("acme", "a#baseline-1"), ("acme", "unknown#baseline-1")})
    assert found["evaluation_id"].to_list() == ["e1", ids[1], "e3", "e4"]
    assert found["evaluations_in_all"].unique().to_list() == [9 - 1]


NONE = window(0, 0)


FAILED = window(500, 501).with_columns(passed=False)


@pytest.mark.parametrize(
    ("exported", "waiting", "score", "lifecycle", "number", "progress"),
    [
        (NONE, NONE, None, "new", 0, "0/50"),
        (window(0, 40, 40), window(35, 48), None, "calibrating", 48, "48/50"),
        # 400 * 1 + 250 * 0 (no latency) + 200 * 50/50 + 150 * 50/500 = 615.
        (window(0, 49, 49), window(49, 50), 615, "active", 50, None),
        # 499 of 500 passed, streak 0: floor(400 * 0.998 + 0 + 0 + 150) = 549.
        (window(0, 500, 500), FAILED, 549, "mature", 500, None),
    ],
)
def test_the_newest_500_count_whichever_side_they_are_from(
    exported: pl.DataFrame,
    waiting: pl.DataFrame,
    score: int | None,
    lifecycle: str,
    number: int,
    progress: str | None,
) -> None:
    record = inline_record(exported, waiting, AGENT, NOW)
    assert (record["score"], record["lifecycle"]) == (score, lifecycle)
    assert (record["eval_count"], record["progress"]) == (number, progress)
    assert waiting is not FAILED or record["streak"] == 0


def test_an_old_evaluation_that_left_the_window_changes_nothing() -> None:
    exported = window(100, 600, 600)
    expected = inline_record(exported, NONE, AGENT, NOW)
    assert inline_record(exported, window(0, 50), AGENT, NOW) == expected


def test_what_was_left_out_has_defaults() -> None:
    row = SENT.completed("new-id", NOW)
    assert (row["evaluation_id"], row["evaluated_at"], row["source"]) == ("new-id", NOW, "rest")
    assert (row["latency_budget_ms"], row["latency_ms"], row["model"]) == (100.0, None, None)


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (SubmittedEvaluation("acme", "", passed=True), "agent_id"),
        (SubmittedEvaluation("acme", "a\0b", passed=True), "agent_id"),
        (SubmittedEvaluation("acme", "a", passed=True, evaluation_id="x" * 1025), "evaluation_id"),
        (
            SubmittedEvaluation("acme", "a", passed=True, evaluated_at=NOW + timedelta(days=400)),
            "evaluated_at",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(sent: SubmittedEvaluation, problem: str) -> None:
    with pytest.raises(EvaluationError, match=problem):
        sent.completed("id", NOW)
