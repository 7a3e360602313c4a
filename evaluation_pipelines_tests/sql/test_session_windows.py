"""Windows without masques, with masques by attribute, and the events between them."""

import pytest

from evaluation_pipelines_tests.sql.session_queries import (
    attributions,
    only_window,
    session_rows,
    windows,
)
from evaluation_pipelines_tests.world.rows import (
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

Windows = dict[str, tuple[str, int, float, float]]
"""Attribution, calls, first and last second by key."""


def seen(rows: list[Row]) -> Windows:
    return {
        key: (
            row["attribution"],
            row["total_tools"],
            (row["started_at"] - at(0)).total_seconds(),
            (row["ended_at"] - at(0)).total_seconds(),
        )
        for key, row in windows(rows).items()
    }


def by_attribute(masques: str) -> list[Row]:
    """A call each second; a space names no masque."""
    return [tool(second, masque=name.strip() or None) for second, name in enumerate(masques)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([prompt(0), tool(5), event("hook", 9)], {"baseline-1": ("baseline", 1, 0, 9)}),
        ([prompt(0), don(None, 1), tool(2)], {"baseline-1": ("baseline", 1, 0, 2)}),
        # By attribute: a window for each run of the same. Events without it go with those before,
        # the first ones with those after.
        ([prompt(0), tool(1, masque="A"), prompt(2), tool(3, masque="A"), tool(4)],
         {"a-1": ("clean", 3, 0, 4)}),
        (by_attribute("AABAA"), {"a-1": ("mixed", 2, 0, 1), "b-1": ("mixed", 1, 2, 2),
                                 "a-2": ("mixed", 2, 3, 4)}),
        (by_attribute(" A  B "), {"a-1": ("mixed", 4, 0, 3), "b-1": ("mixed", 2, 4, 5)}),
        ([tool(0), doff(1, "B")], {"baseline-1": ("baseline", 1, 0, 0)}),
        # At one time by sequence; the one without a sequence comes last and follows B.
        ([tool(0), tool(0, masque="B", sequence=2), tool(0, masque="A", sequence=1)],
         {"a-1": ("mixed", 1, 0, 0), "b-1": ("mixed", 2, 0, 0)}),
        # A don wins over attributes in the whole session.
        ([prompt(0, masque="A"), tool(1, masque="A"), don("B", 5), tool(6, masque="A")],
         {"baseline-1": ("remainder", 1, 0, 1), "b-1": ("clean", 1, 5, 6)}),
        ([prompt(0), don("baseline", 1), tool(2)],
         {"baseline-1": ("remainder", 0, 0, 0), "baseline-2": ("clean", 1, 1, 2)}),
        # A window ends at its doff, before the next don, or at the last event; what is put on
        # before the first event is worn from that on.
        ([event("hook", 0), don("A", 1), tool(2), tool(4), doff(6)], {"a-1": ("clean", 2, 1, 6)}),
        ([tool(0), don("A", 1), tool(2), tool(4), don("B", 7), tool(8), tool(9)],
         {"baseline-1": ("remainder", 1, 0, 0), "a-1": ("mixed", 2, 1, 4),
          "b-1": ("mixed", 2, 7, 9)}),
        ([don("A", -60), prompt(0), tool(5)], {"a-1": ("clean", 1, 0, 5)}),
        # At the time of a don an event is of the new window, at that of a doff of the closing one,
        # and of the next if one is put on then.
        ([tool(0), tool(5, sequence=1), don("A", 5), tool(6)],
         {"baseline-1": ("remainder", 1, 0, 0), "a-1": ("clean", 2, 5, 6)}),
        ([don("A", 0), tool(1), doff(5), tool(5), tool(6)],
         {"a-1": ("clean", 2, 1, 5), "baseline-1": ("remainder", 1, 6, 6)}),
        ([don("A", 0), tool(1), doff(5, "A"), don("B", 5), tool(5), tool(6)],
         {"a-1": ("mixed", 1, 1, 5), "b-1": ("mixed", 2, 5, 6)}),
        # Windows without events are dropped and count for nothing.
        ([tool(0), don("A", 1), doff(2), don("B", 3), tool(4), don("C", 5)],
         {"baseline-1": ("remainder", 1, 0, 0), "b-1": ("clean", 1, 3, 4)}),
        ([event("hook", 0), don("A", 1), doff(2), event("hook", 3)],
         {"baseline-1": ("baseline", 0, 0, 3)}),
        # After the doff of an inner masque the outer one is worn again: work at 30 and 40 is of O1.
        ([don("O1", 5), doff(45, "O1"), don("O2", 15), doff(25, "O2"),
          tool(10), tool(20), tool(30), tool(40)],
         {"o1-1": ("mixed", 1, 10, 10), "o2-1": ("mixed", 1, 15, 25),
          "o1-2": ("mixed", 2, 25, 45)}),
    ],
)  # fmt: skip
def test_a_session_has_a_window_for_each_masque_that_did_something(
    rows: list[Row], expected: Windows
) -> None:
    assert seen(rows) == {f"s1#{key}": value for key, value in expected.items()}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([prompt(0), tool(1), prompt(5, organization_id="other")],
         [("default", "s1#baseline-1", 1), ("other", "s1#baseline-1", 0)]),
        # A line of attribution is for every organization with the session, a record for its own.
        ([tool(1), tool(2, organization_id="other"), don("A", 0), tool(3, session_id="s2")],
         [("default", "s1#a-1", 1), ("default", "s2#baseline-1", 1), ("other", "s1#a-1", 1)]),
        ([tool(1), tool(2, organization_id="other"), don("A", 0, organization_id="other")],
         [("default", "s1#baseline-1", 1), ("other", "s1#a-1", 1)]),
    ],
)  # fmt: skip
def test_sessions_of_two_organizations_are_two(
    rows: list[Row], expected: list[tuple[str, str, int]]
) -> None:
    names = ("organization_id", "session_key", "total_tools")
    assert [tuple(row[name] for name in names) for row in session_rows(rows)] == expected


