"""Captured telemetry of agent programs, by both paths and in both encodings, against references.

The references: a plain-Python implementation (``expected.json``), the model server that the
sessions ran against (``truth.json``), and calculations by hand. A fourth one is in
``test_golden_paths.py``.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.build import DateBuilt
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines.sessions.domain.performance import WEIGHTS
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines_tests.telemetry.captures import (
    CLIS,
    FORMS,
    Capture,
    Row,
    answered_calls,
    differences,
    stateless,
    stored,
)
from evaluation_pipelines_tests.workplace import Workplace, open_workplace

EACH = pytest.mark.parametrize("cli", CLIS)
ENCODINGS = ("as sent", "by a collector")
Rows = dict[str, dict[str, Row]]
"""Program -> session id -> session."""

NOT_ALL_LOGGED = {
    # Claude Code 2.0.30 omits auxiliary calls and all input tokens.
    "97263027-c850-4b2e-94b5-31d2aecb378b",
    # Gemini CLI stopped in a loop before two calls were logged, or wrote to another file.
    *("04702163-0b96-4feb-a7fb-b51f7f8b0ab8", "b01f0b59-0eda-4b61-9cf3-ed13bdf7f0e5"),
}
EMPTY_ANSWER = "e9c5fee4-31c5-4043-9508-953f240c4400"
"""Gemini CLI logs no tokens for one."""
NO_ANSWER = "01a1fff1-2028-7070-8e6b-0f211c86731a"
"""The server refused every try of the only call of Codex."""


@pytest.fixture(scope="module", params=ENCODINGS)
def lake(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workplace]:
    """Yield a workplace with one encoding of all captures, ingested and built."""
    with open_workplace(tmp_path_factory.mktemp("golden")) as workplace:
        for cli in CLIS:
            workplace.land(f"{cli}.jsonl", Capture(cli).file(request.param).read_bytes())
        counts = workplace.ingest().counts
        assert (counts.quarantined, counts.value_anomalies) == (0, 0)
        # Codex flushed its metrics once in each of seven runs, outside of any session.
        assert counts.unattributed == 7
        workplace.build()
        yield workplace


@pytest.fixture(scope="module", params=["stateless", "stored"])
def rows(request: pytest.FixtureRequest, lake: Workplace) -> Rows:
    """Return all sessions of one encoding, by one of the two paths."""
    if request.param == "stateless":
        return {cli: stateless(lake.landing.root / f"{cli}.jsonl") for cli in CLIS}
    found = stored(lake)
    return {
        cli: {name: row for name, row in found.items() if row["source_cli"] == cli} for cli in CLIS
    }


# -- the reference -------------------------------------------------------------------------------


def as_reference(row: Row) -> dict[str, Any]:
    """Return a row with the fields of the reference, which has the prices of Claude Code alone."""
    same = (
        "prompts api_requests api_errors input_tokens output_tokens cache_read_tokens"
        " cache_creation_tokens total_tokens tools_ok tools_failed tools_denied total_tools models"
    ).split()
    cost, dimensions = None, None
    if row["source_cli"] == "claude_code":
        cost = round(row["cost_usd"], 7)
        scores = {name: None if row[name] is None else round(row[name], 6) for name in WEIGHTS}
        if row["composite"] is not None:
            scores["composite"] = round(row["composite"], 6)
        dimensions = scores if row["scorable"] else None
    return {
        **{name: row[name] for name in same},
        "cli": row["source_cli"],
        "masques": [] if row["masque"] is None else [row["masque"]],
        "active_s": round(row["active_s"], 6),
        "cost_usd": cost,
        "dimensions": dimensions,
    }


@EACH
def test_every_field_of_every_session_equals_the_reference(rows: Rows, cli: str) -> None:
    found = {session_id: as_reference(row) for session_id, row in rows[cli].items()}
    assert found == Capture(cli).expected["sessions"]


# -- the model server ----------------------------------------------------------------------------


@EACH
def test_counts_differ_from_the_truth_only_where_documented(rows: Rows, cli: str) -> None:
    def by_field(each: dict[str, Any]) -> tuple[str, str]:
        return each["label"], each["field"]

    capture = Capture(cli)
    different = sorted(differences(rows[cli], capture.truth), key=by_field)
    assert different == sorted(capture.expected["differs_from_truth"], key=by_field)


def used(cli: str, usage: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Return the tokens of an answer: input, output, read from the cache, written to it."""
    if cli == "claude_code":
        cached, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        return usage["input_tokens"], usage["output_tokens"], cached, written
    if cli == "codex":
        cached = usage["input_tokens_details"]["cached_tokens"]
        return usage["input_tokens"] - cached, usage["output_tokens"], cached, 0
    if cli == "gemini_cli":
        cached = usage.get("cachedContentTokenCount", 0)
        output = usage["candidatesTokenCount"] + usage.get("thoughtsTokenCount", 0)
        return usage["promptTokenCount"] - cached, output, cached, 0
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return usage["prompt_tokens"] - cached, usage["completion_tokens"], cached, 0


