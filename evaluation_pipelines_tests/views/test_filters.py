"""Which sessions a list has, and in which order."""

from datetime import UTC, date, datetime
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.scorecards.domain.withheld import withhold
from evaluation_pipelines.views.filters import ListQuery, parse_query
from evaluation_pipelines.views.listing import SESSION_LISTING

LATEST = [datetime(2026, 6, day, 12, tzinfo=UTC) for day in (4, 3, 2, 1)]
ROWS = pl.DataFrame(
    {
        "organization_id": ["acme", "acme", "beta", "beta"],
        "session_key": ["d", "c", "b", "a"],
        "session_date": [moment.date() for moment in LATEST],
        "started_at": pl.Series(LATEST, dtype=pl.Datetime("us", "UTC")),
        "judge_total": [80.0, None, 90.0, None],
        "judge_badge": ["80 green", "Failed", "90 green", "Scoring"],
        "effective_100": [None, 75.0, 74.0, 10.0],
        "cost_usd": [1.0, None, 3.0, 1.0],
        "merged": [True, None, False, True],
        "reverted": [False, None, None, True],
    }
)
WAITING = pl.DataFrame(
    {
        "organization_id": ["beta"],
        "session_key": ["e"],
        "session_date": [date(2026, 5, 1)],
        "started_at": pl.Series([datetime(2026, 5, 1, tzinfo=UTC)], dtype=ROWS["started_at"].dtype),
        "judge_total": [20.0],
        "judge_badge": ["20 red"],
        "effective_100": [20.0],
        "cost_usd": [None],
        "merged": [None],
        "reverted": [None],
    },
    schema=ROWS.schema,
)


def keys(query: ListQuery) -> str:
    rows = withhold(ROWS.vstack(WAITING), {("beta", "e"), ("acme", "a")})
    return "".join(SESSION_LISTING.in_order(query.chosen(rows), query.sort)["session_key"])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "dcbae"),
        ({"sort": "cost"}, "dabce"),  # equal ones as they were, unknown ones last
        ({"sort": "-cost"}, "bdace"),
        ({"from": "2026-06-02", "to": "2026-06-03"}, "cb"),
        ({"to": "2026-06-01"}, "ae"),
        ({"score": "green"}, "c"),
        ({"score": "unscored", "judge": ""}, "d"),
        ({"judge": "failed"}, "c"),
        ({"judge": "scoring"}, "a"),
        ({"outcome": "merged"}, "da"),
        ({"outcome": "not_merged"}, "b"),
        ({"outcome": "not_reverted"}, "d"),
        ({"score": "red"}, "a"),  # e awaits its blind review: neither here nor without a score
        ({"score": "waiting"}, "e"),
        ({"sort": "score"}, "abcde"),
        ({"judge": "red"}, ""),
        ({"judge": "green"}, "db"),
        ({"sort": "-judge"}, "bdcae"),
        ({"judge": "yellow"}, ""),
        ({"judge": "unscored"}, ""),  # c has failed, a is being scored
    ],
)
def test_a_query_chooses_and_orders(fields: dict[str, str], expected: str) -> None:
    assert keys(parse_query(fields)) == expected


def test_what_nobody_works_on_waits_for_the_judge_and_is_not_being_scored() -> None:
    rows = withhold(ROWS.with_columns(judge_badge=pl.lit("Waits for the judge")), set())

    assert ListQuery(judge="queued").chosen(rows).height == 4
    assert ListQuery(judge="scoring").chosen(rows).is_empty()


def test_a_time_range_ends_before_its_last_moment() -> None:
    assert keys(ListQuery(since=LATEST[3], until=LATEST[1])) == "ba"
    assert keys(ListQuery(until=LATEST[3])) == "e"


@pytest.mark.parametrize(
    "fields",
    [
        {"from": "yesterday"},
        {"to": "0001-01-01"},
        {"score": "blue"},
        {"judge": "waiting"},
        {"alert": "1.5"},
        {"sort": "--cost"},
        {"sort": "organization"},
    ],
)
def test_a_value_that_a_field_cannot_have_is_an_error(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_query(fields)


def test_another_page_of_the_same_sessions_keeps_values_alone() -> None:
    given: dict[str, Any] = {"model": "m", "judge": "red", "from": "2026-06-01", "sort": "-cost"}
    kept = parse_query(given).on(date(2026, 6, 2))
    assert kept == ListQuery(model="m", dates=(date(2026, 6, 2), date.max))
    assert (kept.first_date, kept.last_date, kept.values) == (
        date(2026, 6, 2),
        None,
        {"model": "m"},
    )
