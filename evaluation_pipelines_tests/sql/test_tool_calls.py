"""Tool calls of a window, each counted once, and what kind of task they make."""

from random import Random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.sessions.session_queries import query_tool_calls
from evaluation_pipelines_tests.sql.session_queries import only_window, session_rows, windows
from evaluation_pipelines_tests.world.rows import (
    Row,
    api_request,
    decision,
    don,
    event,
    events_frame,
    prompt,
    tool,
)

_COUNTS = ("total_tools", "tools_ok", "tools_failed", "tools_denied", "tools_unknown")


ACCEPTED, REJECTED = (
    decision(0, "accept", tool_use_id="t1"),
    decision(0, "reject", tool_use_id="t1"),
)
AGAIN: dict[str, Any] = {"tool_use_id": "t1"}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([tool(0), tool(1), tool(2, success=False)], (3, 2, 1, 0, 0)),
        # One that does not say how it ended is not in the total.
        ([tool(0), tool(1, success=None)], (1, 1, 0, 0, 1)),
        # An accepted call is counted by its result, without one as unknown, once.
        ([ACCEPTED, tool(1, **AGAIN)], (1, 1, 0, 0, 0)),
        ([ACCEPTED, decision(1, "accept", **AGAIN)], (0, 0, 0, 0, 1)),
        # Without an id it may be any result.
        ([decision(0, "accept"), tool(1)], (1, 1, 0, 0, 0)),
        # A rejected call is denied once, and those without an id are each one.
        ([REJECTED, decision(1, "reject", **AGAIN)], (0, 0, 0, 1, 0)),
        ([decision(0, "reject"), decision(1, "reject")], (0, 0, 0, 2, 0)),
        # A result of a rejected call says nothing.
        ([REJECTED, tool(1, success=True, **AGAIN)], (0, 0, 0, 1, 0)),
        ([REJECTED, tool(1, success=False, **AGAIN)], (0, 0, 0, 1, 0)),
        ([REJECTED, tool(1, success=None, **AGAIN)], (0, 0, 0, 1, 0)),
        # A result that says it was rejected.
        ([tool(0, success=False, decision="reject")], (0, 0, 0, 1, 0)),
        # Rejected and then accepted: by its result.
        ([REJECTED, decision(1, "accept", **AGAIN), tool(2, **AGAIN)], (1, 1, 0, 0, 0)),
    ],
)
def test_a_call_counts_once_by_its_result_or_else_its_decision(
    rows: list[Row], expected: tuple[int, ...]
) -> None:
    window = only_window([prompt(-1), *rows])

    assert tuple(window[name] for name in _COUNTS) == expected


def test_the_same_id_in_another_session_or_organization_is_another_call() -> None:
    rows = [
        decision(0, "reject", tool_use_id="t1"),
        tool(1, tool_use_id="t1", session_id="s2"),
        tool(2, tool_use_id="t1", organization_id="other"),
    ]

    assert [(row["tools_ok"], row["tools_denied"]) for row in session_rows(rows)] == [
        (0, 1),
        (1, 0),
        (1, 0),
    ]


def test_a_call_counts_for_the_window_of_its_result_or_its_decision() -> None:
    rows = [
        decision(0, "accept", tool_use_id="t1"),
        decision(1, "accept", tool_use_id="t2"),
        decision(2, "reject", tool_use_id="t3"),
        don("A", 5),
        tool(6, tool_use_id="t1"),
        tool(7, success=False, tool_use_id="t3"),
    ]

    found = windows(rows)

    assert {key: tuple(row[name] for name in _COUNTS) for key, row in found.items()} == {
        "s1#baseline-1": (0, 0, 0, 1, 1),
        "s1#a-1": (1, 1, 0, 0, 0),
    }


def test_the_quantiles_of_durations_are_linear_over_the_counted_calls() -> None:
    rows = [tool(n, duration_ms=ms) for n, ms in enumerate([10.0, 20.0, 30.0, 40.0])]
    others = [tool(8, success=None, duration_ms=9e9), tool(9, duration_ms=None)]

    window = only_window(rows + others)

    # Median of four: between 20 and 30. 95%: position 0.95 * 3 = 2.85, 30 + 0.85 * 10.
    assert window["median_tool_ms"] == 25.0
    assert window["p95_tool_ms"] == pytest.approx(38.5)


