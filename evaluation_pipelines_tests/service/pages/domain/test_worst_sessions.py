"""What went wrong on the latest day that is over."""

from datetime import date

import polars as pl

from evaluation_pipelines.service.pages.domain.session_lines import worst_on_day

MONDAY, TUESDAY, WEDNESDAY = (date(2026, 6, day) for day in (1, 2, 3))

ROWS = pl.DataFrame(
    {
        "session_key": ["today", "high", "red", "redder", "failed", "hidden", "before"],
        "session_date": [WEDNESDAY, *[TUESDAY] * 5, MONDAY],
        "status": ["failed", *["completed"] * 3, "failed", "completed", "failed"],
        "effective_100": [None, 50.0, 49.0, 7.0, 80.0, 1.0, None],
        "awaits_review": [False, False, False, False, False, True, False],
    }
).with_columns(
    organization_id=pl.lit("acme"),
    agent_id=pl.lit("scout"),
    model=pl.lit(None, pl.String),
    effective_source=pl.lit("judge"),
    disqualified=pl.lit(value=False),
    judge_tags=pl.lit(None, pl.String),
    automatic_judge_model=pl.lit(None, pl.String),
    api_errors=pl.lit(0),
    tools_failed=pl.lit(0),
    total_tools=pl.lit(3),
)


def names(today: date, number: int = 5) -> list[str]:
    found = worst_on_day(ROWS, today, number)
    return [session.session_key for _, group in found.groups for session in group] if found else []


def test_sessions_that_failed_come_first_then_the_lowest_scores() -> None:
    assert names(WEDNESDAY) == ["failed", "redder", "red"]  # none that waits for a blind review
    assert names(WEDNESDAY, 2) == ["failed", "redder"]
    found = worst_on_day(ROWS, WEDNESDAY, 1)
    assert found
    assert (found.day, found.is_yesterday) == (TUESDAY, True)
    assert [heading for heading, _ in found.groups] == ["Failed"]
    assert found.failed[0].why == "failed: does not count as passed"
    assert found.failed[0].score_class == "green"


def test_all_are_counted_and_a_failed_one_that_waits_is_there_without_its_score() -> None:
    waits = (pl.col("session_key") == "failed") | pl.col("awaits_review")
    found = worst_on_day(ROWS.with_columns(awaits_review=waits), WEDNESDAY, 5)
    assert found
    assert (found.all_failed, found.all_low, found.waiting) == (1, 2, 2)
    (failed,) = found.failed
    assert (failed.score, failed.score_class) == ("-", "unscored")
    assert failed.why == "awaiting blind review"


def test_failed_sessions_leave_room_for_the_lowest_scores() -> None:
    failed = ROWS.filter(pl.col("session_key") == "failed")
    rows = pl.concat([failed] * 9 + [ROWS])
    found = worst_on_day(rows, WEDNESDAY, 5)
    assert found
    assert [session.session_key for session in found.failed] == ["failed"] * 3
    assert [session.session_key for session in found.low] == ["redder", "red"]
    assert found.all_failed == 10
    found = worst_on_day(pl.concat([failed] * 9), WEDNESDAY, 5)
    assert found
    assert len(found.failed) == 5


def test_without_a_failed_session_there_are_no_others() -> None:
    found = worst_on_day(ROWS.filter(pl.col("session_key") != "failed"), WEDNESDAY, 5)
    assert found
    assert [heading for heading, _ in found.groups] == ["Lowest scores"]


def test_the_latest_day_with_sessions_may_be_long_ago() -> None:
    found = worst_on_day(ROWS, date(2026, 6, 9), 5)
    assert found
    assert (found.day, found.is_yesterday) == (WEDNESDAY, False)
    assert worst_on_day(ROWS, MONDAY, 5) is None  # it is not over
