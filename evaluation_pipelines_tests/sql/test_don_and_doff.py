"""Windows that begin with a don and end with a doff, or something else."""

import pytest

from evaluation_pipelines_tests.builders import Row, at, doff, don, event, prompt, tool
from evaluation_pipelines_tests.sql.session_queries import (
    attributions,
    calls,
    only_window,
    session_rows,
    windows,
)

MINUTE = 60


def test_a_don_opens_a_window_that_ends_at_its_doff() -> None:
    rows = [event("hook", 0), don("A", 1), tool(2), tool(4), doff(6)]

    window = only_window(rows)

    assert (window["masque"], window["attribution"]) == ("A", "clean")
    assert (window["started_at"], window["ended_at"]) == (at(1), at(6))


def test_a_window_without_a_doff_ends_before_the_next_don_and_the_last_one_at_the_last_event() -> (
    None
):
    rows = [tool(0), don("A", 1), tool(2), tool(4), don("B", 7), tool(8), tool(9)]

    found = windows(rows)

    assert {key: row["total_tools"] for key, row in found.items()} == {
        "s1#baseline-1": 1,
        "s1#a-1": 2,
        "s1#b-1": 2,
    }
    assert (found["s1#a-1"]["started_at"], found["s1#a-1"]["ended_at"]) == (at(1), at(4))
    assert (found["s1#b-1"]["started_at"], found["s1#b-1"]["ended_at"]) == (at(7), at(9))


def test_a_doff_that_names_another_masque_ends_nothing() -> None:
    rows = [don("A", 0), tool(1), doff(2, "B"), tool(3), doff(5, "A"), tool(6)]

    assert calls(rows) == {"s1#a-1": 2, "s1#baseline-1": 1}


def test_the_first_doff_counts() -> None:
    rows = [don("A", 0), tool(1), doff(2), tool(3), doff(4)]

    assert calls(rows) == {"s1#a-1": 1, "s1#baseline-1": 1}


def test_a_doff_of_a_masque_while_another_one_covers_it_leaves_that_one_on() -> None:
    rows = [tool(0), don("A", 1), tool(2), don("B", 3), tool(4), doff(5, "A"), tool(6)]

    assert calls(rows) == {"s1#baseline-1": 1, "s1#a-1": 1, "s1#b-1": 2}


def test_after_the_doff_of_an_inner_masque_the_outer_one_is_worn_again() -> None:
    """Work at 10:30 and 10:40 is of O1, worn from 10:05 to 10:45; O2 from 10:15 to 10:25."""
    rows = [
        *(don("O1", 5 * MINUTE), doff(45 * MINUTE, "O1")),
        *(don("O2", 15 * MINUTE), doff(25 * MINUTE, "O2")),
        *(tool(10 * MINUTE), tool(20 * MINUTE), tool(30 * MINUTE), tool(40 * MINUTE)),
    ]

    found = windows(rows)

    assert {key: row["total_tools"] for key, row in found.items()} == {
        "s1#o1-1": 1,
        "s1#o2-1": 1,
        "s1#o1-2": 2,
    }
    assert [row["explicit_end"] for row in found.values()] == [False, True, True]
    again = found["s1#o1-2"]
    assert (again["started_at"], again["ended_at"]) == (at(25 * MINUTE), at(45 * MINUTE))
    assert {row["attribution"] for row in found.values()} == {"mixed"}


@pytest.mark.parametrize(
    ("dons_and_doffs", "worn"),
    [
        pytest.param("A B b a", "A B A -", id="nested"),
        pytest.param("A B C c b a", "A B C B A -", id="nested twice"),
        pytest.param("A B . .", "A B A -", id="doffs without a name end the innermost"),
        pytest.param("A B a b", "A B B -", id="overlapping"),
        pytest.param("A B b", "A B -", id="an outer one that is never taken off ends at the don"),
        pytest.param("A B a", "A B B", id="an inner one that is never taken off"),
        pytest.param("A A a a", "A A A -", id="the same one twice"),
        pytest.param("A B C a c", "A B C C -", id="what is between has no doff"),
        pytest.param("A B C b c a", "A B C C A -", id="what is between is taken off first"),
        pytest.param("A a a B b", "A - - B -", id="a second doff"),
    ],
)
def test_what_is_worn_after_each_don_and_doff(dons_and_doffs: str, worn: str) -> None:
    """Capital letters are dons, small ones doffs, and a dot is a doff without a name."""
    rows: list[Row] = []
    for number, letter in enumerate(dons_and_doffs.split()):
        name = None if letter == "." else letter.upper()
        time = 10 * number
        rows.append(don(name, time) if letter.isupper() else doff(time, name))
        rows.append(tool(time + 5, tool_use_id=str(number)))
    expected = ["baseline" if each == "-" else each[0].lower() for each in worn.split()]

    found = windows(rows)

    at_call = [
        key.removeprefix("s1#").rsplit("-", 1)[0]
        for number in range(len(expected))
        for key, row in found.items()
        if row["started_at"] <= at(10 * number + 5) <= row["ended_at"]
    ]
    assert at_call == expected


def test_nested_masques_put_on_at_one_time_are_worn_one_after_the_other() -> None:
    rows = [don("A", 0), don("B", 0), tool(1), doff(5, "B"), tool(6), doff(9, "A"), tool(10)]

    assert calls(rows) == {"s1#b-1": 1, "s1#a-1": 1, "s1#baseline-1": 1}


