"""Repeated calls and failing loops, worked out by hand. Calls are numbered from 1."""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.sessions.domain.tool_reports import repeats
from evaluation_pipelines.sessions.domain.tool_reports.parameters import (
    MAX_COMPARED_WORDS,
    Question,
)
from evaluation_pipelines.sessions.domain.tool_reports.repeats import earliest_similar, similarity
from evaluation_pipelines_tests.sessions.domain.tool_reports.tool_rows import call, only_report
from evaluation_pipelines_tests.world.rows import Row


def repeated(rows: list[Row]) -> list[Any]:
    """Return (repeat, original, similarity, distance) of each repeat."""
    return [
        (repeat["call"], repeat["original"], repeat["similarity"], repeat["distance"])
        for repeat in only_report(rows)["repeats"]
    ]


def looping(rows: list[Row]) -> list[tuple[int, int, int]]:
    """Return (first call, last call, calls) of each loop."""
    return [
        (loop["first_call"], loop["last_call"], loop["calls"])
        for loop in only_report(rows)["loops"]
    ]


def read(path: str, outcome: str = "ok") -> Row:
    return call("Read", outcome, parameters={"file_path": path})


def search(query: str, outcome: str = "ok") -> Row:
    return call("Search", outcome, parameters={"query": query})


def bash(command: str, outcome: str = "ok") -> Row:
    return call("Bash", outcome, parameters={"command": command})


# -- repeats -------------------------------------------------------------------------------------


# Eight to ten words, without fillers and words of direction.
ONE, TWO, THREE = "b c d f g h j k", "b c d f g h j k l", "b c d f g h j k l m"
A = read("a.py")
WRITE = call("Write", parameters={"file_path": "a.py", "content": "x"})
NEAR, NEARER = (pytest.approx(2 * same / words, abs=0.001) for same, words in ((8, 17), (9, 19)))


def edit(outcome: str = "ok") -> Row:
    return call("Edit", outcome, parameters={"file_path": "a.py", "new_string": "x"})


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([A] * 10, [(n, 1, 1.0, n - 1) for n in range(2, 11)]),
        # The earliest call that is similar is the original, even if a later one is equal.
        ([search(ONE), search(TWO), search(TWO)], [(2, 1, NEAR, 1), (3, 1, NEAR, 2)]),
        # It is not transitive. 1 and 3: 2 * 8 / 18 = 0.89, so 3 repeats 2.
        ([search(ONE), search(TWO), search(THREE)], [(2, 1, NEAR, 1), (3, 2, NEARER, 1)]),
        # Polling is no repeat.
        *(
            ([row] * 3, [])
            for row in (
                bash("kubectl get pods"),
                bash("sleep 5; make status"),
                bash("curl -s localhost:8080/health"),
                call("Bash", tool_class="read", parameters={"command": "tail -5 /tmp/app.log"}),
                call("BashOutput", parameters={"bash_id": "b1"}),
                call("mcp__ci__job_status", parameters={"job": 1}),
            )
        ),
        # What changes files, or may have, begins anew.
        ([A, edit(), A, A], [(4, 3, 1.0, 1)]),
        ([A, edit("failed"), A], [(3, 1, 1.0, 2)]),
        ([A, edit("unknown"), A], []),
        ([A, bash("rm a.py"), A], []),
        ([A, bash("pytest"), A], [(3, 1, 1.0, 2)]),
        ([A, call("Bash", tool_class="read", parameters={"command": "ls && rm b.py"}), A], []),
        # The same write twice in a row: call 2, between 1 and 3, changed something.
        ([WRITE] * 3, [(2, 1, 1.0, 1), (3, 2, 1.0, 1)]),
    ],
)
def test_a_call_repeats_a_similar_one_since_the_last_change(
    rows: list[Row], expected: list[Any]
) -> None:
    assert repeated(rows) == expected


def test_without_parameters_nothing_is_known_of_repeats_loops_and_corrections() -> None:
    report = only_report([call(parameters=None, outcome="failed")] * 4)

    names = ("repeats", "repeated_calls", "loops", "looping_calls", "corrections")
    assert [report[name] for name in (*names, "corrected_calls")] == [None] * 6
    assert report["unknown"] == ["corrected", "loops", "repeated", "wasted"]


