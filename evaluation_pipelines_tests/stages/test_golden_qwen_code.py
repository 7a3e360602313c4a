"""What Qwen Code really sent, by both paths and in both encodings, against three witnesses.

The witnesses: a plain-Python reference (``expected.json``), the model server that the sessions ran
against (``truth.json``), and a clock.
"""

import json
from datetime import datetime

import pytest

from evaluation_pipelines_tests.stages.captures import (
    WAYS,
    Capture,
    answered_calls,
    as_reference,
    differences,
)
from evaluation_pipelines_tests.stages.golden import Row

QWEN = Capture("qwen_code")
OF_0_15 = "b534b972-ae6d-45c0-a0f0-a6df546c3d35"
WITH_A_MASQUE = "e3b97c0e-efb1-4580-b203-c2e3abfdbbab"


@pytest.fixture(scope="module", params=WAYS, ids=", ".join)
def rows(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Row]:
    """All sessions, one encoding by one path."""
    return QWEN.rows(request.param, tmp_path_factory.mktemp("qwen"))


@pytest.fixture(scope="module")
def seconds_at_the_ends() -> dict[str, float]:
    """Seconds from ``session.start`` to the next record and from the last one to ``session.end``.

    Read off the file with nothing of the program.
    """
    inner: dict[str, list[datetime]] = {}
    whole: dict[str, list[datetime]] = {}
    for line in QWEN.file("as sent").read_text().split("\n")[:-1]:
        for resource in json.loads(line)["resourceLogs"]:
            for record in resource["scopeLogs"][0]["logRecords"]:
                values = {pair["key"]: pair["value"] for pair in record["attributes"]}
                name, session_id, time = (
                    values[key]["stringValue"]
                    for key in ("event.name", "session.id", "event.timestamp")
                )
                whole.setdefault(session_id, []).append(datetime.fromisoformat(time))
                if name not in ("session.start", "session.end"):
                    inner.setdefault(session_id, []).append(datetime.fromisoformat(time))
    return {
        each: (min(inner[each]) - min(times) + max(times) - max(inner[each])).total_seconds()
        for each, times in whole.items()
    }


def test_every_field_of_every_session_is_what_the_reference_computed(
    rows: dict[str, Row], seconds_at_the_ends: dict[str, float]
) -> None:
    """But for two records that the reference does not know: the start and the end of a session.

    They are the only ones whose name has no prefix, and they are events like all others.
    """
    found = {session_id: as_reference(row) for session_id, row in rows.items()}
    for session_id, fields in found.items():
        fields["active_s"] = round(fields["active_s"] - seconds_at_the_ends[session_id], 6)
    assert found == QWEN.expected["sessions"]


def test_the_reference_and_the_clock_differ_in_nine_sessions(
    seconds_at_the_ends: dict[str, float],
) -> None:
    # Version 0.15 does not send those two records.
    assert [each for each, seconds in seconds_at_the_ends.items() if seconds == 0] == [OF_0_15]
    assert len(seconds_at_the_ends) == 10


def test_counts_differ_from_what_happened_only_where_that_is_documented(
    rows: dict[str, Row],
) -> None:
    assert differences(rows, QWEN.truth) == QWEN.expected["differs_from_truth"]


def test_tokens_and_models_are_those_of_the_server(rows: dict[str, Row]) -> None:
    assert rows.keys() == {session["session_ids"][0] for session in QWEN.truth}
    for session in QWEN.truth:
        row, calls = rows[session["session_ids"][0]], answered_calls(session)
        sent = [call["usage"] for call in calls]
        details = [usage.get("prompt_tokens_details") or {} for usage in sent]
        cached = sum(detail.get("cached_tokens", 0) for detail in details)
        assert row["models"] == sorted({call["model"] for call in calls})
        assert row["cache_read_tokens"] == cached
        assert row["input_tokens"] == sum(usage["prompt_tokens"] for usage in sent) - cached
        assert row["output_tokens"] == sum(usage["completion_tokens"] for usage in sent)


def test_a_session_ends_when_it_says_so(rows: dict[str, Row]) -> None:
    """One was killed, and version 0.15 says nothing."""
    silent = {session_id for session_id, row in rows.items() if not row["explicit_end"]}
    assert silent == {OF_0_15, "11852f7f-cf65-4f58-b3ac-0c9d7d40d125"}


def test_versions_masque_and_team_are_those_of_the_resource(rows: dict[str, Row]) -> None:
    versions = {session_id: row["service_version"] for session_id, row in rows.items()}
    assert versions == {**dict.fromkeys(rows, "0.24.4"), OF_0_15: "0.15.10"}
    worn = rows[WITH_A_MASQUE]
    assert (worn["masque"], worn["attribution"], worn["team_id"]) == (
        "Codesmith",
        "clean",
        "platform",
    )


def test_a_model_without_a_list_price_costs_nobody_knows_what(rows: dict[str, Row]) -> None:
    for row in rows.values():
        assert row["cost_known_calls"] == 0
        assert row["cost_usd"] == (None if row["api_requests"] else 0.0)
