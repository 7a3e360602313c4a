"""Attribution lines: events of valid lines, and defects of the others."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry.domain.reading import NOW, read
from evaluation_pipelines_tests.world import SESSION

ATTRIBUTION = {"session_id": SESSION, "masque": "Codesmith", "donned_at": "2026-06-01T12:00:00Z"}


def attribution_line(**replaced: object) -> bytes:
    """Return an attribution line with some keys replaced."""
    return json.dumps({**ATTRIBUTION, **replaced}).encode()


def test_a_don_without_a_doff_is_one_event() -> None:
    batch = read(attribution_line())
    (row,) = batch.events.to_dicts()
    assert (row["event_name"], row["source_event_name"]) == ("masque_don", "attribution")
    assert (row["masque"], row["source_file_id"], row["source_offset"]) == ("Codesmith", "file", 0)
    assert (batch.counts.attribution_lines, batch.counts.events) == (1, 1)


def test_a_line_that_was_written_twice_is_the_same_event() -> None:
    batch = read(
        attribution_line() + b"\n", attribution_line() + b"\n", attribution_line(masque="Reviewer")
    )
    assert batch.events.height == 3
    assert batch.events["event_id"].n_unique() == 2


def test_an_array_can_have_several_lines() -> None:
    batch = read(b"[" + attribution_line() + b"," + attribution_line(session_id="other") + b"]")
    assert batch.events["session_id"].to_list() == [SESSION, "other"]


@pytest.mark.parametrize("when", ["1999-06-01T12:00:00Z", "2026-06-02T00:05:01Z"])
def test_an_impossible_time_is_replaced_and_counted(when: str) -> None:
    batch = read(attribution_line(donned_at=when))
    (row,) = batch.events.to_dicts()
    assert (row["event_time"], row["time_anomaly"]) == (NOW, True)
    assert batch.counts.time_anomalies == 1


def test_nul_is_removed_because_databases_reject_it() -> None:
    (row,) = read(attribution_line(session_id="a\0b", masque="Code\0smith")).events.to_dicts()
    assert (row["session_id"], row["masque"]) == ("ab", "Codesmith")


@pytest.mark.parametrize(
    ("replaced", "defect"),
    [
        ({"session_id": 5}, "session_id is not a non-empty string"),
        ({"session_id": ""}, "session_id is not a non-empty string"),
        ({"session_id": "\0"}, "session_id is not a non-empty string"),
        ({"masque": None}, "masque is not a non-empty string"),
        ({"masque": ["Codesmith"]}, "masque is not a non-empty string"),
        ({"masque": ""}, "masque is not a non-empty string"),
        ({"masque": "  "}, "masque is not a non-empty string"),
        # Its session may be another one than that of this id in another organization.
        ({"organization_id": "o"}, "no such name: organization_id"),
        ({"doffedAt": "2026-06-01T13:00:00Z", "why": 1}, "no such name: doffedAt, why"),
        ({"doffed_at": "2026-06-01T11:59:59Z"}, "doffed_at is before donned_at"),
        ({"donned_at": None}, "donned_at is not an ISO 8601 time"),
        ({"donned_at": 1_780_315_200}, "donned_at is not an ISO 8601 time"),
        ({"doffed_at": "later"}, "doffed_at is not an ISO 8601 time"),
    ],
)
def test_an_invalid_line_is_quarantined(replaced: dict[str, Any], defect: str) -> None:
    batch = read(attribution_line(**replaced))
    assert batch.events.is_empty()
    assert [each.reason for each in batch.quarantined] == [f"attribution line: {defect}"]
