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
from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.sessions.domain.tool_reports.tool_rows import call, only_report


def repeated(rows: list[Row]) -> list[Any]:
    """Return (repeat, original, similarity, distance) of each repeat."""
    return [
        (each["call"], each["original"], each["similarity"], each["distance"])
        for each in only_report(rows)["repeats"]
    ]


def looping(rows: list[Row]) -> list[tuple[int, int, int]]:
    """Return (first call, last call, calls) of each loop."""
    return [
        (each["first_call"], each["last_call"], each["calls"])
        for each in only_report(rows)["loops"]
    ]


def read(path: str, outcome: str = "ok") -> Row:
    return call("Read", outcome, parameters={"file_path": path})


def search(query: str, outcome: str = "ok") -> Row:
    return call("Search", outcome, parameters={"query": query})


def bash(command: str, outcome: str = "ok") -> Row:
    return call("Bash", outcome, parameters={"command": command})


# -- repeats -------------------------------------------------------------------------------------


def test_ten_equal_calls_are_nine_repeats_of_the_first() -> None:
    assert repeated([read("a.py")] * 10) == [(n, 1, 1.0, n - 1) for n in range(2, 11)]


# Eight to ten words, without fillers and words of direction.
ONE, TWO, THREE = "b c d f g h j k", "b c d f g h j k l", "b c d f g h j k l m"


def test_the_earliest_call_that_is_similar_is_the_original_even_if_a_later_one_is_equal() -> None:
    # The second and third are equal, and have one word more than the first.
    score = pytest.approx(2 * 8 / 17, abs=0.001)
    rows = [search(ONE), search(TWO), search(TWO)]

    assert repeated(rows) == [(2, 1, score, 1), (3, 1, score, 2)]


def test_similarity_is_not_transitive() -> None:
    # 1 and 3: 2 * 8 / 18 = 0.89, so 3 repeats 2.
    rows = [search(ONE), search(TWO), search(THREE)]
    scores = [pytest.approx(2 * same / words, abs=0.001) for same, words in ((8, 17), (9, 19))]

    assert repeated(rows) == [(2, 1, scores[0], 1), (3, 2, scores[1], 1)]


@pytest.mark.parametrize(
    "row",
    [
        bash("kubectl get pods"),
        bash("sleep 5; make status"),
        bash("curl -s localhost:8080/health"),
        call("Bash", tool_class="read", parameters={"command": "tail -5 /tmp/app.log"}),
        call("BashOutput", parameters={"bash_id": "b1"}),
        call("mcp__ci__job_status", parameters={"job": 1}),
    ],
    ids=range(6),
)
def test_polling_is_no_repeat(row: Row) -> None:
    assert repeated([row] * 3) == []


def test_a_command_that_begins_by_reading_can_change_files() -> None:
    both = call("Bash", tool_class="read", parameters={"command": "ls && rm b.py"})

    assert repeated([read("a.py"), both, read("a.py")]) == []


def test_after_a_successful_edit_the_same_call_is_no_repeat() -> None:
    edit = call("Edit", parameters={"file_path": "a.py", "new_string": "x"})

    assert repeated([read("a.py"), edit, read("a.py"), read("a.py")]) == [(4, 3, 1.0, 1)]


def test_a_failed_edit_changes_nothing() -> None:
    edit = call("Edit", "failed", parameters={"file_path": "a.py", "new_string": "x"})

    assert repeated([read("a.py"), edit, read("a.py")]) == [(3, 1, 1.0, 2)]


def test_an_edit_of_unknown_outcome_may_have_changed_something() -> None:
    edit = call("Edit", "unknown", parameters={"file_path": "a.py", "new_string": "x"})

    assert repeated([read("a.py"), edit, read("a.py")]) == []


@pytest.mark.parametrize(("command", "repeats_it"), [("rm a.py", False), ("pytest", True)])
def test_a_shell_command_that_changes_files_is_like_an_edit(
    command: str, repeats_it: object
) -> None:
    assert bool(repeated([read("a.py"), bash(command), read("a.py")])) is repeats_it


def test_the_same_write_twice_in_a_row_is_a_repeat_of_the_one_before() -> None:
    write = call("Write", parameters={"file_path": "a.py", "content": "x"})

    # Call 2, between 1 and 3, changed something.
    assert repeated([write] * 3) == [(2, 1, 1.0, 1), (3, 2, 1.0, 1)]


