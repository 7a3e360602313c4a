"""Results in later requests are matched to their calls."""

import json

from evaluation_pipelines.judging.domain.prompt import session_steps
from evaluation_pipelines.judging.domain.prompt.session_steps import results_from_requests
from evaluation_pipelines_tests.builders import Row, event, tool


def request(seconds: float, *answers: tuple[str, str | None, str]) -> Row:
    """Return a request to the model that repeats results, given as id, tool and text."""
    parts = [
        {"functionResponse": {"id": call, "name": name, "response": {"output": text}}}
        for call, name, text in answers
    ]
    return event("other", seconds, content=json.dumps([{"role": "user", "parts": parts}]))


def test_without_missing_results_nothing_is_searched() -> None:
    assert results_from_requests([request(0, ("c1", "ls", "a")), tool(1, content="b")]) == {}


def test_calls_with_ids_are_matched_by_id() -> None:
    rows = [
        tool(0, tool_use_id="c1"),
        tool(1, tool_use_id="c2"),
        tool(2, tool_use_id="c3"),
        request(3, ("c2", "ls", "two"), ("c1", "ls", "one")),
    ]

    assert results_from_requests(rows) == {0: "one", 1: "two"}


def test_calls_without_ids_are_matched_in_order_if_the_numbers_are_equal() -> None:
    rows = [
        tool(0, tool_name="ls"),
        request(1, ("c1", "ls", "one")),
        tool(2, tool_name="ls"),
        tool(3, tool_name="cat"),
        request(
            4, ("c1", "ls", "one"), ("c2", "ls", "two"), ("c3", "cat", "x"), ("c4", "cat", "y")
        ),
    ]

    # Two results of cat for one call: the match is ambiguous.
    assert results_from_requests(rows) == {0: "one", 2: "two"}


def test_requests_before_a_compaction_are_read() -> None:
    rows = [
        tool(0, tool_name="ls"),
        request(1, ("c1", "ls", "one")),
        tool(2, tool_name="ls"),
        request(3, ("c2", "ls", "two")),
        event("other", 4),
        event("other", 5, content="{cut off"),
    ]

    assert results_from_requests(rows) == {0: "one", 2: "two"}


def test_the_latest_requests_are_read_up_to_a_limit() -> None:
    rows = [
        tool(0, tool_use_id="c1"),
        tool(1, tool_use_id="c2"),
        request(2, ("c1", None, "old")),
        request(3, ("c2", None, "x" * 21_000_000)),
    ]

    assert session_steps._MAX_CHARACTERS < 21_000_000
    assert set(results_from_requests(rows)) == {1}
