"""What the page of the judge says of its state and its cost."""

from datetime import UTC, datetime

import polars as pl

from evaluation_pipelines.judging.domain.score_rows import ScoringsOfDay
from evaluation_pipelines.service.pages.domain.judge_status import (
    day_of_judge,
    state_of_judge,
    who_scored,
)


def test_the_state_says_what_is_in_the_way() -> None:
    assert state_of_judge(None, "no judge is configured", None)[0] == "Not configured"
    assert state_of_judge("m", None, "connection refused") == (
        "Not responding",
        "Connection refused. Pending sessions are judged once it responds.",
    )
    assert state_of_judge("m", None, None) == ("Configured", "m has not judged a session yet.")
    judged_at = datetime(2026, 6, 1, 9, 5, tzinfo=UTC)
    assert state_of_judge("m", None, None, judged_at) == (
        "Working",
        "m, last judgment 2026-06-01 09:05 UTC.",
    )


def test_the_day_has_its_cost_and_limit() -> None:
    some = ScoringsOfDay(3, 1, 2, 0.5, 1, ("large", "small"))
    assert day_of_judge(some, 2.0) == (
        "3 judged by large, small, 1 failed, 2 requested or in progress, "
        "cost $0.50 (unknown for 1) of at most $2.00 a day."
    )
    none = ScoringsOfDay(0, 0, 0, 0.0, 0)
    assert day_of_judge(none, None) == "0 judged, 0 failed, cost $0.00."


def test_who_scored_is_counted_without_what_is_hidden() -> None:
    schema = {
        "effective_source": pl.String,
        "automatic_judge_model": pl.String,
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
        "8 of 9 sessions have a score: profile 3 (1 include small), human 1, failed 1 (score 0), "
        "judge only 2 (large, script demo-script), awaiting review 1."
    )
    none = pl.DataFrame(rows[-1:], schema, orient="row")
    assert who_scored(none) == "0 of 1 sessions have a score."
    alone = pl.DataFrame(rows[:1], schema, orient="row")
    assert who_scored(alone).endswith(": profile 1.")