@pytest.mark.parametrize(
    ("cli", "number"), [("claude_code", 16), ("codex", 11), ("gemini_cli", 7), ("qwen_code", 10)]
)
def test_tokens_and_models_are_those_of_the_server_if_all_calls_were_logged(
    rows: Rows, cli: str, number: int
) -> None:
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
    compared = 0
    for session in Capture(cli).truth:
        (session_id,) = session["session_ids"]
        if session_id in (*NOT_ALL_LOGGED, EMPTY_ANSWER):
            continue
        row, calls = rows[cli][session_id], answered_calls(session)
        each = [used(cli, call["usage"]) for call in calls]
        for place, name in enumerate(names):
            assert row[name] == sum(tokens[place] for tokens in each), name
        assert row["models"] == sorted({call["model"] for call in calls})
        compared += 1
    assert compared == number


@pytest.mark.parametrize(
    ("cli", "name"), [("codex", "output_tokens_details"), ("gemini_cli", "thoughtsTokenCount")]
)
def test_the_tokens_spent_on_reasoning_are_those_of_the_server(
    rows: Rows, cli: str, name: str
) -> None:
    for session in Capture(cli).truth:
        (session_id,) = session["session_ids"]
        if session_id not in (*NOT_ALL_LOGGED, EMPTY_ANSWER):
            told = [call["usage"].get(name, 0) for call in answered_calls(session)]
            spent = sum(event["reasoning_tokens"] if cli == "codex" else event for event in told)
            assert (rows[cli][session_id]["reasoning_tokens"] or 0) == spent


def test_versions_are_those_that_ran_and_unknown_calls_those_without_a_result(rows: Rows) -> None:
    for cli in ("codex", "qwen_code"):
        for session in Capture(cli).truth:
            row = rows[cli][session["session_ids"][0]]
            assert row["service_version"] == session["version"]
            if cli == "codex":  # the program was killed during the call
                results = [call["result"] for call in session["tool_calls"]]
                assert row["tools_unknown"] == results.count("none")
    for row in rows["gemini_cli"].values():
        assert (row["service_version"], row["missing_events"]) == (None, None)
        assert row["explicit_end"] is False


@pytest.mark.parametrize(
    ("cli", "number"), [("claude_code", 2), ("codex", 1), ("gemini_cli", 1), ("qwen_code", 1)]
)
def test_sessions_without_an_answer_are_failed_runs_of_the_model_that_was_asked_for(
    rows: Rows, cli: str, number: int
) -> None:
    failed = {
        session["session_ids"][0]: {call["model"] for call in session["api_calls"]}
        for session in Capture(cli).truth
        if not answered_calls(session)
    }
    assert len(failed) == number
    found = {name: rows[cli][name] for name in failed}
    assert {name: {row["model"]} for name, row in found.items()} == failed
    assert {row["status"] for row in found.values()} == {"failed"}


