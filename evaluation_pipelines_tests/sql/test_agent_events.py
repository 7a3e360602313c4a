"""One event once: agent_events.sql."""

from itertools import permutations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines.schemas import EVENTS_WITH_TEXTS
from evaluation_pipelines.sessions.session_queries import query_events
from evaluation_pipelines_tests.world.rows import (
    Row,
    api_request,
    at,
    don,
    event,
    events_frame,
    prompt,
    tool,
)


def kept(rows: list[Row]) -> list[Row]:
    return query_events(events_frame(rows)).to_dicts()


def test_an_event_sent_twice_is_kept_where_it_was_first_read() -> None:
    sent = [
        prompt(0, source_file_id="b", source_offset=0),
        prompt(0, source_file_id="a", source_offset=900),
        prompt(0, source_file_id="a", source_offset=80),
    ]

    (row,) = kept(sent)

    assert (row["source_file_id"], row["source_offset"]) == ("a", 80)


def test_of_copies_in_one_line_the_first_observed_is_kept() -> None:
    observed_times = (None, at(3), at(1), at(2))
    copies = [prompt(0, event_id=b"a" * 16, observed_time=observed) for observed in observed_times]

    for rows in permutations(copies):
        assert [row["observed_time"] for row in kept(list(rows))] == [at(1)]


def test_of_an_event_that_was_told_again_later_the_first_is_kept() -> None:
    told = [prompt(second, event_id=b"a" * 16, source_offset=second) for second in (2, 0, 1)]

    for rows in (told, told[::-1]):
        assert [row["event_time"] for row in kept(rows)] == [at(0)]


def test_different_events_are_all_kept_with_every_column() -> None:
    rows = [prompt(0, content="x"), tool(1, tool_parameters='{"a": 1}'), api_request(2, sequence=7)]

    assert query_events(events_frame(rows)).equals(events_frame(rows))


def test_of_equally_early_copies_of_an_api_request_the_lowest_event_id_is_kept() -> None:
    rows = [
        api_request(1, request_id="r1", event_id=b"b" * 16),
        api_request(1, request_id="r1", event_id=b"a" * 16),
    ]

    assert [row["event_id"] for row in kept(rows)] == [b"a" * 16]


def test_a_copied_api_request_that_was_also_sent_twice_is_kept_once() -> None:
    rows = [
        api_request(3, request_id="r1", source_offset=10),
        api_request(3, request_id="r1", source_offset=90),
        api_request(4, request_id="r1"),
    ]

    assert [row["source_offset"] for row in kept(rows)] == [10]


def test_a_copy_whose_request_id_was_damaged_takes_no_other_event_with_it() -> None:
    rows = [
        api_request(0, request_id="[]", event_id=b"a" * 16),
        api_request(1, request_id="r1", event_id=b"b" * 16, source_offset=0),
        api_request(1, request_id="[]", event_id=b"b" * 16, source_offset=90),
    ]

    assert [row["event_id"] for row in kept(rows)] == [b"a" * 16, b"b" * 16]


def test_a_request_id_tells_nothing_beyond_its_session_and_organization() -> None:
    rows = [
        api_request(1, request_id="r1", organization_id="acme"),
        api_request(2, request_id="r1", organization_id="acme", session_id="s2"),
        api_request(3, request_id="r1", organization_id="other"),
    ]

    assert len(kept(rows)) == 3


def test_api_requests_without_a_request_id_are_all_kept() -> None:
    assert len(kept([api_request(1), api_request(2)])) == 2


def test_other_events_of_the_same_request_are_all_kept() -> None:
    rows = [
        api_request(1, request_id="r1"),
        event("assistant_response", 1, request_id="r1"),
        event("api_error", 0, request_id="r1"),
        event("api_error", 0.5, request_id="r1"),
    ]

    assert len(kept(rows)) == 4


def test_rows_come_by_organization_session_time_sequence_and_id_with_unknown_ones_last() -> None:
    in_order = [
        prompt(9, session_id="s3", organization_id="a"),
        prompt(1, session_id="s1"),
        prompt(2, session_id="s1", sequence=1),
        prompt(2, session_id="s1", sequence=2, event_id=b"1" * 16),
        prompt(2, session_id="s1", sequence=2, event_id=b"2" * 16),
        prompt(2, session_id="s1"),
        prompt(0, session_id="s2"),
        don("A", 0),
    ]

    assert [row["event_id"] for row in kept(in_order[::-1])] == [
        row["event_id"] for row in in_order
    ]


def test_nothing_landed_is_no_events() -> None:
    assert query_events(events_frame([])).schema == EVENTS_WITH_TEXTS


_COPIES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["r1", "r2", None]), st.integers(0, 3)),
    max_size=12,
)


@settings(max_examples=12)
@given(copies=_COPIES, order=st.randoms(use_true_random=False))
def test_the_order_in_which_events_landed_changes_nothing(
    copies: list[tuple[int, str | None, int]], order: Random
) -> None:
    rows = [
        api_request(seconds, request_id=request, source_offset=offset)
        for seconds, request, offset in copies
    ]
    shuffled = order.sample(rows, len(rows))

    assert kept(shuffled) == kept(rows)