def test_calls_without_parameters_among_others_are_left_out() -> None:
    rows = [call(), call(parameters=None), call()]
    report = only_report(rows)

    assert [(repeat["call"], repeat["original"]) for repeat in report["repeats"]] == [(3, 1)]
    assert "parameters of 2 of 3 calls" in report["basis"]


def test_only_the_last_different_calls_are_compared_and_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeats, "LOOK_BACK", 2)
    others = ["p q", "r s", "t u"]

    near = only_report([search(text) for text in (ONE, *others[:1], TWO)])
    far = only_report([search(text) for text in (ONE, *others, TWO)])

    assert [repeat["original"] for repeat in near["repeats"]] == [1]
    assert "in part" not in near["basis"]
    assert far["repeats"] == []
    assert "long or many parameters compared in part" in far["basis"]


def test_an_equal_call_is_found_at_any_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "LOOK_BACK", 1)

    assert repeated([read("abc"), read("klm"), read("xyz"), read("abc")]) == [(4, 1, 1.0, 3)]


def test_the_report_says_that_a_text_was_compared_in_part() -> None:
    # Words are compared in the order of the alphabet: the one in the middle is not.
    first, last = (f"{word} " * (MAX_COMPARED_WORDS // 2) for word in ("alpha", "zeta"))
    pair = only_report([search(f"{first}{word}{last}") for word in ("", "b ")])
    alone = only_report([search(f"{first}b {last}")])

    assert [repeat["original"] for repeat in pair["repeats"]] == [1]
    assert "compared in part" in pair["basis"]
    assert "in part" not in alone["basis"]  # it is compared with none


def test_a_repeat_lists_time_tool_and_the_beginning_of_the_parameters() -> None:
    (listed,) = only_report([bash("x" * 300)] * 2)["repeats"]

    assert listed["tool"] == "Bash"
    assert listed["parameters"] == json.dumps({"command": "x" * 300})[:200]
    assert (listed["called_at"] - listed["original_at"]).total_seconds() == 1


# -- loops ---------------------------------------------------------------------------------------


MAKE = bash("make", "failed")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([MAKE] * 2, []),
        ([MAKE] * 3, [(1, 3, 3)]),
        # A success, another tool or other parameters end a loop.
        ([MAKE, MAKE, bash("make"), MAKE, MAKE], []),
        ([MAKE, MAKE, read("a.py", "failed"), MAKE, MAKE], []),
        ([MAKE, MAKE, bash("pytest -q", "failed"), MAKE, MAKE], []),
        # Neighbors are similar, the first and third are not: the loop begins with the second.
        ([search(query, "failed") for query in (ONE, TWO, THREE, THREE)], [(2, 4, 3)]),
    ],
)
def test_three_similar_failures_in_a_row_are_a_loop(
    rows: list[Row], expected: list[tuple[int, int, int]]
) -> None:
    assert looping(rows) == expected


def test_a_loop_with_many_different_calls_is_compared_with_its_last_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeats, "LOOK_BACK", 1)

    assert looping([search(query, "failed") for query in (ONE, TWO, THREE)]) == [(1, 3, 3)]


def test_a_loop_lists_its_start_and_end() -> None:
    (loop,) = only_report([read("b.py"), *[bash("make", "failed")] * 3])["loops"]

    assert (loop["tool"], loop["first_call"]) == ("Bash", 2)
    assert (loop["last_called_at"] - loop["called_at"]).total_seconds() == 2


FAILED = call("Read", "failed", parameters={"file_path": "src/cart.py"})
OTHER = call("Other", parameters={"query": "entirely different"})


def corrected(rows: list[Row]) -> list[Any]:
    """Return (failed call, correcting call, similarity) of each correction."""
    return [
        (correction["call"], correction["corrected_by"], correction["similarity"])
        for correction in only_report(rows)["corrections"]
    ]


def correcting(tool: str = "Bash", **columns: Any) -> Row:
    return call(tool, **({"parameters": {"command": "cat src/cart.py"}} | columns))