def test_the_cost_equals_the_cost_that_claude_code_printed_at_its_end(rows: Rows) -> None:
    """A resumed session prints the sum of all its runs; one that was killed prints nothing."""
    compared = 0
    for session in Capture("claude_code").truth:
        printed = (session["runs"][-1].get("result") or {}).get("total_cost_usd")
        if printed is not None:
            row = rows["claude_code"][session["session_ids"][0]]
            assert row["cost_usd"] == pytest.approx(printed, abs=1e-6)
            compared += 1
    assert compared == 14


# -- calculations by hand --------------------------------------------------------------------------

# Raw values are from the records of the captures, in the order they were sent.
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
        "composite": 8.970801,  # keep
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
        "composite": 3.863893,  # doff
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
        "composite": 9.393765,  # keep
    },
    # Codex: 4 calls, all good, 1 prompt, 0.4 s: the minute counts as one
    "01a1fff0-ebc1-77e3-9175-5bc0b19c74f5": {
        "quality": 10.0,  # 4 / 4 * 10
        "autonomy": 8.0,  # 4 / 1 * 2
        "productivity": 10.0,  # 4 / 1 * 10 = 40
        "token_efficiency": 7.730046,  # 37248 / 48186 * 10
        "cost_efficiency": 8.032775,  # 10 - 0.078689 / 4 * 100 = 10 - 1.967225
        # 0.30 * 10 + 0.25 * 8 + 0.20 * 10 + 0.15 * 7.730046 + 0.10 * 8.032775
        # = 3 + 2 + 2 + 1.1595069 + 0.8032775
        "composite": 8.962784,
    },
}


@pytest.mark.parametrize("session_id", BY_HAND)
def test_the_dimensions_are_those_worked_out_by_hand(rows: Rows, session_id: str) -> None:
    (row,) = [found[session_id] for found in rows.values() if session_id in found]
    by_hand = BY_HAND[session_id]
    assert {name: row[name] for name in by_hand} == pytest.approx(by_hand, abs=5e-7)
    assert row["partial"] is (by_hand["token_efficiency"] is None)
    assert row["reason"] == ("tokens unknown" if row["partial"] else None)
    assert row["recommendation"] == ("doff" if row["composite"] < 4 else "keep")