def test_the_quantiles_are_unknown_without_durations() -> None:
    window = only_window([tool(0, duration_ms=None)])

    assert (window["median_tool_ms"], window["p95_tool_ms"]) == (None, None)


def mix(calls: dict[str, int]) -> list[Row]:
    classes = [name for name, n in calls.items() for _ in range(n)]
    return [tool(second, tool_class=name) for second, name in enumerate(classes)]


def test_the_tool_mix_counts_calls_with_an_outcome_by_class_in_order() -> None:
    rows = [
        *mix({"shell": 2, "edit": 1}),
        tool(10, success=False, tool_class="edit"),
        tool(11, success=None, tool_class="web"),
        tool(12, tool_class=None),
    ]

    assert only_window(rows)["tool_mix"] == [
        {"key": "edit", "value": 2},
        {"key": "other", "value": 1},
        {"key": "shell", "value": 2},
    ]


def test_the_tool_mix_is_empty_without_calls() -> None:
    assert only_window([prompt(0)])["tool_mix"] == []


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        # Fewer than three calls.
        ({}, "unclassified"),
        ({"web": 2}, "unclassified"),
        # Web: at least three, and 15%.
        ({"web": 3}, "research"),
        ({"web": 3, "edit": 17}, "research"),  # 3 / 20 = 15%
        ({"web": 3, "edit": 18}, "refactor"),  # 3 / 21 < 15%
        ({"web": 2, "read": 3}, "review"),
        # Changes under 5%, reads and searches at least 45%.
        ({"read": 5, "search": 4, "mcp": 11}, "review"),  # 9 / 20 = 45%
        ({"read": 8, "mcp": 12}, "unclassified"),  # 8 / 20 < 45%
        ({"read": 20, "edit": 1}, "review"),  # 1 / 21 < 5%
        ({"read": 19, "edit": 1}, "unclassified"),  # 1 / 20 = 5%, and under 10%
        # Shell at least 50%, changes under 10%.
        ({"shell": 2, "mcp": 2}, "ops"),
        ({"shell": 4, "read": 3, "edit": 0, "mcp": 1}, "ops"),
        ({"shell": 18, "read": 1, "edit": 1}, "ops"),  # 1 / 20 = 5%
        ({"shell": 4, "edit": 1}, "refactor"),  # 1 / 5 = 20%, fewer than five shell calls
        # At least five shell calls, 30%, and a change.
        ({"shell": 9, "edit": 1}, "debug"),  # changes 10%
        ({"shell": 6, "mcp": 13, "write": 1}, "debug"),  # 6 / 20 = 30%
        ({"shell": 5, "mcp": 12, "write": 1}, "unclassified"),  # 5 / 18 < 30%, changes 6%
        # At least five writes, no fewer than edits, changes at least 15%.
        ({"write": 5, "edit": 5}, "greenfield"),
        ({"write": 6, "mcp": 34}, "greenfield"),  # 6 / 40 = 15%
        ({"write": 6, "mcp": 35}, "unclassified"),  # 6 / 41 < 15%, fewer edits than writes
        ({"write": 4, "mcp": 1}, "unclassified"),
        # Changes at least 10%, edits no fewer than writes.
        ({"write": 5, "edit": 6}, "refactor"),
        ({"edit": 1, "write": 1, "mcp": 18}, "refactor"),  # 2 / 20 = 10%
        ({"edit": 1, "mcp": 10}, "unclassified"),  # 1 / 11 < 10%
        # None of these.
        ({"mcp": 5, "agent": 5}, "unclassified"),
    ],
    ids=str,
)
def test_the_first_rule_that_fits_decides_the_task_class(
    calls: dict[str, int], expected: str
) -> None:
    assert only_window([prompt(-1), *mix(calls)])["task_class"] == expected


def tool_calls(rows: list[Row]) -> list[dict[str, Any]]:
    """Rows of the query with their windows, in the order of their session."""
    events = events_frame(rows)
    found = query_tool_calls(events, events)
    joined = found.rows.join(found.windows, on="window_no", how="left", maintain_order="left")
    return joined.to_dicts()


def shown(rows: list[Row], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in tool_calls(rows)]


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


def test_the_text_of_the_own_organization_comes_first() -> None:
    mine = {**tool(0, content="mine"), "organization_id": "acme"}
    texts = events_frame([{**mine, "organization_id": None, "content": "unowned"}, mine])
    found = query_tool_calls(events_frame([mine]), texts)
    assert found.rows["said"].to_list() == ["mine"]
