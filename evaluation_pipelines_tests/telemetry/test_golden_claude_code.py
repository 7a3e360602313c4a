"""Captured telemetry of Claude Code, by both paths and in both encodings, against three references.

The references: a plain-Python implementation (``expected.json``), the model server that the
sessions ran against (``truth.json``), and calculations by hand. A fourth one is in
``test_golden_paths.py``.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from evaluation_pipelines.sessions.domain.performance import WEIGHTS
from evaluation_pipelines_tests.telemetry.golden import (
    EXPECTED,
    FORMS,
    TRUTH,
    Row,
    stateless,
    stored,
)
from evaluation_pipelines_tests.workplace import Workplace


@pytest.fixture(scope="module", params=["stateless", "stored"])
def rows(
    request: pytest.FixtureRequest, golden_form: str, golden_lake: Workplace
) -> dict[str, Row]:
    """Return all sessions of one form, by one of the two paths."""
    straight = request.param == "stateless"
    return stateless(FORMS[golden_form]) if straight else stored(golden_lake)


# -- the reference -------------------------------------------------------------------------------


def as_reference(row: Row) -> dict[str, Any]:
    """Return a row with the fields of the reference, which rounds dimensions and money."""
    same = (
        "prompts api_requests api_errors input_tokens output_tokens cache_read_tokens"
        " cache_creation_tokens total_tokens tools_ok tools_failed tools_denied total_tools models"
    ).split()
    scores = {
        name: round(row[name], 6) for name in (*WEIGHTS, "composite") if row[name] is not None
    }
    unknown = {name: None for name in WEIGHTS if row[name] is None}
    return {
        **{name: row[name] for name in same},
        "cli": row["source_cli"],
        "masques": [] if row["masque"] is None else [row["masque"]],
        "cost_usd": round(row["cost_usd"], 7),
        "active_s": round(row["active_s"], 6),
        "dimensions": {**scores, **unknown} if row["scorable"] else None,
    }


def test_every_field_of_every_session_equals_the_reference(rows: dict[str, Row]) -> None:
    found = {session_id: as_reference(row) for session_id, row in rows.items()}
    assert found == EXPECTED["sessions"]


# -- the model server ----------------------------------------------------------------------------


def truth_of(session: Mapping[str, Any]) -> dict[str, Any]:
    """Return the true counts from the calls and tool results that the model server saw."""
    answered = [call for call in session["api_calls"] if call["status"] == 200]
    results = [call["result"] for call in session["tool_calls"]]
    sent = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "cache_read_tokens": "cache_read_input_tokens",
        "cache_creation_tokens": "cache_creation_input_tokens",
    }
    return {
        "prompts": session["n_user_prompts"],
        "api_requests": len(answered),
        "tools_ok": results.count("ok"),
        "tools_failed": results.count("failed"),
        "models": sorted({call["model"] for call in answered}),
        **{name: sum(call["usage"][key] for call in answered) for name, key in sent.items()},
    }


def test_the_sessions_are_exactly_those_that_ran(rows: dict[str, Row]) -> None:
    assert rows.keys() == {each for session in TRUTH for each in session["session_ids"]}


def test_counts_differ_from_the_truth_only_where_documented(
    rows: dict[str, Row],
) -> None:
    counts = ("prompts", "api_requests", "tools_ok", "tools_failed")
    different = [
        {
            "label": session["label"],
            "session_ids": session["session_ids"],
            "field": name,
            "telemetry": rows[session["session_ids"][0]][name],
            "truth": truth_of(session)[name],
        }
        for session in TRUTH
        for name in counts
        if rows[session["session_ids"][0]][name] != truth_of(session)[name]
    ]
    assert different == EXPECTED["differs_from_truth"]


def test_tokens_and_models_are_those_of_the_server_if_all_calls_were_logged(
    rows: dict[str, Row],
) -> None:
    """Claude Code 2.0.30 omits auxiliary calls and all input tokens, so its input is unknown."""
    unknown = {
        each["session_ids"][0]
        for each in EXPECTED["differs_from_truth"]
        if each["field"] == "api_requests"
    }
    assert unknown == {"97263027-c850-4b2e-94b5-31d2aecb378b"}
    for session in TRUTH:
        (session_id,) = session["session_ids"]
        if session_id not in unknown:
            truth = truth_of(session)
            compared = [name for name in truth if name == "models" or name.endswith("_tokens")]
            assert {name: rows[session_id][name] for name in compared} == {
                name: truth[name] for name in compared
            }


def test_the_cost_equals_the_cost_that_the_program_printed_at_its_end(rows: dict[str, Row]) -> None:
    """A resumed session prints the sum of all its runs; one that was killed prints nothing."""
    compared = 0
    for session in TRUTH:
        printed = (session["runs"][-1].get("result") or {}).get("total_cost_usd")
        if printed is not None:
            row = rows[session["session_ids"][0]]
            assert row["cost_usd"] == pytest.approx(printed, abs=1e-6)
            compared += 1
    assert compared == 14


# -- calculations by hand --------------------------------------------------------------------------
# Raw values are from the records of the capture, in the order they were sent.

BY_HAND: dict[str, dict[str, float | None]] = {
    # 4 tool_result, all success "true"; 1 user_prompt; 5 api_request with
    #   input          12 +     7 +     5 +     6 +     6 =     36
    #   output         85 +    61 +   133 +    72 +    41 =    392
    #   cache read      0 + 15234 + 15644 + 15944 + 16154 =  62976
    #   cache creation      15234 + 410 + 300 + 210 + 120 =  16274    together 79678
    #   cost  0.0584385 + 0.0070437 + 0.0078282 + 0.0066687 + 0.0059292 = 0.0859083
    # from 21:03:52.668 to 21:03:53.869: 1.201 s, so the minute counts as one.
    "69f7cc18-63ff-4845-9b92-b41477e9aa18": {
        "quality": 10.0,  # 4 / 4 * 10
        "autonomy": 8.0,  # 4 / 1 * 2
        "productivity": 10.0,  # 4 / 1 * 10 = 40
        "token_efficiency": 7.903813,  # 62976 / 79678 * 10
        "cost_efficiency": 7.8522925,  # 10 - 0.0859083 / 4 * 100 = 10 - 2.1477075
        # 0.30 * 10 + 0.25 * 8 + 0.20 * 10 + 0.15 * 7.903813 + 0.10 * 7.8522925
        # = 3 + 2 + 2 + 1.18557195 + 0.78522925
        "composite": 8.970801,
    },
    # 6 tool_result, all success "false" (the schema error of the seventh call left none);
    # 1 user_prompt; 8 api_request with
    #   input          9 + 7 * 6 = 51
    #   output         40 + 50 + 5 * 35 + 20 = 285
    #   cache read     14800 + 14920 + 15010 + 15100 + 15190 + 15280 + 15370 = 105670
    #   cache creation 14800 + 120 + 6 * 90 = 15460                            together 121466
    #   cost  0.056127 + 0.005658 + 0.0053565 + 0.0053835 + 0.0054105 + 0.0054375 + 0.0054645
    #         + 0.0052665 = 0.094104
    "7bb7b977-7d04-4c0d-a9ba-e17b412b37c2": {
        "quality": 0.0,  # 0 / 6 * 10
        "autonomy": 10.0,  # 6 / 1 * 2 = 12
        "productivity": 0.0,  # 0 / 1 * 10
        "token_efficiency": 8.699554,  # 105670 / 121466 * 10
        "cost_efficiency": 0.5896,  # 10 - 0.094104 / max(0, 1) * 100
        # 0.25 * 10 + 0.15 * 8.699554 + 0.10 * 0.5896 = 2.5 + 1.3049331 + 0.05896
        "composite": 3.863893,
    },
    # Claude Code 2.0.30: 4 tool_result, all "true"; 1 user_prompt; 7 api_request, each with "0"
    # input and cache tokens in addition to 12 + 12 + 85 + 61 + 133 + 72 + 41 = 416 output tokens,
    # so the input is unknown; cost
    #   0.00006 + 0.00018 + 0.001275 + 0.000915 + 0.001995 + 0.00108 + 0.000615 = 0.00612
    "97263027-c850-4b2e-94b5-31d2aecb378b": {
        "quality": 10.0,  # 4 / 4 * 10
        "autonomy": 8.0,  # 4 / 1 * 2
        "productivity": 10.0,  # 4 / 1 * 10 = 40
        "token_efficiency": None,
        "cost_efficiency": 9.847,  # 10 - 0.00612 / 4 * 100 = 10 - 0.153
        # 0.30 * 10 + 0.25 * 8 + 0.20 * 10 + 0.10 * 9.847 = 7.9847, of weights 0.85 in all:
        # 7.9847 / 0.85
        "composite": 9.393765,
    },
}


@pytest.mark.parametrize("session_id", BY_HAND)
def test_the_dimensions_are_those_worked_out_by_hand(rows: dict[str, Row], session_id: str) -> None:
    row, by_hand = rows[session_id], BY_HAND[session_id]
    assert {name: row[name] for name in by_hand} == pytest.approx(by_hand, abs=5e-7)
    assert row["partial"] is (by_hand["token_efficiency"] is None)
    assert row["reason"] == ("tokens unknown" if row["partial"] else None)


def test_the_recommendations_follow_from_the_printed_decimal(rows: dict[str, Row]) -> None:
    recommendations = {session_id: rows[session_id]["recommendation"] for session_id in BY_HAND}
    assert list(recommendations.values()) == ["keep", "doff", "keep"]