def test_the_facts_of_windows_by_attribute_by_don_and_without() -> None:
    names = ("masque", "prompts", "explicit_end", "duration_s", "active_s")

    def facts(rows: list[Row]) -> list[tuple[object, ...]]:
        return [tuple(row[name] for name in names) for row in windows(rows).values()]

    assert facts([prompt(0), tool(5)]) == [(None, 1, False, 5.0, 5.0)]
    by_it = [prompt(0), tool(1, masque="A"), prompt(2)]
    assert facts(by_it) == [("A", 2, False, 2.0, 2.0)]
    assert facts([don("A", -60), prompt(0), tool(5)]) == [("A", 1, False, 5.0, 5.0)]
    inner = [don("O1", 5), doff(45, "O1"), don("O2", 15), doff(25, "O2")]
    found = facts([*inner, tool(10), tool(20), tool(30)])
    assert [(masque, ended) for masque, _, ended, *_ in found] == [
        *(("O1", False), ("O2", True), ("O1", True)),
    ]


def test_a_doff_without_any_don_changes_nothing() -> None:
    without = only_window([prompt(0), tool(5)])

    assert only_window([prompt(0), tool(5), doff(3), doff(99, "A")]) == without


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
    first = [prompt(0, sequence=0), prompt(1, sequence=2), don("A", 2)]
    rows = [*first, prompt(3, sequence=5), don("B", 4), prompt(5)]

    # 1 is missing before the second prompt, 3 and 4 before the third.
    assert [row["missing_events"] for row in windows(rows).values()] == [1, 2, 0]
    # A don record is one of the events that were sent.
    rows = [prompt(0, sequence=0), don("A", 1, sequence=1), prompt(2, sequence=2)]
    assert [row["missing_events"] for row in windows(rows).values()] == [0, 0]


def test_absurd_numbers_stop_nothing() -> None:
    rows = [event("hook", 0, sequence=-(2**63)), event("hook", 1, sequence=2**63 - 1)]

    assert only_window(rows)["missing_events"] is None


def test_an_attribution_line_without_telemetry_is_no_session() -> None:
    rows = [don("A", 0), doff(5), don("B", 0, organization_id="default", session_id="s2")]

    assert session_rows(rows) == []
