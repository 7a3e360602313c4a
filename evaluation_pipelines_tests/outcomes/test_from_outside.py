"""Outcomes that other systems report: lines of the landing folder, each read once."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.schemas import SESSION_OUTCOMES
from evaluation_pipelines.telemetry.domain.outcome_lines import LateOutcome, outcome_of
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line

_MERGED = {"session_id": "one", "kind": "merged", "reference": "pull/12"}


def sent(**changes: Any) -> bytes:
    return json.dumps({**_MERGED, **changes}).encode() + b"\n"


def values(workplace: Workplace) -> list[tuple[Any, ...]]:
    workplace.ingest()
    workplace.build()
    rows = workplace.lake.read(SESSION_OUTCOMES, [date(2026, 6, 1)])
    return rows.select("session_key", "kind", "value", "reference", "source").rows()


def test_a_later_line_corrects_an_earlier_one_and_bad_ones_are_quarantined(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace:
        workplace.land("a.jsonl", line(claude("user_prompt", 0, session__id="one")))
        bad = sent(value=3) + sent(kind="nonsense") + sent(more=1)
        workplace.land("outcomes/ci.jsonl", sent(value=False) + bad)
        row = ("one#baseline-1", "merged", 0.0, "pull/12", "outside")
        assert values(workplace) == [row]
        reasons = workplace.quarantined()["reason"].to_list()
        assert [reason[:25] for reason in reasons] == [
            *(
                "outcome: value is not tru",
                "outcome: kind must be com",
                "outcome: no such name: mo",
            ),
        ]

        workplace.land("outcomes/ci.jsonl", sent() + sent(reference="pull/13"), "ab")
        assert values(workplace) == [
            ("one#baseline-1", "merged", 1.0, "pull/12", "outside"),
            ("one#baseline-1", "merged", 1.0, "pull/13", "outside"),
        ]
        assert workplace.sessions().height == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"kind": "merged", "value": 1.0, "organization_id": "default"}),
        ({"value": 0.25, "organization": "acme"}, {"value": 0.25, "organization_id": "acme"}),
        ({"kind": "rejected"}, {"kind": "accepted", "value": 0.0}),
        ({"kind": "x_incident", "value": False}, {"kind": "x_incident", "value": 0.0}),
        ({"kind": "tests_after_last_edit", "value": "none"}, {"value": None}),
        ({"session_key": "one#baseline-2"}, {"session_key": "one#baseline-2"}),
        ({"at": "2026-06-02T12:00:00Z"}, {"read_at": NOW}),
    ],
)
def test_an_outcome_as_it_is_stored(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    found = outcome_of({**_MERGED, **changes}, NOW)
    assert isinstance(found, LateOutcome)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("changes", "defect"),
    [
        ({"session_id": None}, "needed"),
        ({"session_id": ""}, "session_id"),
        ({"reference": "x" * 501}, "reference"),
        ({"at": "2027-01-01T00:00:00Z"}, "at is"),
        ({"at": "yesterday"}, "at is"),
        ({"kind": "x_"}, "kind"),
        ({"kind": "commit", "reference": "the last one"}, "hexadecimal"),
        ({"session_key": "two#baseline-1"}, "session_key"),
        ({"value": "passed"}, "value"),
        ({"value": float("nan")}, "value"),
    ],
)
def test_a_defect_has_its_reason(changes: dict[str, Any], defect: str) -> None:
    found = outcome_of({**_MERGED, **changes}, NOW)
    assert isinstance(found, str)
    assert defect in found
