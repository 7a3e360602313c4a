"""Attribution lines: who wore which masque, and what is wrong with the others."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.otlp_builders import SESSION
from evaluation_pipelines_tests.telemetry.domain.reading import NOW, read

TOLD = {"session_id": SESSION, "masque": "Codesmith", "donned_at": "2026-06-01T12:00:00Z"}


def told(**replaced: object) -> bytes:
    """An attribution line with some keys replaced."""
    return json.dumps({**TOLD, **replaced}).encode()


def test_a_don_without_a_doff_is_one_event() -> None:
    batch = read(told())
    (row,) = batch.events.to_dicts()
    assert (row["event_name"], row["source_event_name"]) == ("masque_don", "attribution")
    assert (row["masque"], row["source_file_id"], row["source_offset"]) == ("Codesmith", "file", 0)
    assert (batch.counts.attribution_lines, batch.counts.events) == (1, 1)


def test_a_line_that_was_written_twice_is_the_same_event() -> None:
    batch = read(told() + b"\n", told() + b"\n", told(masque="Reviewer"))
    assert batch.events.height == 3
    assert batch.events["event_id"].n_unique() == 2


def test_several_lines_may_stand_in_one_array() -> None:
    batch = read(b"[" + told() + b"," + told(session_id="other") + b"]")
    assert batch.events["session_id"].to_list() == [SESSION, "other"]


@pytest.mark.parametrize("when", ["1999-06-01T12:00:00Z", "2026-06-02T00:05:01Z"])
def test_an_impossible_time_is_replaced_and_counted(when: str) -> None:
    batch = read(told(donned_at=when))
    (row,) = batch.events.to_dicts()
    assert (row["event_time"], row["time_anomaly"]) == (NOW, True)
    assert batch.counts.time_anomalies == 1


def test_nul_is_left_out_because_no_database_takes_it() -> None:
    (row,) = read(told(session_id="a\0b", masque="Code\0smith")).events.to_dicts()
    assert (row["session_id"], row["masque"]) == ("ab", "Codesmith")


@pytest.mark.parametrize(
    ("replaced", "what"),
    [
        ({"session_id": 5}, "session_id is not a text"),
        ({"session_id": ""}, "session_id is not a text"),
        ({"session_id": "\0"}, "session_id is not a text"),
        ({"masque": None}, "masque is not a text"),
        ({"masque": ["Codesmith"]}, "masque is not a text"),
        ({"masque": ""}, "masque is not a text"),
        ({"donned_at": None}, "donned_at is not an ISO 8601 time"),
        ({"donned_at": 1_780_315_200}, "donned_at is not an ISO 8601 time"),
        ({"doffed_at": "later"}, "doffed_at is not an ISO 8601 time"),
    ],
)
def test_a_line_that_tells_nothing_certain_is_quarantined(
    replaced: dict[str, Any], what: str
) -> None:
    batch = read(told(**replaced))
    assert batch.events.is_empty()
    assert [each.reason for each in batch.quarantined] == [f"attribution line: {what}"]
