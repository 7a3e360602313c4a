"""Repeated calls and failing loops, worked out by hand. Calls are numbered from 1."""

import json
from typing import Any

import pytest

from evaluation_pipelines.sessions.domain.tool_reports import repeats, similar
from evaluation_pipelines.sessions.domain.tool_reports.parameters import MAX_COMPARED_CHARACTERS
from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.sessions.domain.tool_reports.tool_rows import (
    call,
    only_report,
    reports,
)


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


def bash(command: str, outcome: str = "ok") -> Row:
    return call("Bash", outcome, parameters={"command": command})


# -- repeats -------------------------------------------------------------------------------------


def test_ten_equal_calls_are_nine_repeats_of_the_first() -> None:
    assert repeated([read("a.py")] * 10) == [(n, 1, 1.0, n - 1) for n in range(2, 11)]


def test_a_call_of_another_tool_or_with_other_parameters_is_no_repeat() -> None:
    rows = [read("a.py"), call("Grep", parameters={"file_path": "a.py"}), read("other.md")]

    assert repeated(rows) == []


def test_a_similar_call_is_a_repeat_from_nine_tenths_on() -> None:
    # 2 * 9 / 20 = 0.9, and 2 * 8 / 20 = 0.8 to both
    assert repeated([read("abcdefghij"), read("abcdefghix"), read("abcdefgyyy")]) == [
        (2, 1, 0.9, 1)
    ]


def test_the_earliest_call_that_is_similar_is_the_original_even_if_a_later_one_is_equal() -> None:
    # The second and third are equal, and 0.9 like the first.
    rows = [read("abcdefghij"), read("abcdefghix"), read("abcdefghix")]

    assert repeated(rows) == [(2, 1, 0.9, 1), (3, 1, 0.9, 2)]


def test_similarity_is_not_transitive() -> None:
    # 1 and 2: 2 * 9 / 20; 2 and 3: 2 * 9 / 20; 1 and 3: 2 * 8 / 20 = 0.8, so 3 repeats 2.
    rows = [read("abcdefghij"), read("abcdefghix"), read("abcdefghyx")]

    assert repeated(rows) == [(2, 1, 0.9, 1), (3, 2, 0.9, 1)]


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


def test_a_write_repeats_the_earlier_write_but_separates_the_reads() -> None:
    write = call("Write", parameters={"file_path": "a.py", "content": "x"})

    assert repeated([write, read("a.py"), write, read("a.py")]) == [(3, 1, 1.0, 2)]


def test_denied_calls_are_no_repeats_and_are_not_counted() -> None:
    rows = [read("a.py"), read("a.py", "denied"), read("a.py")]

    assert repeated(rows) == [(2, 1, 1.0, 1)]


def test_a_failed_call_can_repeat_and_be_repeated() -> None:
    assert repeated([bash("make", "failed"), bash("make"), bash("make", "failed")]) == [
        (2, 1, 1.0, 1),
        (3, 1, 1.0, 2),
    ]


def test_calls_of_other_sessions_are_no_originals() -> None:
    rows = [call(session_id="s1"), call(session_id="s2")]

    assert [each["repeats"] for each in reports(rows)] == [[], []]


def test_without_parameters_nothing_is_known_of_repeats_loops_and_corrections() -> None:
    report = only_report([call(parameters=None, outcome="failed")] * 4)

    names = ("repeats", "repeated_calls", "loops", "looping_calls", "corrections")
    assert [report[name] for name in (*names, "corrected_calls")] == [None] * 6
    assert report["unknown"] == ["corrected", "loops", "repeated", "wasted"]


def test_a_digest_is_no_parameter() -> None:
    digest = {"mcp_server_name": "tracker", "mcp_tool_name": "find"}

    assert only_report([call("mcp__tracker__find", parameters=digest)] * 2)["repeats"] is None


def test_calls_without_parameters_among_others_are_left_out() -> None:
    rows = [call(), call(parameters=None), call()]
    report = only_report(rows)

    assert [(each["call"], each["original"]) for each in report["repeats"]] == [(3, 1)]
    assert "parameters of 2 of 3 calls" in report["basis"]


@pytest.mark.parametrize("large_block", [0, 64])
def test_only_the_last_different_calls_are_compared_and_the_report_says_so(
    large_block: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(similar, "LOOK_BACK", 2)
    monkeypatch.setattr(similar, "_LARGE_BLOCK", large_block)
    paths = ["abcdefghij", "klmnopqrst", "0123456789", "ABCDEFGHIJ", "abcdefghix"]

    near = only_report([read(path) for path in (*paths[:2], paths[4])])
    far = only_report([read(path) for path in paths])

    assert [each["original"] for each in near["repeats"]] == [1]
    assert "in part" not in near["basis"]
    assert far["repeats"] == []
    assert "long or many parameters compared in part" in far["basis"]


def test_an_equal_call_is_found_at_any_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similar, "LOOK_BACK", 1)

    assert repeated([read("abc"), read("klm"), read("xyz"), read("abc")]) == [(4, 1, 1.0, 3)]


