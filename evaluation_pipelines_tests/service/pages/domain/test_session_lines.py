"""Which sessions a list shows, and in which order."""

import json
from datetime import UTC, date, datetime

import polars as pl
import pytest

from evaluation_pipelines.judging.domain.prompt.shown_texts import shown_texts
from evaluation_pipelines.reporting.domain.session_facts import dimensions, lost_calls
from evaluation_pipelines.scorecards.domain.withheld import withhold
from evaluation_pipelines.service.pages.domain.session_lines import (
    ListQuery,
    chosen_rows,
    page_of,
    parse_query,
    with_live_totals,
)

ROWS = pl.DataFrame(
    {
        "organization_id": ["acme", "acme", "beta", "beta"],
        "session_key": ["d", "c", "b", "a"],
        "session_date": [date(2026, 6, day) for day in (4, 3, 2, 1)],
        "started_at": [datetime(2026, 6, day, tzinfo=UTC) for day in (4, 3, 2, 1)],
        "judge_total": [80.0, None, 49.0, 50.0],
        "effective_100": [None, 75.0, 74.0, 10.0],
        "cost_usd": [1.0, None, 3.0, 1.0],
    }
)
TO_REVIEW = pl.DataFrame(
    {
        "organization_id": ["beta"],
        "session_key": ["e"],
        "session_date": [date(2026, 5, 1)],
        "started_at": [datetime(2026, 5, 1, tzinfo=UTC)],
        "judge_total": [20.0],
        "effective_100": [20.0],
        "cost_usd": [None],
    },
    schema=ROWS.schema,
)
WAITING = {("beta", "e"), ("acme", "a")}
LIVE = {("acme", "c"): None, ("beta", "a"): None, ("beta", "b"): 90.0}
"""b was scored again since the last build, the others have no score at the moment."""

UNFINISHED = {("acme", "c"): "Failed", ("beta", "a"): "Scoring"}


def keys(query: ListQuery) -> str:
    rows = with_live_totals(withhold(ROWS.vstack(TO_REVIEW), WAITING), LIVE)
    return "".join(chosen_rows(rows, query, UNFINISHED)["session_key"])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "dcbae"),
        ({"sort": "cost"}, "dabce"),  # equal ones as they were, unknown ones last
        ({"sort": "-cost"}, "bdace"),
        ({"from": "2026-06-02", "to": "2026-06-03"}, "cb"),
        ({"score": "green"}, "c"),
        ({"score": "unscored", "judge": ""}, "d"),
        ({"judge": "failed"}, "c"),
        ({"judge": "scoring"}, "a"),
        ({"score": "red"}, "a"),  # e waits for a blind review: neither here nor unscored
        ({"score": "waiting"}, "e"),
        ({"sort": "score"}, "abcde"),
        ({"judge": "red"}, ""),  # b was
        ({"judge": "green"}, "db"),
        ({"sort": "-judge"}, "bdcae"),
        ({"judge": "yellow"}, ""),  # a is being scored again
        ({"judge": "unscored"}, ""),  # c has failed
    ],
)
def test_a_query_chooses_and_orders(fields: dict[str, str], expected: str) -> None:
    assert keys(parse_query(fields)) == expected


def test_pages_follow_each_other_until_the_last() -> None:
    first = page_of(ROWS, None, 3)
    assert first
    assert (first[0]["session_key"].to_list(), first[1]) == (["d", "c", "b"], ("beta", "b"))
    second = page_of(ROWS, first[1], 3)
    assert second
    assert (second[0]["session_key"].to_list(), second[1]) == (["a"], None)
    assert page_of(ROWS, ("acme", "b"), 3) is None  # of another organization


def test_dimensions_that_are_not_built_are_none() -> None:
    assert dimensions(None) == []


def test_calls_beyond_the_first_hundred_are_counted() -> None:
    call = {"call": 7, "tool": "Bash", "parameters": "secret", "error": "text"}
    (found,) = lost_calls({"failures": [call] * 102}, None)
    assert (found.heading, len(found.lines), found.more) == ("Failed", 100, 2)
    assert found.lines[0] == (7, "Bash", "", "")
    loop = {"first_call": 3, "tool": None, "parameters": None}
    (found,) = lost_calls({"loops": [loop], "repeats": None}, shown_texts(()))
    assert found.lines == ((3, "", "", ""),)


def test_lost_calls_are_shown_without_secrets() -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    parameters = json.dumps({"command": f"curl -H 'x-api-key: {key}'"})
    call = {"call": 1, "tool": "Bash", "parameters": parameters, "error": f"refused: {key}"}
    (found,) = lost_calls({"failures": [call]}, shown_texts(()))
    ((_, _, shown, error),) = found.lines
    assert "curl" in shown
    assert "refused" in error
    assert key not in shown + error