def test_an_event_at_the_time_of_a_don_belongs_to_the_new_window() -> None:
    rows = [tool(0), tool(5, sequence=1), don("A", 5), tool(6)]

    assert calls(rows) == {"s1#baseline-1": 1, "s1#a-1": 2}


def test_an_event_at_the_time_of_a_doff_belongs_to_the_closing_window() -> None:
    rows = [don("A", 0), tool(1), doff(5), tool(5), tool(6)]

    assert calls(rows) == {"s1#a-1": 2, "s1#baseline-1": 1}


def test_an_event_when_one_is_taken_off_and_the_next_put_on_belongs_to_the_next() -> None:
    rows = [don("A", 0), tool(1), doff(5, "A"), don("B", 5), tool(5), tool(6)]

    found = windows(rows)

    assert {key: row["total_tools"] for key, row in found.items()} == {"s1#a-1": 1, "s1#b-1": 2}
    assert found["s1#a-1"]["ended_at"] == at(5)


def test_an_inner_masque_that_is_swapped_for_another_at_one_time_uncovers_nothing() -> None:
    rows = [
        *(don("A", 0), tool(2), don("B", 10), tool(12), doff(20, "B"), don("C", 20)),
        *(tool(22), tool(23), doff(30, "C"), tool(35), doff(40, "A")),
    ]

    assert calls(rows) == {"s1#a-1": 1, "s1#b-1": 1, "s1#c-1": 2, "s1#a-2": 1}


def test_putting_on_the_same_masque_again_opens_another_window() -> None:
    rows = [don("A", 0), tool(1), don("A", 2), tool(3), doff(4), don("A", 4), tool(5)]

    assert calls(rows) == {"s1#a-1": 1, "s1#a-2": 1, "s1#a-3": 1}
    assert set(attributions(rows).values()) == {"clean"}


def test_a_masque_taken_off_the_instant_it_was_put_on_gets_only_that_instant() -> None:
    rows = [tool(0), don("A", 5), doff(5, "A"), tool(5), tool(6)]

    assert calls(rows) == {"s1#baseline-1": 1, "s1#a-1": 1, "s1#baseline-2": 1}


@pytest.mark.parametrize("first", [don("B", 5, sequence=1), don("B", 5, sequence=9)])
def test_what_is_put_on_when_another_one_is_taken_off_at_once_stays_on(first: Row) -> None:
    instant = [don("A", 5, sequence=2), doff(5, "A", sequence=3)]

    assert calls([tool(0), first, *instant, tool(6)]) == {"s1#baseline-1": 1, "s1#b-1": 1}


def test_a_doff_at_a_don_of_the_same_masque_closes_the_one_that_was_worn() -> None:
    rows = [don("A", 0), tool(1), doff(5, "A"), don("A", 5), tool(6), doff(9, "A"), tool(10)]

    assert calls(rows) == {"s1#a-1": 1, "s1#a-2": 1, "s1#baseline-1": 1}


def test_of_several_dons_at_one_time_the_last_is_worn() -> None:
    rows = [tool(0), don("A", 5, sequence=1), don("B", 5, sequence=2), tool(6)]

    assert calls(rows) == {"s1#baseline-1": 1, "s1#b-1": 1}
    assert attributions(rows)["s1#b-1"] == "clean"


def test_windows_without_events_are_dropped_and_count_for_nothing() -> None:
    rows = [tool(0), don("A", 1), doff(2), don("B", 3), tool(4), don("C", 5)]

    assert attributions(rows) == {"s1#baseline-1": "remainder", "s1#b-1": "clean"}


def test_an_attribution_line_without_telemetry_is_no_session() -> None:
    rows = [don("A", 0), doff(5), don("B", 0, organization_id="default", session_id="s2")]

    assert session_rows(rows) == []


def test_an_attribution_line_applies_to_every_organization_with_the_session() -> None:
    rows = [
        tool(1),
        tool(2, organization_id="other"),
        don("A", 0),
        tool(3, session_id="s2"),
    ]

    assert [(row["organization_id"], row["session_key"]) for row in session_rows(rows)] == [
        ("default", "s1#a-1"),
        ("default", "s2#baseline-1"),
        ("other", "s1#a-1"),
    ]


def test_a_don_record_applies_to_its_own_organization() -> None:
    rows = [
        tool(1),
        tool(2, organization_id="other"),
        don("A", 0, organization_id="other"),
    ]

    assert [(row["organization_id"], row["session_key"]) for row in session_rows(rows)] == [
        ("default", "s1#baseline-1"),
        ("other", "s1#a-1"),
    ]


def test_a_don_before_the_first_event_opens_at_the_first_event() -> None:
    window = only_window([don("A", -60), prompt(0), tool(5)])

    assert (window["masque"], window["started_at"]) == ("A", at(0))
    assert window["duration_s"] == window["active_s"] == 5.0


def test_of_several_dons_before_the_first_event_the_last_gets_the_events() -> None:
    rows = [don("A", -60), don("B", -30), prompt(0), tool(5)]

    assert attributions(rows) == {"s1#b-1": "clean"}


def test_a_don_before_the_first_event_ends_at_its_doff_in_the_session() -> None:
    rows = [don("A", -60), tool(0), doff(3), tool(5)]

    assert calls(rows) == {"s1#a-1": 1, "s1#baseline-1": 1}


def test_a_masque_taken_off_before_the_first_event_is_dropped() -> None:
    assert attributions([don("A", -60), doff(-30), tool(0)]) == {"s1#baseline-1": "baseline"}
