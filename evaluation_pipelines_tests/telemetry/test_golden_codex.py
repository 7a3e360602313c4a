"""Captured telemetry of Codex, by both paths and in both encodings, against three references.

The references: a plain-Python implementation (``expected.json``), the model server that the
sessions ran against (``truth.json``), and calculations by hand.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.demo.landing import SAMPLES
from evaluation_pipelines_tests.telemetry.golden import Row, stateless, stored
from evaluation_pipelines_tests.workplace import Workplace, open_workplace

DATA = Path(__file__).parents[1] / "data" / "codex"
FORMS = {
    "as sent": SAMPLES / "codex" / "logs.jsonl",
    "by a collector": DATA / "logs.pbjson.jsonl",
}
EXPECTED: dict[str, Any] = json.loads((DATA / "expected.json").read_text())
TRUTH: list[dict[str, Any]] = json.loads((DATA / "truth.json").read_text())["sessions"]

# The server refused every try of the only call.
REFUSED = "01a1fff1-2028-7070-8e6b-0f211c86731a"


@pytest.fixture(scope="module", params=FORMS)
def lake(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workplace]:
    """Yield a workplace with one form, ingested and built."""
    with open_workplace(tmp_path_factory.mktemp("codex")) as workplace:
        landed = workplace.land("logs.jsonl", FORMS[request.param].read_bytes())
        counts = workplace.ingest().counts
        # The program flushed its metrics once in each of seven runs, outside of any session.
        assert (landed.stat().st_size, counts.unattributed) == (counts.bytes, 7)
        assert (counts.quarantined, counts.unknown_records, counts.value_anomalies) == (0, 0, 0)
        workplace.build()
        yield workplace


@pytest.fixture(scope="module", params=["stateless", "stored"])
def rows(request: pytest.FixtureRequest, lake: Workplace) -> dict[str, Row]:
    """Return all sessions of one form, by one of the two paths."""
    if request.param == "stored":
        return stored(lake)
    return stateless(lake.landing.root / "logs.jsonl")


# -- the reference -------------------------------------------------------------------------------


def as_reference(row: Row) -> dict[str, Any]:
    """Return a row with the fields of the reference, which has no prices and so no scores."""
    same = (
        "prompts api_requests api_errors input_tokens output_tokens cache_read_tokens"
        " cache_creation_tokens total_tokens tools_ok tools_failed tools_denied total_tools models"
    ).split()
    return {
        **{name: row[name] for name in same},
        "cli": row["source_cli"],
        "masques": [] if row["masque"] is None else [row["masque"]],
        "active_s": round(row["active_s"], 6),
        "cost_usd": None,
        "dimensions": None,
    }


def test_every_field_of_every_session_equals_the_reference(rows: dict[str, Row]) -> None:
    found = {session_id: as_reference(row) for session_id, row in rows.items()}
    assert found == EXPECTED["sessions"]


# -- the model server ----------------------------------------------------------------------------


def truth_of(session: Mapping[str, Any]) -> dict[str, Any]:
    """Return the true counts from the calls and tool results that the model server saw."""
    answered = [call for call in session["api_calls"] if call["status"] == 200]
    results = [call["result"] for call in session["tool_calls"]]
    usages = [call["usage"] for call in answered]
    cached = sum(usage["input_tokens_details"]["cached_tokens"] for usage in usages)
    return {
        "prompts": session["n_user_prompts"],
        "api_requests": len(answered),
        "tools_ok": results.count("ok"),
        "tools_failed": results.count("failed"),
        # The program was killed during the call.
        "tools_unknown": results.count("none"),
        "models": sorted({call["model"] for call in answered}),
        "input_tokens": sum(usage["input_tokens"] for usage in usages) - cached,
        "cache_read_tokens": cached,
        "output_tokens": sum(usage["output_tokens"] for usage in usages),
        "total_tokens": sum(usage["total_tokens"] for usage in usages),
        "service_version": session["version"],
    }


def test_all_counts_equal_the_truth(rows: dict[str, Row]) -> None:
    """In code mode the server saw two programs, one of which failed.

    Instead of the first its two calls count, one of which failed as well.
    """
    happened = {session["session_ids"][0]: truth_of(session) for session in TRUTH}
    for each in EXPECTED["differs_from_truth"]:
        (session_id,) = each["session_ids"]
        assert happened[session_id][each["field"]] == each["truth"]
        happened[session_id][each["field"]] = each["telemetry"]
    found = {
        session_id: {name: row[name] for name in happened[session_id]}
        for session_id, row in rows.items()
    }
    assert found == happened


def test_the_tokens_spent_on_reasoning_are_those_of_the_server(rows: dict[str, Row]) -> None:
    for session in TRUTH:
        (session_id,) = session["session_ids"]
        sent = [call["usage"] for call in session["api_calls"] if call["status"] == 200]
        spent = sum(usage["output_tokens_details"]["reasoning_tokens"] for usage in sent)
        assert (rows[session_id]["reasoning_tokens"] or 0) == spent


def test_each_call_has_the_result_that_was_sent_to_the_model(lake: Workplace) -> None:
    """Calls of code mode have other ids: the model saw only the wrapper.

    A program that failed without a call is one itself, with the id that the model saw.
    """
    rows = lake.events().filter(event_name="tool_result").to_dicts()
    found = {row["tool_use_id"]: (row["success"], row["exit_code"]) for row in rows}
    expected = {
        call["id"]: (call["result"] == "ok", call.get("exit_code"))
        for session in TRUTH
        for call in session["tool_calls"]
        if call["result"] != "none" and (call["name"] != "exec" or call["result"] == "failed")
    }
    inner = {key: found.pop(key) for key in found.keys() - expected.keys()}
    assert found == expected
    assert sorted(inner.values()) == [(False, 4), (True, 0)]


def test_an_exit_code_overrides_the_success_reported_by_newer_versions(lake: Workplace) -> None:
    overruled = lake.events().filter(success_source="exit_code")
    # 6 commands of `tool_failures` and the one of code mode that exited with 4
    assert overruled["success"].to_list() == [False] * 7
    assert overruled["service_version"].unique().to_list() == ["0.169.0"]


def test_a_session_whose_calls_all_failed_has_failed(rows: dict[str, Row]) -> None:
    status = {session_id: row["status"] for session_id, row in rows.items()}
    assert status.pop(REFUSED) == "failed"
    assert set(status.values()) == {"completed"}


# -- calculations by hand --------------------------------------------------------------------------
# List prices in dollars per million tokens of input, cached input and output; the tokens of each
# call were read off the server's records.

BY_HAND = {
    # gpt-5.5: 5, 0.5 and 30
    #   10723 * 5 = 53615, 37248 * 0.5 = 18624, 215 * 30 = 6450
    "01a1fff0-ebc1-77e3-9175-5bc0b19c74f5": 0.078689,
    # gpt-5.1-codex: 1.25, 0.125 and 10
    #   8900 * 1.25 = 11125, 2 * 10 = 20
    "01a1fff0-f98a-7f73-838d-d650b0149697": 0.011145,
    # gpt-5.2-codex: 1.75, 0.175 and 14
    #   13668 * 1.75 = 23919, 13192 * 0.175 = 2308.6, 135 * 14 = 1890
    "01a1fff2-1333-7de1-8d03-ee76faa4255a": 0.0281176,
    # gpt-5-codex: 1.25, 0.125 and 10
    #   13668 * 1.25 = 17085, 13192 * 0.125 = 1649, 135 * 10 = 1350
    "01a1fff2-1b39-71e1-bb71-b826dc48f4e7": 0.020084,
    REFUSED: 0.0,
}


@pytest.mark.parametrize("session_id", BY_HAND)
def test_the_cost_is_the_list_price_of_the_tokens(rows: dict[str, Row], session_id: str) -> None:
    row = rows[session_id]
    assert row["cost_usd"] == pytest.approx(BY_HAND[session_id], abs=1e-9)
    assert row["cost_known_calls"] == row["api_requests"]


def test_the_cost_source_of_every_call_is_the_price_table(lake: Workplace) -> None:
    calls = lake.events().filter(event_name="api_request")
    # 5 + 1 + 11 + 2 + 0 + 2 + 2 + 3 + 4 + 5 + 5
    assert calls["cost_source"].to_list() == ["priced"] * 40
    assert calls["provider"].unique().to_list() == ["openai"]


def test_a_program_that_failed_before_it_called_a_tool_is_a_failed_call(
    rows: dict[str, Row],
) -> None:
    """`ls` succeeded and `exit 4` failed in the first program; the second threw an error."""
    row = rows["01a1fff1-8aa7-70c3-b770-bebfc9d38c9a"]
    assert (row["tools_ok"], row["tools_failed"], row["total_tools"]) == (1, 2, 3)
    assert row["quality"] == pytest.approx(1 / 3 * 10)
    assert row["autonomy"] == 6.0  # 3 / 1 * 2


def test_the_dimensions_are_those_worked_out_by_hand(rows: dict[str, Row]) -> None:
    # 4 calls, all good, 1 prompt, 0.4 s: the minute counts as one
    row = rows["01a1fff0-ebc1-77e3-9175-5bc0b19c74f5"]
    by_hand = {
        "quality": 10.0,  # 4 / 4 * 10
        "autonomy": 8.0,  # 4 / 1 * 2
        "productivity": 10.0,  # 4 / 1 * 10 = 40
        "token_efficiency": 7.730046,  # 37248 / 48186 * 10
        "cost_efficiency": 8.032775,  # 10 - 0.078689 / 4 * 100 = 10 - 1.967225
        # 0.30 * 10 + 0.25 * 8 + 0.20 * 10 + 0.15 * 7.730046 + 0.10 * 8.032775
        # = 3 + 2 + 2 + 1.1595069 + 0.8032775
        "composite": 8.962784,
    }
    assert {name: row[name] for name in by_hand} == pytest.approx(by_hand, abs=5e-7)
    assert (row["partial"], row["recommendation"]) == (False, "keep")
