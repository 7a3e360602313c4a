"""One event once: agent_events.sql."""

from random import Random

import pytest
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


A, B = b"a" * 16, b"b" * 16


@pytest.mark.parametrize(
    ("sent", "column", "expected"),
    [
        # An event that was sent twice, where it was first read.
        (
            [prompt(0, source_file_id="b", source_offset=0)]
            + [prompt(0, source_file_id="a", source_offset=offset) for offset in (900, 80)],
            *("source_offset", [80]),
        ),
        # Of copies in one line the first observed, of one that was told again later the first.
        (
            [prompt(0, event_id=A, observed_time=time) for time in (None, at(3), at(1), at(2))],
            *("observed_time", [at(1)]),
        ),
        (
            [prompt(second, event_id=A, source_offset=9 - second) for second in (2, 0, 1)],
            *("event_time", [at(0)]),
        ),
        # Of equally early copies of an API request the lowest id; also if one was sent twice.
        ([api_request(1, request_id="r1", event_id=event_id) for event_id in (B, A)],
         "event_id", [A]),
        (
            [api_request(3, request_id="r1", source_offset=offset) for offset in (10, 90)]
            + [api_request(4, request_id="r1")],
            *("source_offset", [10]),
        ),
        # A copy whose request id was damaged takes no other event with it.
        (
            [
                api_request(0, request_id="[]", event_id=A),
                api_request(1, request_id="r1", event_id=B, source_offset=0),
                api_request(1, request_id="[]", event_id=B, source_offset=90),
            ],
            *("event_id", [A, B]),
        ),
        # A request id tells nothing beyond its session and organization, or of other events.
        (
            [
                api_request(1, request_id="r1", organization_id="acme"),
                api_request(2, request_id="r1", organization_id="acme", session_id="s2"),
                api_request(3, request_id="r1", organization_id="other"),
            ],
            *("organization_id", ["acme", "acme", "other"]),
        ),
        (
            [api_request(1, request_id="r1"), event("assistant_response", 2, request_id="r1")]
            + [event("api_error", second, request_id="r1") for second in (0, 0.5)],
            *("event_name", ["api_error", "api_error", "api_request", "assistant_response"]),
        ),
        ([api_request(1), api_request(2)], "event_time", [at(1), at(2)]),
    ],
)  # fmt: skip
def test_of_the_copies_of_an_event_one_is_kept(
    sent: list[Row], column: str, expected: list[object]
) -> None:
    for rows in (sent, sent[::-1]):
        assert [row[column] for row in kept(rows)] == expected


def test_different_events_are_all_kept_with_every_column() -> None:
    rows = [prompt(0, content="x"), tool(1, tool_parameters='{"a": 1}'), api_request(2, sequence=7)]

    assert query_events(events_frame(rows)).equals(events_frame(rows))


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