def test_without_parameters_nothing_is_known_of_repeats_loops_and_corrections() -> None:
    report = only_report([call(parameters=None, outcome="failed")] * 4)

    names = ("repeats", "repeated_calls", "loops", "looping_calls", "corrections")
    assert [report[name] for name in (*names, "corrected_calls")] == [None] * 6
    assert report["unknown"] == ["corrected", "loops", "repeated", "wasted"]


def test_calls_without_parameters_among_others_are_left_out() -> None:
    rows = [call(), call(parameters=None), call()]
    report = only_report(rows)

    assert [(each["call"], each["original"]) for each in report["repeats"]] == [(3, 1)]
    assert "parameters of 2 of 3 calls" in report["basis"]


def test_only_the_last_different_calls_are_compared_and_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeats, "LOOK_BACK", 2)
    others = ["p q", "r s", "t u"]

    near = only_report([search(text) for text in (ONE, *others[:1], TWO)])
    far = only_report([search(text) for text in (ONE, *others, TWO)])

    assert [each["original"] for each in near["repeats"]] == [1]
    assert "in part" not in near["basis"]
    assert far["repeats"] == []
    assert "long or many parameters compared in part" in far["basis"]


def test_an_equal_call_is_found_at_any_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "LOOK_BACK", 1)

    assert repeated([read("abc"), read("klm"), read("xyz"), read("abc")]) == [(4, 1, 1.0, 3)]


def test_the_report_says_that_a_text_was_compared_in_part() -> None:
    # Words are compared in the order of the alphabet: the one in the middle is not.
    first, last = (f"{word} " * (MAX_COMPARED_WORDS // 2) for word in ("alpha", "zeta"))
    pair = only_report([search(f"{first}{each}{last}") for each in ("", "b ")])
    alone = only_report([search(f"{first}b {last}")])

    assert [each["original"] for each in pair["repeats"]] == [1]
    assert "compared in part" in pair["basis"]
    assert "in part" not in alone["basis"]  # it is compared with none


def test_a_repeat_lists_time_tool_and_the_beginning_of_the_parameters() -> None:
    (listed,) = only_report([bash("x" * 300)] * 2)["repeats"]

    assert listed["tool"] == "Bash"
    assert listed["parameters"] == json.dumps({"command": "x" * 300})[:200]
    assert (listed["called_at"] - listed["original_at"]).total_seconds() == 1


# -- loops ---------------------------------------------------------------------------------------


def test_three_similar_failures_in_a_row_are_a_loop_and_two_are_not() -> None:
    assert looping([bash("make", "failed")] * 2) == []
    assert looping([bash("make", "failed")] * 3) == [(1, 3, 3)]


def test_a_success_another_tool_or_other_parameters_end_a_loop() -> None:
    fails = [bash("make", "failed")] * 2

    assert looping([*fails, bash("make"), *fails]) == []
    assert looping([*fails, read("a.py", "failed"), *fails]) == []
    assert looping([*fails, bash("pytest -q", "failed"), *fails]) == []


def test_all_calls_of_a_loop_are_similar_to_each_other() -> None:
    # Neighbors are similar, the first and third are not: the loop begins with the second.
    texts = [ONE, TWO, THREE, THREE]

    assert looping([search(each, "failed") for each in texts]) == [(2, 4, 3)]


def test_a_loop_with_many_different_calls_is_compared_with_its_last_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeats, "LOOK_BACK", 1)

    assert looping([search(each, "failed") for each in (ONE, TWO, THREE)]) == [(1, 3, 3)]


def test_a_loop_lists_its_start_and_end() -> None:
    (loop,) = only_report([read("b.py"), *[bash("make", "failed")] * 3])["loops"]

    assert (loop["tool"], loop["first_call"]) == ("Bash", 2)
    assert (loop["last_called_at"] - loop["called_at"]).total_seconds() == 2


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
        for later, each in enumerate(questions):
            same = [at for at in range(later) if questions[at].values == each.values]
            for earlier in same[-look_back:]:
                if (score := similarity(each, questions[earlier])) >= 0.9:
                    found[number, later] = (earlier, pytest.approx(score))
                    break
    return found


def earliest_of(blocks: Sequence[Sequence[Question]]) -> tuple[Found, set[int]]:
    """Return the same as the program finds it, and the blocks that were compared in part."""
    places = [(number, at) for number, each in enumerate(blocks) for at in range(len(each))]
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
