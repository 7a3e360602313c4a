"""Captured telemetry of Qwen Code, by both paths and in both encodings, against two references.

The references: a plain-Python implementation (``expected.json``) and the model server that the
sessions ran against (``truth.json``).
"""

import pytest

from evaluation_pipelines_tests.telemetry.captures import (
    WAYS,
    Capture,
    answered_calls,
    as_reference,
    differences,
)
from evaluation_pipelines_tests.telemetry.golden import Row

QWEN = Capture("qwen_code")
OF_0_15 = "b534b972-ae6d-45c0-a0f0-a6df546c3d35"
WITH_A_MASQUE = "e3b97c0e-efb1-4580-b203-c2e3abfdbbab"


@pytest.fixture(scope="module", params=WAYS, ids=", ".join)
def rows(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Row]:
    """Return all sessions of one encoding, by one path."""
    return QWEN.rows(request.param, tmp_path_factory.mktemp("qwen"))


def test_every_field_of_every_session_equals_the_reference(
    rows: dict[str, Row],
) -> None:
    found = {session_id: as_reference(row) for session_id, row in rows.items()}
    assert found == QWEN.expected["sessions"]


def test_counts_differ_from_the_truth_only_where_documented(
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


def test_an_explicit_end_is_read_from_the_end_event(rows: dict[str, Row]) -> None:
    """One session was killed, and version 0.15 sends no end."""
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


def test_the_cost_of_a_model_without_a_list_price_is_unknown(rows: dict[str, Row]) -> None:
    for row in rows.values():
        assert row["cost_known_calls"] == 0
        assert row["cost_usd"] == (None if row["api_requests"] else 0.0)
