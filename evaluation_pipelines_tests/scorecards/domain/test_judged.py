"""Scores of judges as criteria of 0 to 1 and a confidence."""

from datetime import timedelta

import polars as pl
import pytest

from evaluation_pipelines.scorecards.domain.criteria import (
    completed,
    confidence,
    judged_scores,
    newest_totals,
    why_not_judged,
)
from evaluation_pipelines_tests.scorecard_builders import (
    REGISTERED_AT,
    criteria,
    judged_profile,
    result,
    results,
)

LATER = REGISTERED_AT + timedelta(hours=1)


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        ([70], 0.7),
        ([10, 90], 0.7),  # two are too few for a spread
        ([70, 70, 70], 0.95),  # 1 - 0 is clamped
        ([50, 60, 70], 0.8),  # deviations -10, 0, 10: sqrt(200 / 2) = 10; 1 - 10 / 50
        ([0, 0, 100, 100], 0.3),  # spread 57.7: 1 - 1.15 is clamped
        ([], 0.7),
    ],
)
def test_confidence_follows_the_spread_of_three_samples_or_more(
    totals: list[float], expected: float
) -> None:
    assert confidence(totals) == pytest.approx(expected, abs=1e-6)


def test_points_become_shares_of_the_maximum() -> None:
    given = result(sample_totals=[50, 60, 70], judge_model="judge-1", truncated=True)
    scores = judged_scores(judged_profile(), results(given))

    # Of 25 each: 25, 20, 15 and 10.
    assert scores.drop("judge_confidence").row(0) == (
        *("default", "s1#baseline-1", "0"),
        *(1.0, 0.8, 0.6, 0.4),
        *("judge-1", "truncated", "Too hasty."),
    )
    assert scores["judge_confidence"].item() == pytest.approx(0.8, abs=1e-6)


def test_points_of_a_profiles_own_criteria_are_taken_by_weight() -> None:
    own = judged_profile(criteria=criteria(taste=3, tone=1))  # 75 and 25 points
    scores = judged_scores(own, results(result(criteria_scores={"taste": 60, "tone": 25})))

    assert scores.select(pl.selectors.starts_with("criterion:")).row(0) == (0.8, 1.0)


def test_missing_points_are_unknown_and_too_many_points_are_clipped() -> None:
    given = {"logical_flow": 30, "consistency": -1, "tool_relevance": None}
    scores = judged_scores(judged_profile(), results(result(criteria_scores=given)))
    found = scores.select(pl.selectors.starts_with("criterion:")).row(0)

    assert found == (1.0, 0.0, None, None)
    none_at_all = judged_scores(judged_profile(), results(result(criteria_scores=None)))
    assert none_at_all.select(pl.selectors.starts_with("criterion:")).row(0) == (None,) * 4


def test_only_scores_of_this_version_count() -> None:
    others = results(
        result(judge_profile_version=2),
        result(judge_profile_id="k"),
        result(status="failed"),
    )

    assert judged_scores(judged_profile(), others).is_empty()


def test_of_several_scores_the_newest_counts() -> None:
    scorings = results(
        result(total_score=10.0, completed_at=LATER),
        result(total_score=90.0),
        result(total_score=70.0, completed_at=LATER + timedelta(hours=1), status="flagged"),
        result(total_score=40.0, content_hash="1"),
    )

    assert completed(scorings).select("content_hash", "total_score").rows() == [
        ("0", 10),
        ("1", 40),
    ]


def test_the_newest_total_of_any_profile_counts() -> None:
    scorings = results(
        result(total_score=90.0, judge_profile_id="a"),
        result(total_score=20.0, judge_profile_id="b", completed_at=LATER, judge_model="judge-1"),
    )

    key = ("default", "s1#baseline-1", "0")
    assert newest_totals(scorings).row(0) == (*key, 20.0, "judge-1", None)


def test_a_scoring_without_a_score_says_why() -> None:
    scorings = results(
        result(status="failed", error_message="refused"),
        result(session_key="s2", status="failed"),
        result(session_key="s3", status="pending", completed_at=None),
        result(session_key="s4", status="failed", error_message="timed out"),
        result(session_key="s4", status="in_progress", completed_at=None),
        result(session_key="s5"),
    )

    assert why_not_judged(judged_profile(), scorings).drop(
        "organization_id", "content_hash"
    ).rows() == [
        ("s1#baseline-1", "the judge failed: refused", False),
        ("s2", "the judge failed: no reason given", False),
        ("s3", "judging is in progress", True),
        ("s4", "judging is in progress", True),
    ]