@pytest.mark.parametrize("others", range(4))
def test_another_tool_with_the_same_goal_corrects_among_the_next_three_calls(others: int) -> None:
    # All words of "src/cart.py" are in "cat src/cart.py": token_set_ratio is 100.
    expected = [(1, others + 2, 1.0)] if others < 3 else []
    assert corrected([FAILED, *[OTHER] * others, correcting()]) == expected


@pytest.mark.parametrize(
    "after",
    [
        correcting("Read"),  # the same tool
        correcting(outcome="failed"),
        correcting(prompt="p2"),
        correcting(parameters=None),
        correcting(parameters={"command": 5}),
        correcting(parameters={"command": "ls"}),  # two characters
    ],
    ids=["same tool", "failed", "other prompt", "no parameters", "no text", "short"],
)
def test_these_do_not_correct(after: Row) -> None:
    assert corrected([FAILED, after]) == []


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        # Any two texts may pair, and the best pair counts.
        (
            {"a": "nothing alike", "deep": [{"b": "abcde"}]},
            {"x": "abcxy", "y": ["abcde"]},
            [(1, 2, 1.0)],
        ),
        # Volatile names have no goal.
        (
            {"command": "xyzzy", "description": "the same"},
            {"prompt": "quite other", "description": "the same"},
            [],
        ),
    ],
)
def test_texts_of_all_parameters_but_volatile_ones_are_a_goal(
    first: dict[str, Any], then: dict[str, Any], expected: list[Any]
) -> None:
    rows = [call("Grep", "failed", parameters=first), call("Bash", parameters=then)]
    assert corrected(rows) == expected


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


def test_a_correction_lists_both_calls() -> None:
    (listed,) = only_report([FAILED, correcting()])["corrections"]

    assert (listed["tool"], listed["correcting_tool"]) == ("Read", "Bash")
    assert listed["parameters"] == '{"file_path": "src/cart.py"}'
    assert listed["correcting_parameters"] == '{"command": "cat src/cart.py"}'
    assert (listed["corrected_at"] - listed["called_at"]).total_seconds() == 1


Found: TypeAlias = dict[tuple[int, int], tuple[int, Any]]
"""(Place of the earliest similar question, similarity) of each (block, place in it)."""


def by_definition(blocks: Sequence[Sequence[Question]], look_back: int) -> Found:
    """Return the earliest similar question of each that has a free text."""
    found: Found = {}
    for number, questions in enumerate(blocks):
        for later, question in enumerate(questions):
            same = [at for at in range(later) if questions[at].values == question.values]
            for earlier in same[-look_back:]:
                if (score := similarity(question, questions[earlier])) >= 0.9:
                    found[number, later] = (earlier, pytest.approx(score))
                    break
    return found


def earliest_of(blocks: Sequence[Sequence[Question]]) -> tuple[Found, set[int]]:
    """Return the same as the program finds it, and the blocks that were compared in part."""
    places = [(number, at) for number, block in enumerate(blocks) for at in range(len(block))]
    members = pl.DataFrame(
        [(number, key, at) for key, (number, at) in enumerate(places)],
        schema={"block": pl.Int64, "key": pl.Int64, "rank": pl.Int64},
        orient="row",
    )
    questions = {key: blocks[number][at] for key, (number, at) in enumerate(places)}
    found, in_part = earliest_similar(members, questions)
    return {
        places[key]: (original, score)
        for key, original, score in found.select("key", "original", "similarity").iter_rows()
    }, set(in_part)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """One or two texts near each other, or none, under two values."""
    text = st.text("ab", min_size=8, max_size=12)
    texts = draw(st.integers(0, 2))
    value = draw(st.sampled_from("xy"))
    return Question((("v", value), ("n", texts)), tuple(draw(text) for _ in range(texts)))


@settings(max_examples=60)
@given(
    st.lists(st.lists(questions(), max_size=12, unique_by=repr), max_size=4),
    st.sampled_from([1, 3, 500]),
)
def test_the_earliest_similar_questions_are_those_of_the_definition(
    blocks: list[list[Question]], look_back: int
) -> None:
    with patch.object(repeats, "LOOK_BACK", look_back):
        found, _ = earliest_of(blocks)

    assert found == by_definition(blocks, look_back)