@pytest.mark.parametrize("large_block", [0, 64])
def test_the_report_says_that_a_text_was_compared_in_part(
    large_block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similar, "_LARGE_BLOCK", large_block)
    half = "x" * MAX_COMPARED_CHARACTERS
    # The compared parts of the last are equal, but it is longer: 2 * 2001 / (2001 + 3001) = 0.8
    report = only_report([bash(f"{half}{each}{half}") for each in ("a", "b", half)])

    assert [each["original"] for each in report["repeats"]] == [1]
    assert "compared in part" in report["basis"]


def test_texts_that_are_long_only_together_and_long_lists_are_compared_in_full() -> None:
    edits = [call(parameters={"old": "x" * 1000, "new": "y" * 999 + each}) for each in "ab"]
    # One more number: not equal, and for values that are no texts 0 is the only other similarity.
    lists = [call(parameters={"lines": list(range(size))}) for size in (1000, 1001)]

    assert "in part" not in only_report(edits)["basis"]
    # (1 + 2 * 999 / 2000) / 2 = 0.9995
    assert repeated(edits) == [(2, 1, pytest.approx(0.9995), 1)]
    assert "in part" not in only_report(lists)["basis"]
    assert repeated(lists) == []


def wide(number: int, **values: object) -> Row:
    """Return a call with the given number of names, n0 to n8 or n9."""
    return call(parameters={f"n{each}": each for each in range(number)} | values)


def test_the_report_says_that_sets_of_different_names_were_compared_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = only_report([wide(10, n0="x" * 1001), wide(9, n0="x" * 1001)])
    assert [each["original"] for each in long["repeats"]] == [1]
    assert "in part" in long["basis"]
    # A long text that is compared with none is not compared in part.
    alone = only_report([wide(10, n0="x" * 1001), call(parameters={"a": 1})])
    assert "in part" not in alone["basis"]

    monkeypatch.setattr(similar, "LOOK_BACK", 2)
    others = [wide(9, n0=text) for text in ("abc", "klm")]
    near = only_report([*others, wide(10)])
    far = only_report([wide(10), *others, wide(9)])
    assert "in part" not in near["basis"]
    assert far["repeats"] == []
    assert "in part" in far["basis"]


def test_of_ten_names_one_may_be_missing() -> None:
    ten = {f"n{number}": number for number in range(10)}
    nine = {name: ten[name] for name in list(ten)[:9]}
    eight = {name: ten[name] for name in list(ten)[:8]}
    rows = [call(parameters=each) for each in (ten, nine, eight)]

    # 9 / 10 = 0.9; 8 / 9 = 0.89, 8 / 10 = 0.8
    assert repeated(rows) == [(2, 1, pytest.approx(0.9), 1)]


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


def test_a_call_without_parameters_ends_a_loop() -> None:
    fails = [bash("make", "failed")] * 2

    assert looping([*fails, call("Bash", "failed", parameters=None), *fails]) == []


def test_one_loop_can_follow_another() -> None:
    rows = [*[bash("make", "failed")] * 3, *[bash("pytest -q", "failed")] * 4]

    assert looping(rows) == [(1, 3, 3), (4, 7, 4)]


def test_all_calls_of_a_loop_are_similar_to_each_other() -> None:
    # Neighbors are 0.9 similar, the first and third 0.8: the loop begins with the second.
    texts = ["abcdefghij", "abcdefghix", "abcdefghyx", "abcdefghyx"]

    assert looping([bash(each, "failed") for each in texts]) == [(2, 4, 3)]


def test_a_loop_with_many_different_calls_is_compared_with_its_last_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeats, "LOOK_BACK", 1)
    texts = ["abcdefghij", "abcdefghix", "abcdefghyx"]

    assert looping([bash(each, "failed") for each in texts]) == [(1, 3, 3)]


def test_a_loop_lists_its_start_and_end() -> None:
    (loop,) = only_report([read("b.py"), *[bash("make", "failed")] * 3])["loops"]

    assert (loop["tool"], loop["first_call"]) == ("Bash", 2)
    assert (loop["last_called_at"] - loop["called_at"]).total_seconds() == 2
