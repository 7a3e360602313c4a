"""What the page of the judge says of its state and its cost."""

from datetime import UTC, datetime

import polars as pl

from evaluation_pipelines.judging.domain.scorings_of_day import ScoringsOfDay
from evaluation_pipelines.service.pages.domain.judge_status import (
    day_of_judge,
    state_of_judge,
    who_scored,
)


def test_the_state_says_what_is_in_the_way() -> None:
    assert state_of_judge(None, "no judge is configured", None)[0] == "No judge is set up now"
    assert state_of_judge("m", None, "connection refused") == (
        "It does not answer",
        "Connection refused. What is due is judged when it answers again.",
    )
    assert state_of_judge("m", None, None)[0] == "It has not scored yet"
    said, why = state_of_judge("m", None, None, datetime(2026, 6, 1, 9, 5, tzinfo=UTC))
    assert said == "Yes, as far as known"
    assert why.startswith("m is set up; the newest score is of 2026-06-01 09:05 UTC, and ")


def test_the_day_has_its_cost_and_limit() -> None:
    some = ScoringsOfDay(3, 1, 2, 0.5, 1, ("large", "small"))
    assert day_of_judge(some, 2.0) == (
        "Today (UTC): 3 scored by large, small, 1 failed, 2 requested or in progress, "
        "cost $0.50 (unknown for 1) of at most $2.00 a day."
    )
    none = ScoringsOfDay(0, 0, 0, 0.0, 0)
    assert day_of_judge(none, None) == "Today (UTC): 0 scored, 0 failed, cost $0.00."


def test_who_scored_is_counted_without_what_is_hidden() -> None:
    schema = {
        "effective_source": pl.String,
        "judge_model": pl.String,
        "is_scored": pl.Boolean,
        "awaits_review": pl.Boolean,
    }
    rows = [
        *[("scorecard", None, True, False)] * 2,
        ("scorecard", "small", True, False),
        ("judge", "demo-script", True, False),
        ("judge", "large", True, False),
        ("status", None, True, False),
        ("override", "small", True, False),
        (None, None, True, True),
        ("none", None, False, False),
    ]
    assert who_scored(pl.DataFrame(rows, schema, orient="row")) == (
        "8 of 9 sessions have a score that counts: 3 by their profile (1 of them with a part by "
        "small), 2 by a judge alone (large, the script demo-script), 1 as 0, since they failed, 1 "
        "by a person, 1 not shown before their blind review."
    )
    none = pl.DataFrame(rows[-1:], schema, orient="row")
    assert who_scored(none) == "0 of 1 sessions have a score that counts."
    alone = pl.DataFrame(rows[:1], schema, orient="row")
    assert who_scored(alone).endswith(": 1 by their profile, no judge has a part in them.")
