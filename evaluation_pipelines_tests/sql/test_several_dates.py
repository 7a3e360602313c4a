"""No date depends on which others it is made with: statements over several dates at once."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evaluation_pipelines.schemas.sessions import ToolCalls
from evaluation_pipelines.sessions.domain.tool_reports.report import tool_reports
from evaluation_pipelines.sessions.session_queries import (
    query_events,
    query_sessions,
    query_sessions_and_calls,
    query_tool_calls,
)
from evaluation_pipelines.sessions.session_tables import rows_by_date
from evaluation_pipelines.settings import Settings
from evaluation_pipelines_tests.world.rows import (
    START,
    Row,
    api_request,
    don,
    event,
    events_frame,
    prompt,
    tool,
)

FIRST = START.date()
DATES = [FIRST + timedelta(days=number) for number in range(3)]


def random_event(random: Random) -> Row:
    """An event of one of two sessions on one of two dates; some are the same but for the date."""
    second = random.randrange(6)
    columns: dict[str, Any] = {
        "session_id": random.choice(("s1", "s2")),
        "session_date": random.choice(DATES[:2]),
    }
    match random.randrange(4):
        case 0:
            return don(random.choice("AB"), second, **columns)
        case 1:
            return prompt(second, **columns)
        case 2:
            return api_request(second, request_id=f"r{random.randrange(2)}", **columns)
    return tool(second, tool_use_id=f"t{random.randrange(3)}", **columns)


def sessions(events: pl.DataFrame) -> pl.DataFrame:
    return query_sessions(events, Settings())


def tool_calls(events: pl.DataFrame) -> pl.DataFrame:
    """The tool calls of events that have their texts, with names in place of numbers."""
    return with_names(query_tool_calls(events, events))


def with_names(calls: ToolCalls) -> pl.DataFrame:
    joined = calls.rows.join(calls.windows, on="window_no", how="left", maintain_order="left")
    return joined.drop("session_no", "window_no")


@pytest.mark.parametrize("made", [query_events, sessions, tool_calls])
@settings(max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_a_date_is_the_same_alone_and_among_others(
    made: Callable[[pl.DataFrame], pl.DataFrame], seed: int
) -> None:
    random = Random(seed)  # noqa: S311 - it has to be repeatable, not secret
    landed = events_frame([random_event(random) for _ in range(random.randint(2, 40))])
    events = landed if made is query_events else query_events(landed)

    together = rows_by_date(made(events), DATES)

    assert list(together) == DATES
    for day, rows in together.items():
        assert rows.equals(made(events.filter(session_date=day)))


@settings(max_examples=3)
@given(seed=st.integers(0, 2**32))
@example(seed=79).via("calls of one session on two dates came in another order now and then")
def test_windows_and_calls_are_the_same_together_and_by_themselves(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - it has to be repeatable, not secret
    events = query_events(events_frame([random_event(random) for _ in range(40)]))

    windows, calls = query_sessions_and_calls(events, events, Settings())

    assert windows.equals(sessions(events))
    assert with_names(calls).equals(tool_calls(events))
    assert calls.rows.height > 0


def test_a_result_is_not_used_by_the_same_session_of_another_date() -> None:
    rows = [
        tool(0, content="the checkout module"),
        event("assistant_response", 1, content="done"),
        prompt(8, session_date=DATES[1]),
        tool(9, tool_parameters='{"path": "checkout"}', session_date=DATES[1]),
    ]
    events = events_frame(rows)

    reports = tool_reports(query_tool_calls(events, events), sessions(events))

    wasted = dict(reports.select("session_date", "wasted_calls").iter_rows())
    assert wasted == {DATES[0]: 1, DATES[1]: None}


def test_a_session_of_two_dates_is_two() -> None:
    rows = [prompt(0), prompt(20, session_date=DATES[1])]

    found = sessions(events_frame(rows))

    assert found["session_date"].to_list() == DATES[:2]
    assert found["prompts"].to_list() == [1, 1]


@pytest.mark.parametrize("made", [query_events, sessions, tool_calls])
def test_rows_of_several_dates_come_date_by_date(
    made: Callable[[pl.DataFrame], pl.DataFrame],
) -> None:
    rows = [
        tool(second, session_date=day, session_id=session)
        for session in ("s1", "s2")
        for day in reversed(DATES)
        for second in (1, 0)
    ]

    found = made(events_frame(rows))

    assert found["session_date"].to_list() == sorted(found["session_date"])
    assert found["session_date"].unique().sort().to_list() == DATES


def test_rows_of_a_date_that_nobody_asked_for_are_not_left_out_silently() -> None:
    rows = events_frame([prompt(0), prompt(1, session_date=DATES[1])])

    with pytest.raises(ValueError, match=f"rows of {DATES[1]} are among the rows of {FIRST}"):
        rows_by_date(rows, [FIRST])
