"""Captured telemetry of Gemini CLI, by both paths and in both encodings, against three references.

The references: a plain-Python implementation (``expected.json``), the model server that the
sessions ran against (``truth.json``), and calculations by hand.
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

GEMINI = Capture("gemini_cli")

# No tokens are logged for an empty answer.
EMPTY_ANSWER = "e9c5fee4-31c5-4043-9508-953f240c4400"
NOT_ALL_LOGGED = ("04702163-0b96-4feb-a7fb-b51f7f8b0ab8", "b01f0b59-0eda-4b61-9cf3-ed13bdf7f0e5")


@pytest.fixture(scope="module", params=WAYS, ids=", ".join)
def rows(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Row]:
    """Return all sessions of one encoding, by one path."""
    return GEMINI.rows(request.param, tmp_path_factory.mktemp("gemini"))


def test_every_field_of_every_session_equals_the_reference(rows: dict[str, Row]) -> None:
    found = {session_id: as_reference(row) for session_id, row in rows.items()}
    assert found == GEMINI.expected["sessions"]


def test_counts_differ_from_the_truth_only_where_documented(
    rows: dict[str, Row],
) -> None:
    assert differences(rows, GEMINI.truth) == GEMINI.expected["differs_from_truth"]


def test_tokens_and_models_are_those_of_the_server_if_all_were_logged(
    rows: dict[str, Row],
) -> None:
    """One session stopped in a loop before two calls were logged, one wrote to another file."""
    compared = 0
    for session in GEMINI.truth:
        (session_id,), calls = session["session_ids"], answered_calls(session)
        if session_id in (EMPTY_ANSWER, *NOT_ALL_LOGGED):
            continue
        row, sent = rows[session_id], [call["usage"] for call in calls]
        cached = sum(usage.get("cachedContentTokenCount", 0) for usage in sent)
        thoughts = sum(usage.get("thoughtsTokenCount", 0) for usage in sent)
        assert row["models"] == sorted({call["model"] for call in calls})
        assert row["cache_read_tokens"] == cached
        assert row["input_tokens"] == sum(usage["promptTokenCount"] for usage in sent) - cached
        answered = sum(usage["candidatesTokenCount"] for usage in sent)
        assert row["output_tokens"] == answered + thoughts
        assert (row["reasoning_tokens"] or 0) == thoughts
        compared += 1
    assert compared == 7


# Dollars per million tokens of gemini-2.5-pro: 1.25 in, 0.125 from the cache, 10 out.
BY_HAND = {
    # input      7210 + 3324 + 1470 + 701 + 550 = 13255    * 1.25  = 16568.75
    # from cache 4096 + 6120 + 7100 + 7400      = 24716    * 0.125 =  3089.5
    # output     44 + 31 + 83 + 40 + 17 = 215, thoughts 131 + 60 + 44 + 12 = 247
    #                                              462     * 10    =  4620
    "aa45fcc6-c40d-4145-b8af-5de0c7fa5993": 0.02427825,
    # The one answer that was not empty: 7100 * 1.25 + 20 * 10 = 8875 + 200
    EMPTY_ANSWER: 0.009075,
    # No request was answered, so the cost is 0.
    "75e07944-bb99-4fbc-ab9a-00be1812258f": 0.0,
}


@pytest.mark.parametrize("session_id", BY_HAND)
def test_the_cost_is_the_list_price_worked_out_by_hand(
    rows: dict[str, Row], session_id: str
) -> None:
    assert rows[session_id]["cost_usd"] == pytest.approx(BY_HAND[session_id], abs=1e-9)


def test_values_that_gemini_does_not_send_are_unknown(rows: dict[str, Row]) -> None:
    for row in rows.values():
        assert (row["service_version"], row["missing_events"]) == (None, None)
        assert row["explicit_end"] is False
    assert {row["status"] for row in rows.values()} == {"completed", "failed"}
