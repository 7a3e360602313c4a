"""The judge in words: trust, sources, status, and what the day cost."""

from datetime import UTC, datetime

import polars as pl

from evaluation_pipelines.judging.domain.badge import ScoringsOfDay
from evaluation_pipelines.numerics.estimates import Estimate
from evaluation_pipelines.scorecards.domain.calibration import Agreement
from evaluation_pipelines.service.pages.judge import (
    answer,
    judge_day,
    judge_standing,
    score_sources,
    sentence,
    trust_line,
)


def test_the_state_says_what_is_in_the_way() -> None:
    assert judge_standing(None, "no judge is configured: set A to B", None) == (
        "Not configured for new sessions",
        "Set A to B. Other scores are still computed.",
    )
    assert judge_standing("m", None, "connection refused") == (
        "Not responding",
        "Connection refused. Pending sessions are judged once it responds.",
    )
    assert judge_standing("m", None, None) == ("Configured", "m has not judged a session yet.")
    judged_at = datetime(2026, 6, 1, 9, 5, tzinfo=UTC)
    assert judge_standing("m", None, None, judged_at) == (
        "Working",
        "m, last judgment 2026-06-01 09:05 UTC.",
    )


def test_the_day_has_its_cost_and_limit() -> None:
    some = ScoringsOfDay(3, 1, 2, 0.5, 1, ("large", "small"))
    assert judge_day(some, 2.0) == (
        "3 judged by large, small, 1 failed, 2 requested or in progress, "
        "cost $0.50 (unknown for 1) of at most $2.00 a day."
    )
    none = ScoringsOfDay(0, 0, 0, 0.0, 0)
    assert judge_day(none, None) == "0 judged, 0 failed, cost $0.00."


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
    assert score_sources(pl.DataFrame(rows, schema, orient="row")) == (
        "8 of 9 sessions scored: profile 3 (1 include small), human 1, failed 1 (score 0), "
        "judge only 2 (large, script demo-script), awaiting review 1."
    )
    none = pl.DataFrame(rows[-1:], schema, orient="row")
    assert score_sources(none) == "0 of 1 sessions scored."
    alone = pl.DataFrame(rows[:1], schema, orient="row")
    assert score_sources(alone).endswith(": profile 1.")


FEW = Agreement("code", 2, "audit", 4, 3, Estimate(0.25, 0.01, 0.9), "not yet: 4 of 30")
HIGH = Agreement(
    *("code", 3, "audit", 40, 9, Estimate(0.2, 0.1, 0.35), None),
    bias=Estimate(4.25, 1.0, 7.5),
    mae=Estimate(6.0, 4.0, 8.0),
    spearman=Estimate(0.81, 0.6, 0.9),
)
EVEN = Agreement(
    *("simple", 1, "audit", 30, 9, Estimate(0.1, 0.05, 0.2), None),
    bias=Estimate(-0.5, -2.0, 1.0),
    mae=Estimate(3.0, 2.0, 4.0),
)
CHOSEN = Agreement("code", 3, "chosen", 99, 9, Estimate(1.0), None)


def test_too_few_reviews_are_no_answer() -> None:
    assert answer([FEW, CHOSEN], 25) == (
        "Not measured yet",
        "A profile needs 30 blind reviews, the most so far is 4. 25 sessions are awaiting review.",
    )
    assert answer([], 0)[1].endswith(" none so far. No session is awaiting review.")


def test_the_profile_that_differs_most_answers() -> None:
    said, because = answer([EVEN, HIGH, FEW], 0)
    assert said == "Within 6.0 points of human scores on average"
    assert because.startswith(
        "40 blind reviews, profile code v3, the furthest of 2 profiles. No session"
    )


def test_a_lean_has_its_direction_and_its_interval() -> None:
    assert sentence(HIGH) == (
        "code v3: 4.3 points too high on average (1.0 to 7.5). "
        "20% of 40 scores are off by more than 10 points."
    )
    assert "0.5 points too low on average (2.0 too low to 1.0 too high)" in sentence(EVEN)


def test_a_line_has_the_figures_and_what_is_missing() -> None:
    line = trust_line(HIGH)
    assert (line.reviews, line.lacks, line.off, line.off_interval) == (40, 0, "20%", "10% to 35%")
    assert (line.bias, line.bias_interval) == ("+4.3", "+1.0 to +7.5")
    assert (line.mean_error, line.missing) == ("6.0", "")
    few = trust_line(FEW)
    assert (few.reviews, few.lacks, few.missing) == (4, 26, "not yet: 4 of 30")


def test_a_row_of_the_file_has_every_estimate_with_its_ends() -> None:
    row = HIGH.record()
    assert (row["profile_id"], row["n"], row["people"], row["missing"]) == ("code", 40, 9, None)
    assert (row["bias"], row["bias_low"], row["bias_high"]) == (4.25, 1.0, 7.5)
    assert (row["kappa"], row["kappa_low"], row["kappa_high"]) == (None, None, None)
