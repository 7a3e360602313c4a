"""Windows without masques, with masques by attribute, and the events between them."""

import pytest

from evaluation_pipelines_tests.builders import (
    Row,
    api_request,
    at,
    decision,
    doff,
    don,
    event,
    prompt,
    tool,
)
from evaluation_pipelines_tests.sql.session_queries import (
    attributions,
    calls,
    only_window,
    session_rows,
    windows,
)


def test_a_session_is_one_baseline_window() -> None:
    window = only_window([prompt(0), tool(5), event("hook", 9)])

    assert window["session_key"] == "s1#baseline-1"
    assert (window["masque"], window["attribution"]) == (None, "baseline")
    assert (window["started_at"], window["ended_at"]) == (at(0), at(9))


def test_sessions_with_the_same_id_in_two_organizations_are_two() -> None:
    rows = [prompt(0), tool(1), prompt(5, organization_id="other")]

    assert [
        (row["organization_id"], row["session_key"], row["total_tools"])
        for row in session_rows(rows)
    ] == [("default", "s1#baseline-1", 1), ("other", "s1#baseline-1", 0)]


def test_a_doff_without_any_don_changes_nothing() -> None:
    without = only_window([prompt(0), tool(5)])

    assert only_window([prompt(0), tool(5), doff(3), doff(99, "A")]) == without


def test_a_don_without_a_name_is_none() -> None:
    assert attributions([prompt(0), don(None, 1), tool(2)]) == {"s1#baseline-1": "baseline"}


def test_one_masque_by_attribute_makes_one_clean_window_of_all_events() -> None:
    rows = [prompt(0), tool(1, masque="A"), prompt(2), tool(3, masque="A"), tool(4)]

    window = only_window(rows)

    assert window["session_key"] == "s1#a-1"
    assert (window["masque"], window["attribution"]) == ("A", "clean")
    assert (window["total_tools"], window["prompts"]) == (3, 2)


def test_several_masques_by_attribute_make_one_window_per_run_of_the_same() -> None:
    rows = [tool(second, masque=masque) for second, masque in enumerate("AABAA")]

    assert calls(rows) == {"s1#a-1": 2, "s1#b-1": 1, "s1#a-2": 2}
    assert set(attributions(rows).values()) == {"mixed"}


def test_events_without_the_attribute_go_with_those_before_and_the_first_with_those_after() -> None:
    rows = [tool(0), tool(1, masque="A"), tool(2), tool(3), tool(4, masque="B"), tool(5)]

    assert calls(rows) == {"s1#a-1": 4, "s1#b-1": 2}


def test_a_window_by_attribute_lasts_from_its_first_to_its_last_event() -> None:
    rows = [tool(0, masque="A"), tool(4, masque="A"), tool(7, masque="B"), tool(9, masque="B")]

    assert [(row["started_at"], row["ended_at"]) for row in windows(rows).values()] == [
        (at(0), at(4)),
        (at(7), at(9)),
    ]


def test_the_masque_of_a_doff_is_no_attribute() -> None:
    assert attributions([tool(0), doff(1, "B")]) == {"s1#baseline-1": "baseline"}


def test_a_doff_alone_leaves_the_attributes_in_force() -> None:
    assert attributions([tool(0, masque="A"), doff(1, "B")]) == {"s1#a-1": "clean"}


def test_a_don_wins_over_attributes_in_the_whole_session() -> None:
    rows = [prompt(0, masque="A"), tool(1, masque="A"), don("B", 5), tool(6, masque="A")]

    assert attributions(rows) == {"s1#baseline-1": "remainder", "s1#b-1": "clean"}
    assert calls(rows) == {"s1#baseline-1": 1, "s1#b-1": 1}


@pytest.mark.parametrize(
    "turn", [prompt(11), tool(11), decision(11, "accept")], ids=["prompt", "call", "decision"]
)
def test_a_prompt_or_tool_call_between_doff_and_don_makes_a_window(turn: Row) -> None:
    rows = [don("A", 0), tool(1), doff(10), turn, event("hook", 12), don("B", 20), tool(21)]

    assert attributions(rows) == {
        "s1#a-1": "mixed",
        "s1#baseline-1": "remainder",
        "s1#b-1": "mixed",
    }
    between = windows(rows)["s1#baseline-1"]
    assert (between["started_at"], between["ended_at"]) == (at(11), at(12))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # The API request at 11 goes to the window after it, at the end to the one before it.
        (
            [don("A", 0), tool(1), doff(10), api_request(11), don("B", 20), tool(21)],
            {"s1#a-1": 0, "s1#b-1": 1},
        ),
        ([don("A", 0), tool(1), doff(10), api_request(11)], {"s1#a-1": 1}),
        ([api_request(-5), don("A", 0), tool(1)], {"s1#a-1": 1}),
        # The don of B is empty: what lies around it is one stretch without a masque.
        (
            [don("A", 0), tool(1), doff(5), api_request(6), don("B", 7), doff(8), prompt(11)],
            {"s1#a-1": 0, "s1#baseline-1": 1},
        ),
    ],
    ids=["between", "after", "before", "next to an empty window"],
)
def test_events_without_prompt_or_call_join_the_window_after_or_else_before(
    rows: list[Row], expected: dict[str, int]
) -> None:
    found = windows(rows)

    assert {key: row["api_requests"] for key, row in found.items()} == expected


def test_events_that_join_a_window_do_not_move_its_times() -> None:
    rows = [
        event("hook", -5),
        event("hook", -4),
        don("A", 0),
        tool(1),
        doff(10),
        event("hook", 15),
        event("hook", 17),
    ]

    window = only_window(rows)

    assert (window["started_at"], window["ended_at"]) == (at(0), at(10))
    # 0 -> 1 -> 10: the hooks count for the moment of the don and of the doff.
    assert window["duration_s"] == window["active_s"] == 10.0


def test_a_prompt_after_the_last_doff_makes_a_window() -> None:
    rows = [don("A", 0), tool(1), doff(10), prompt(11), tool(12)]

    assert attributions(rows) == {"s1#a-1": "clean", "s1#baseline-1": "remainder"}


def test_a_session_whose_masques_saw_nothing_keeps_all_its_events() -> None:
    rows = [event("hook", 0), don("A", 1), doff(2), event("hook", 3)]

    window = only_window(rows)

    assert (window["session_key"], window["attribution"]) == ("s1#baseline-1", "baseline")
    assert (window["started_at"], window["ended_at"]) == (at(0), at(3))


def test_events_at_one_time_are_in_order_of_sequence_and_those_without_one_come_last() -> None:
    rows = [tool(0), tool(0, masque="B", sequence=2), tool(0, masque="A", sequence=1)]

    # The one that names no masque follows B.
    assert {key: row["total_tools"] for key, row in windows(rows).items()} == {
        "s1#a-1": 1,
        "s1#b-1": 2,
    }
