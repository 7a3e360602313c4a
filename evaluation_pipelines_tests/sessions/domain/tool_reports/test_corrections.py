"""Corrections, worked out by hand. Calls are numbered from 1."""

from typing import Any

import pytest

from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.sessions.domain.tool_reports.tool_rows import call, only_report

FAILED = call("Read", "failed", parameters={"file_path": "src/cart.py"})
OTHER = call("Other", parameters={"query": "entirely different"})


def corrected(rows: list[Row]) -> list[Any]:
    """Return (failed call, correcting call, similarity) of each correction."""
    return [
        (each["call"], each["corrected_by"], each["similarity"])
        for each in only_report(rows)["corrections"]
    ]


def correcting(tool: str = "Bash", **columns: Any) -> Row:
    return call(tool, **({"parameters": {"command": "cat src/cart.py"}} | columns))


def test_another_tool_with_the_same_goal_corrects() -> None:
    # All words of "src/cart.py" are in "cat src/cart.py": token_set_ratio is 100.
    assert corrected([FAILED, correcting()]) == [(1, 2, 1.0)]


@pytest.mark.parametrize("others", [0, 1, 2])
def test_it_is_found_among_the_next_three_calls(others: int) -> None:
    assert corrected([FAILED, *[OTHER] * others, correcting()]) == [(1, others + 2, 1.0)]


def test_the_fourth_call_after_is_too_late() -> None:
    assert corrected([FAILED, *[OTHER] * 3, correcting()]) == []


def test_the_first_match_counts() -> None:
    assert corrected([FAILED, correcting(), correcting("Grep")]) == [(1, 2, 1.0)]


def test_one_call_can_correct_several() -> None:
    assert corrected([FAILED, FAILED, correcting()]) == [(1, 3, 1.0), (2, 3, 1.0)]


@pytest.mark.parametrize(
    "after",
    [
        correcting("Read"),  # the same tool
        correcting(outcome="failed"),
        correcting(prompt="p2"),
        correcting(parameters=None),
        correcting(parameters={"command": 5}),
        correcting(parameters={"command": "ls"}),  # two characters
        correcting(session_id="s2"),
    ],
    ids=["same tool", "failed", "other prompt", "no parameters", "no text", "short", "session"],
)
def test_these_do_not_correct(after: Row) -> None:
    rows = [FAILED, after]
    if after["session_id"] == "s2":
        assert corrected([row for row in rows if row["session_id"] == "s1"]) == []
    else:
        assert corrected(rows) == []


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        # Words in another order: all in common.
        ("open the cart", "cart the open", 1.0),
        # token_set_ratio of "abcde" and "abcxy": ratio, 2 * 3 / 10 = 0.6
        ("abcde", "abcxy", 0.6),
        # 2 * 3 / 11 = 0.545
        ("abcde", "abcxyz", None),
        ("ab", "ab", None),  # two characters
        # Without folders "cart.py": 2 * 4 / (7 + 8) = 0.53 and 2 * 5 / (7 + 6) = 0.77
        ("/home/dev/shop/cart.py", "/home/dev/shop/order.py", None),
        ("/home/dev/shop/cart.py", "shop/ca*.py", 2 * 5 / 13),
    ],
)
def test_the_goal_is_the_same_from_a_token_set_ratio_of_60_on(
    one: str, other: str, expected: float | None
) -> None:
    rows = [
        call("Grep", "failed", parameters={"pattern": one}),
        call("Bash", parameters={"command": other}),
    ]
    found = [] if expected is None else [(1, 2, pytest.approx(expected))]

    assert corrected(rows) == found


def test_any_two_texts_may_pair_and_the_best_pair_counts() -> None:
    rows = [
        call("Grep", "failed", parameters={"a": "nothing alike", "deep": [{"b": "abcde"}]}),
        call("Bash", parameters={"x": "abcxy", "y": ["abcde"]}),
    ]

    assert corrected(rows) == [(1, 2, 1.0)]


def test_volatile_names_have_no_goal() -> None:
    rows = [
        call("Bash", "failed", parameters={"command": "xyzzy", "description": "the same"}),
        call("Task", parameters={"prompt": "quite other", "description": "the same"}),
    ]

    assert corrected(rows) == []


def test_a_failed_call_without_parameters_is_not_corrected() -> None:
    assert corrected([call("Read", "failed", parameters=None), correcting()]) == []


def test_a_correction_lists_both_calls() -> None:
    (listed,) = only_report([FAILED, correcting()])["corrections"]

    assert (listed["tool"], listed["correcting_tool"]) == ("Read", "Bash")
    assert listed["parameters"] == '{"file_path": "src/cart.py"}'
    assert listed["correcting_parameters"] == '{"command": "cat src/cart.py"}'
    assert (listed["corrected_at"] - listed["called_at"]).total_seconds() == 1
