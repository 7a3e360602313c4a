"""The calls that tool reports read are those that agent_sessions counts, in the same windows."""

from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.sessions.session_queries import query_tool_calls
from evaluation_pipelines_tests.builders import (
    Row,
    api_request,
    decision,
    don,
    event,
    events_frame,
    prompt,
    tool,
)
from evaluation_pipelines_tests.sql.session_queries import session_rows


def tool_calls(rows: list[Row]) -> list[dict[str, Any]]:
    """Rows of the query with their windows, in the order of their session."""
    events = events_frame(rows)
    found = query_tool_calls(events, events)
    joined = found.rows.join(found.windows, on="window_no", how="left", maintain_order="left")
    return joined.to_dicts()


def shown(rows: list[Row], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in tool_calls(rows)]


def test_a_call_is_at_its_result_in_the_window_of_its_result() -> None:
    rows = [
        decision(0, "accept", tool_use_id="t1"),
        decision(1, "reject", tool_use_id="t2"),
        decision(2, "accept", tool_use_id="t3"),
        don("A", 5),
        tool(6, tool_use_id="t1"),
        tool(7, success=False),
    ]

    assert shown(rows, "session_key", "outcome") == [
        ("s1#baseline-1", "denied"),
        ("s1#baseline-1", "unknown"),
        ("s1#a-1", "ok"),
        ("s1#a-1", "failed"),
    ]


def test_calls_of_one_prompt_share_its_id_or_its_number() -> None:
    rows = [
        prompt(0),
        tool(1),
        tool(2, prompt_id="p"),
        prompt(3),
        tool(4),
        tool(5, prompt_id="p"),
    ]

    assert shown(rows, "prompt") == [("turn 1",), ("p",), ("turn 2",), ("p",)]


def test_a_call_shows_its_tool_parameters_and_duration() -> None:
    rows = [
        tool(0, tool_name="Read", tool_parameters="{}", duration_ms=5.0),
        tool(1, tool_class=None),
    ]

    assert shown(rows, "tool", "tool_class", "parameters", "duration_ms") == [
        ("Read", "read", "{}", 5.0),
        ("(unnamed)", "other", None, 100.0),
    ]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, None),
        ({"attributes": '{"tool_result_size_bytes": "168"}', "content": "abc"}, 168),
        ({"attributes": '{"content_length": 29}'}, 29),
        ({"attributes": '{"content_length": null}', "content": "äb"}, 3),
        ({"attributes": '{"tool_result_size_bytes": "many"}', "error": "no such file"}, 12),
        ({"attributes": '{"other": 1}'}, None),
    ],
)
def test_the_size_of_a_result_is_reported_or_that_of_its_text(
    columns: dict[str, Any], expected: int | None
) -> None:
    assert shown([tool(0, **columns)], "returned_bytes") == [(expected,)]


def test_texts_are_there_only_in_sessions_whose_results_are_logged() -> None:
    def of(session: str, **result: Any) -> list[Row]:
        return [
            prompt(0, session_id=session, content="please"),
            tool(1, session_id=session, **result),
            event("assistant_response", 2, session_id=session, content="done"),
        ]

    rows = [*of("s1", content="text"), *of("s2"), *of("s3", success=False, error="no")]

    assert shown(rows, "session_id", "kind", "said", "has_content") == [
        ("s1", "prompt", "please", True),
        ("s1", "call", "text", True),
        ("s1", "reply", "done", True),
        ("s2", "call", None, False),
        ("s3", "call", None, False),
    ]


def test_what_a_failed_call_gave_back_is_its_error() -> None:
    rows = [tool(0, content="text"), tool(1, success=False, error="no such file")]

    assert shown(rows, "said", "has_content") == [("text", True), ("no such file", False)]


@pytest.mark.parametrize(
    ("answers", "hidden"),
    [
        ([], False),
        ([api_request(2)], True),
        ([event("assistant_response", 2)], True),
        ([api_request(2), event("assistant_response", 3, content="done")], False),
        ([api_request(2, content="done")], False),
    ],
    ids=["no answer", "request", "reply without text", "reply", "request with text"],
)
def test_replies_are_hidden_where_the_model_answered_and_no_text_of_it_is_logged(
    answers: list[Row], hidden: object
) -> None:
    (call,) = [row for row in tool_calls([tool(0), *answers]) if row["kind"] == "call"]

    assert call["hides_replies"] is hidden


def random_event(random: Random, number: int) -> Row:
    """An event of one of two sessions, now and then a change of masque."""
    session = {"session_id": random.choice(("s1", "s2"))}
    call = {"tool_use_id": random.choice((None, f"t{random.randrange(6)}")), **session}
    match random.randrange(7):
        case 0:
            return don(random.choice("AB"), number, **session)
        case 1:
            return prompt(number, **session)
        case 2 | 3:
            return decision(number, random.choice(("accept", "reject")), **call)
    return tool(number, success=random.choice((True, False, None)), **call)


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_both_count_the_same_calls_in_every_window(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - it has to be repeatable, not secret
    rows = [random_event(random, number) for number in range(random.randint(1, 40))]
    counted = {
        row["session_key"]: {
            "ok": row["tools_ok"],
            "failed": row["tools_failed"],
            "denied": row["tools_denied"],
            "unknown": row["tools_unknown"],
        }
        for row in session_rows(rows)
    }
    found = {key: dict.fromkeys(outcomes, 0) for key, outcomes in counted.items()}
    for row in tool_calls(rows):
        found[row["session_key"]][row["outcome"]] += 1

    assert found == counted


def test_texts_that_landed_twice_count_once() -> None:
    """A line that was retried lands again, with the texts of records that had been stored."""
    events = events_frame([tool(0, tool_parameters='{"file_path": "a"}', content="text")])
    once = query_tool_calls(events, events)
    assert query_tool_calls(events, pl.concat([events, events])).rows.equals(once.rows)
    assert once.rows["parameters"].to_list() == ['{"file_path": "a"}']
