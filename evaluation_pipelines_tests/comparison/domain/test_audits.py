"""Audited runs: which are the random sample, and the mean that they correct."""

from datetime import timedelta

import polars as pl
import pytest

from evaluation_pipelines.comparison.domain.audits import audits_of
from evaluation_pipelines.schemas import OVERRIDES
from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.comparison_builders import (
    UNTIL,
    audits,
    compared,
    model,
    sample,
    scores,
)


def override(number: int, **columns: object) -> Row:
    defaults: Row = {
        "override_id": str(number),
        "organization_id": "default",
        "session_key": f"s{number}#baseline-1",
        "profile_id": "p",
        "override_100": 72.0,
        "source": "audit",
        "state": "live",
        "made_at": UNTIL,
    }
    return dict.fromkeys(OVERRIDES.schema, None) | defaults | columns


def test_the_random_sample_is_told_from_what_people_chose() -> None:
    rows = [
        override(1),
        override(2, source="person"),
        override(3, state="stale"),
        override(4),
        override(4, override_id="9", override_100=50.0, state="live"),
        override(4, override_id="8", source="person", override_100=10.0),
    ]
    day = UNTIL.date()
    drawn = [
        ("default", f"s{number}#baseline-1", "p", probability, day)
        for number, probability in ((1, 0.5), (3, None), (4, 0.2), (5, 1.0))
    ]
    names = ["organization_id", "session_key", "profile_id", "inclusion_probability"]
    found = audits_of(
        pl.DataFrame(rows, schema=OVERRIDES.schema),
        pl.DataFrame(drawn, schema=[*names, "session_date"], orient="row"),
    )
    # 2 was chosen; 3 grew since, and 5 was never answered; the newest answer counts for 4.
    assert found.drop("organization_id", "profile_id").rows() == [
        ("s1#baseline-1", 72.0, True, 0.5, day),
        ("s2#baseline-1", 72.0, False, None, None),
        ("s3#baseline-1", None, True, None, day),
        ("s4#baseline-1", 50.0, True, 0.2, day),
        ("s5#baseline-1", None, True, 1.0, day),
    ]


def judged(number: int) -> list[Row]:
    """Runs by a card of profile p; people scored the first 32, with 72."""
    return [
        row
        | {
            "profile_id": "p",
            "profile_version": 1,
            "effective_source": "scorecard",
            "people_score": 72.0 if place < 32 else None,
        }
        for place, row in enumerate(sample("a", scores(80, number, 6), 0))
    ]


def said(rows: list[Row], **columns: object) -> list[Row]:
    """Answers to the first 32: 8 points less than the automatic score."""
    return [
        {
            "organization_id": "default",
            "session_key": row["session_key"],
            "profile_id": "p",
            "label": float(str(row["score"])) - 8,
            "is_random": True,
        }
        | columns
        for row in rows[:32]
    ]


def test_the_corrected_mean_takes_all_automatic_scores_and_what_people_said() -> None:
    rows = judged(90)
    answers = said(rows)
    answers[31]["label"] = None
    found = compared(rows, audits=audits(*answers))
    row = model(found, "a", effective_source="scorecard")
    # The audited runs stay: without them 58 would be left.
    assert (row["runs"], row["people_runs"], row["people_score"]) == (90, 32, 72.0)
    assert (row["audited"], row["unanswered"]) == (31, 1)
    # All 90 automatic scores, and 8 points less.
    assert row["naive_score"] == pytest.approx(sum(scores(80, 90, 6)) / 90)
    # The twelve people have seven or eight runs each, and count once in the mean of the row.
    people = [scores(80, 90, 6)[at::12] for at in range(12)]
    assert row["avg_score"] == pytest.approx(sum(sum(each) / len(each) for each in people) / 12)
    assert row["corrected_score"] == pytest.approx(row["naive_score"] - 8)
    assert row["corrected_score_lowest"] < row["corrected_score_low"] < row["corrected_score"]
    assert row["corrected_score"] < row["corrected_score_high"] < row["corrected_score_highest"]
    assert found.models.height == 1


def test_a_run_that_failed_at_the_start_needs_no_correction() -> None:
    rows = judged(90)
    for row in rows[80:]:
        row |= {"failed_at_start": True, "score": 0.0}
    found = model(compared(rows, audits=audits(*said(rows))), "a", effective_source="scorecard")

    assert found["corrected_score"] == pytest.approx(found["naive_score"] - 8 * 80 / 90)


def test_a_correction_that_cannot_be_made_says_why() -> None:
    row = model(compared(judged(90)), "a", effective_source="scorecard")
    assert row["corrected_score"] is None
    assert row["correction_reason"] == "0 of the 30 audited sessions that it takes"


def test_samples_with_unknown_probabilities_are_left_out() -> None:
    rows = judged(90)
    found = compared(rows, audits=audits(*said(rows, inclusion_probability=None)))
    row = model(found, "a", effective_source="scorecard")

    assert (row["corrected_score"], row["audited"]) == (None, 0)
    assert row["correction_reason"] == (
        "0 of the 30 audited sessions that it takes; 32 more were drawn with unknown probabilities"
    )


def test_dates_without_a_sample_are_not_represented_by_others() -> None:
    rows = judged(90)
    for row in rows[60:]:
        row["started_at"] = UNTIL - timedelta(days=9)
    row = model(compared(rows, audits=audits(*said(rows))), "a", effective_source="scorecard")

    assert row["correction_reason"] == "only 67% of the sessions are of dates with an audit sample"


def test_other_rows_have_no_correction() -> None:
    row = model(compared(sample("a", scores(80, 40), 0)), "a")

    assert (row["naive_score"], row["audited"], row["correction_reason"]) == (None, None, None)
