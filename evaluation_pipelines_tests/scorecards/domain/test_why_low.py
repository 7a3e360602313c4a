"""Why a session has a low score or failed."""

from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.schemas import JUDGE_SCORES, SCORECARDS
from evaluation_pipelines.scorecards.domain.evaluation import (
    CARD_COLUMNS,
    TAG_COLUMNS,
    judge_tags,
    why_low,
    worst_criteria,
)

ROW: dict[str, Any] = {
    "status": "completed",
    "effective_100": 49.9,
    "effective_source": "scorecard",
    "automatic_100": 49.9,
    "state_reason": None,
    "disqualified": False,
    "disqualifier_triggered": None,
    "api_errors": 0,
    "tools_failed": 1,
    "total_tools": 5,
    "worst_criterion": "performance.token_efficiency",
    "worst_100": 21.4,
    "judge_tags": None,
    "automatic_judge_model": "judge-1",
    "quality": 8.0,
    "autonomy": 2.04,
    "productivity": None,
    "token_efficiency": 3.0,
    "cost_efficiency": 9.0,
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"effective_100": 50.0}, None),
        (
            {"effective_100": None, "state_reason": "no judge has scored it"},
            "no judge has scored it",
        ),
        ({"effective_100": None}, None),
        ({}, "token efficiency 21 of 100"),
        ({"judge_tags": "no tests"}, "token efficiency 21 of 100 · no tests"),
        ({"judge_tags": "no tests", "automatic_judge_model": None}, "token efficiency 21 of 100"),
        # A quarter of the calls and more are worth a word.
        ({"tools_failed": 2}, "token efficiency 21 of 100 · 2 of 5 calls failed"),
        ({"effective_source": "judge"}, "judge score only"),
        ({"effective_source": "composite"}, "autonomy 2.0 of 10"),
        (
            {"effective_source": "override", "automatic_100": 71.25, "tools_failed": 5},
            "human score 49.9 (automatic: 71.3)",
        ),
        (
            {"effective_source": "override", "automatic_100": 49.9},
            "human score 49.9 (automatic: 49.9)",
        ),
        (
            {"effective_source": "override", "automatic_100": None},
            "human score 49.9 (automatic: none)",
        ),
        ({"disqualified": True, "disqualifier_triggered": "rm -rf /"}, "disqualified: rm -rf /"),
        (
            {"status": "failed", "effective_100": 90.0},
            "failed, so not passed despite its score",
        ),
        (
            {"status": "failed", "effective_source": "status", "effective_100": 0.0},
            "failed without any tool result: score 0",
        ),
        (
            {"status": "failed", "effective_source": "override", "effective_100": 90.0},
            "failed · human score 90.0 (automatic: 49.9)",
        ),
        ({"status": "failed", "effective_100": None, "effective_source": None}, "failed"),
        ({"status": "failed", "api_errors": 2}, "failed (2 model API errors)"),
    ],
)
def test_the_reason_is_the_worst_that_is_known(
    changes: dict[str, Any], expected: str | None
) -> None:
    assert why_low({**ROW, **changes}) == expected


def test_the_worst_criterion_is_the_lowest_on_the_scale_of_its_card() -> None:
    scores = [{"key": "b", "value": 2.0}, {"key": "a", "value": 2.0}, {"key": "c", "value": None}]
    cards = pl.DataFrame(
        [("one", 1.0, 5.0, scores, None), ("two", 0.0, 1.0, [], "rm")],
        schema=SCORECARDS.no_rows.select(CARD_COLUMNS).schema,
        orient="row",
    )
    one, two = worst_criteria(cards).sort("card_id").to_dicts()
    assert (one["worst_criterion"], one["worst_100"]) == ("a", 25.0)  # (2 - 1) / (5 - 1)
    assert (two["worst_criterion"], two["disqualifier_triggered"]) == (None, "rm")


def test_tags_are_those_of_the_newest_judgment() -> None:
    key = ("acme", "s", "hash")
    scores = pl.DataFrame(
        [
            (*key, 2, ["too_short", "no_tests", "third"]),
            (*key, 1, ["older"]),
            ("acme", "t", "hash", 1, []),
        ],
        schema=["organization_id", "session_key", "content_hash", "completed_at", "failure_tags"],
        orient="row",
    )
    assert {*scores.columns} == {*TAG_COLUMNS}
    assert {*TAG_COLUMNS} <= {*JUDGE_SCORES.schema.names()}
    assert judge_tags(scores)["judge_tags"].to_list() == ["too short, no tests"]