# List prices in dollars per million tokens of input, cached input and output; the tokens of each
# call were read off the server's records.
COSTS = {
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
    NO_ANSWER: 0.0,
    # gemini-2.5-pro: 1.25 in, 0.125 from the cache, 10 out
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


@pytest.mark.parametrize("session_id", COSTS)
def test_the_cost_is_the_list_price_worked_out_by_hand(rows: Rows, session_id: str) -> None:
    (row,) = [found[session_id] for found in rows.values() if session_id in found]
    assert row["cost_usd"] == pytest.approx(COSTS[session_id], abs=1e-9)
    assert row["cost_known_calls"] == row["api_requests"] or session_id == EMPTY_ANSWER


# -- what only one program does --------------------------------------------------------------------


def test_each_call_of_codex_has_the_result_that_was_sent_to_the_model(lake: Workplace) -> None:
    """Calls of code mode have other ids: the model saw only the wrapper.

    A program that failed without a call is one itself, with the id that the model saw.
    """
    events = lake.events().filter(source_cli="codex")
    rows = events.filter(event_name="tool_result").to_dicts()
    found = {row["tool_use_id"]: (row["success"], row["exit_code"]) for row in rows}
    expected = {
        call["id"]: (call["result"] == "ok", call.get("exit_code"))
        for session in Capture("codex").truth
        for call in session["tool_calls"]
        if call["result"] != "none" and (call["name"] != "exec" or call["result"] == "failed")
    }
    inner = {key: found.pop(key) for key in found.keys() - expected.keys()}
    assert found == expected
    assert sorted(inner.values()) == [(False, 4), (True, 0)]
    overruled = events.filter(success_source="exit_code")
    # 6 commands of `tool_failures` and the one of code mode that exited with 4
    assert overruled["success"].to_list() == [False] * 7
    assert overruled["service_version"].unique().to_list() == ["0.169.0"]


def test_qwen_code_tells_ends_a_masque_and_a_team_and_its_model_has_no_price(rows: Rows) -> None:
    """One session was killed, and version 0.15 sends no end."""
    found = rows["qwen_code"]
    of_0_15, killed = (
        *("b534b972-ae6d-45c0-a0f0-a6df546c3d35", "11852f7f-cf65-4f58-b3ac-0c9d7d40d125"),
    )
    assert {name for name, row in found.items() if not row["explicit_end"]} == {of_0_15, killed}
    worn = found["e3b97c0e-efb1-4580-b203-c2e3abfdbbab"]
    expected = ("Codesmith", "clean", "platform")
    assert (worn["masque"], worn["attribution"], worn["team_id"]) == expected
    for row in found.values():
        assert row["cost_known_calls"] == 0
        assert row["cost_usd"] == (None if row["api_requests"] else 0.0)


@pytest.mark.parametrize("form", ENCODINGS)
def test_log_lines_of_opencode_without_a_plugin_are_counted_and_none_is_stored(
    workplace: Workplace, form: str
) -> None:
    content = Capture("opencode").file(form).read_bytes()
    attributes = [
        [pair["key"] for pair in record["attributes"]]
        for line in content.splitlines()
        for resource in json.loads(line)["resourceLogs"]
        for record in resource["scopeLogs"][0]["logRecords"]
    ]
    assert attributes == [["fiberId"]] * 416  # else a newer version sends more
    workplace.land("logs.jsonl", content)
    counts = workplace.ingest().counts
    assert (counts.unknown_records, counts.events, counts.quarantined) == (416, 0, 0)
    assert (counts.bytes, counts.lines) == (len(content), 46)
    # Most records have no name; a body of one word is the name.
    assert IngestBatches(workplace.ledger).names() == {
        ("opencode", ""): 395,
        ("opencode", "init"): 11,
        ("opencode", "initialized"): 10,
    }
    assert workplace.build() == []
    assert workplace.landed().is_empty()
    assert workplace.ingest().counts.lines == 0  # the file is read once


@pytest.fixture(scope="module", params=FORMS)
def golden_form(request: pytest.FixtureRequest) -> str:
    """How the telemetry is encoded."""
    return str(request.param)


@pytest.fixture(scope="module")
def golden_lake(golden_form: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """One form, ingested and built."""
    with open_workplace(tmp_path_factory.mktemp("golden")) as workplace:
        workplace.land("logs.jsonl", FORMS[golden_form].read_bytes())
        workplace.ingest()
        (built,) = workplace.build()
        assert isinstance(built, DateBuilt)
        yield workplace


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """Yield a workplace with both forms in one landing folder."""
    with open_workplace(tmp_path_factory.mktemp("both")) as workplace:
        for name, path in FORMS.items():
            workplace.land(f"{name}.jsonl", path.read_bytes())
        workplace.ingest()
        (built,) = workplace.build()
        assert isinstance(built, DateBuilt)
        expected = {"landed": 538, "duplicates": 269, "scored": 14, "partial": 1, "flagged": 1}
        assert {name: built.facts[name] for name in expected} == expected
        yield workplace


def test_the_stateless_score_is_the_stored_one_in_every_column(
    golden_form: str, golden_lake: Workplace
) -> None:
    direct, from_lake = stateless(FORMS[golden_form]), stored(golden_lake)
    assert set(from_lake[next(iter(from_lake))]) == {
        *AGENT_SESSIONS.schema.names(),
        *SESSION_PERFORMANCE.schema.names(),
    }
    assert direct == from_lake


def without_origin(events: pl.DataFrame) -> pl.DataFrame:
    return events.drop("source_file_id", "source_offset")


def test_records_re_encoded_by_a_collector_are_the_same_events(
    golden_lake: Workplace, both: Workplace
) -> None:
    """Ingested together, the two forms have the same result as each alone."""
    assert both.landed().height == 2 * golden_lake.landed().height == 538
    assert without_origin(both.events()).equals(without_origin(golden_lake.events()))
    assert both.sessions().equals(golden_lake.sessions())
    assert both.performance().equals(golden_lake.performance())
