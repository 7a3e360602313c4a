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


@pytest.mark.parametrize(
    ("masque", "slug"),
    [
        ("Code Reviewer", "code-reviewer"),
        ("--Löwe #1!--", "löwe-1"),
        ("Überprüfer: #1", "überprüfer-1"),
        ("Кодер", "кодер"),
        ("コード職人", "コード職人"),
        ("समीक्षक", "समीक्षक"),
        ("審査員", "審査員"),
        ("🎭", "masque"),
        ("", "masque"),
        ("baseline", "baseline"),
    ],
)
def test_the_masque_is_in_the_key_as_a_slug(masque: str, slug: str) -> None:
    window = only_window([don(masque, 0), tool(1)])

    assert (window["session_key"], window["masque"]) == (f"s1#{slug}-1", masque)


def test_two_masques_with_one_slug_are_told_apart_by_number() -> None:
    rows = [don("a b", 0), tool(1), don("A-B", 2), tool(3), don("a b", 4), tool(5)]

    assert [(key, row["masque"]) for key, row in windows(rows).items()] == [
        ("s1#a-b-1", "a b"),
        ("s1#a-b-2", "A-B"),
        ("s1#a-b-3", "a b"),
    ]
    assert set(attributions(rows).values()) == {"mixed"}


def test_a_masque_called_baseline_and_the_baseline_are_told_apart_by_number() -> None:
    rows = [prompt(0), don("baseline", 1), tool(2)]

    assert attributions(rows) == {"s1#baseline-1": "remainder", "s1#baseline-2": "clean"}


@pytest.mark.parametrize("masque", ["A", "B", "baseline"])
def test_a_later_masque_changes_no_earlier_key_and_no_earlier_content(masque: str) -> None:
    earlier = [
        prompt(0),
        don("A", 1),
        tool(2),
        doff(3),
        prompt(4),
        don("B", 5),
        tool(6),
        api_request(7),
    ]
    later = [don(masque, 8), prompt(9), tool(10)]
    before = {key: row["content_hash"] for key, row in windows(earlier).items()}

    after = {key: row["content_hash"] for key, row in windows(earlier + later).items()}

    assert len(before) == 4
    assert len(after) == 5
    assert before.items() <= after.items()


@pytest.mark.parametrize(
    ("sequences", "missing"),
    [
        ([None, None], None),
        ([0, 1, 2], 0),
        # What came before the first event seen is not known to be missing.
        ([7, 8], 0),
        ([0, 1, 4], 2),
        ([0, None, 1], 0),
        # The same number twice is no gap.
        ([0, 1, 1, 2], 0),
        # Resumed: the next process starts at 0, or we see it from 1 on after a drop of 12.
        ([0, 1, 2, 0, 1], 0),
        ([11, 12, 13, 1, 2], 0),
        ([0, 2, 0, 3], 1 + 2),
        # A drop of 10 is an event that came late, a drop of 11 another process.
        ([3, 13, 3], 9),
        ([3, 14, 3], 10),
        # One process: 2, 2, 4, 12 lack 3 and 5 to 11. Two: 2, 13 lack ten, and 2, 4 lack one.
        ([2, 12, 2, 4], 1 + 7),
        ([2, 13, 2, 4], 10 + 1),
        ([0, 2, 1, 3], 0),
    ],
    ids=str,
)
def test_gaps_are_counted_within_each_run_of_a_process(
    sequences: list[int | None], missing: int | None
) -> None:
    rows = [event("hook", second, sequence=n) for second, n in enumerate(sequences)]

    assert only_window(rows)["missing_events"] == missing


def test_a_gap_counts_for_the_window_of_the_event_after_it() -> None:
    rows = [
        prompt(0, sequence=0),
        prompt(1, sequence=2),
        don("A", 2),
        prompt(3, sequence=5),
        don("B", 4),
        prompt(5),
    ]

    # 1 is missing before the second prompt, 3 and 4 before the third.
    assert [row["missing_events"] for row in windows(rows).values()] == [1, 2, 0]


def test_a_don_record_is_one_of_the_events_that_were_sent() -> None:
    rows = [prompt(0, sequence=0), don("A", 1, sequence=1), prompt(2, sequence=2)]

    assert [row["missing_events"] for row in windows(rows).values()] == [0, 0]


def test_absurd_numbers_stop_nothing() -> None:
    rows = [event("hook", 0, sequence=-(2**63)), event("hook", 1, sequence=2**63 - 1)]

    assert only_window(rows)["missing_events"] is None


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
