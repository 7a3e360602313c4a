"""Tool reports of genuine sessions, compared with the model server and worked out by hand."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.build import Build, DateBuilt, DateFailed
from evaluation_pipelines.schemas import AGENT_SESSIONS, TOOL_REPORTS
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.find import SessionName, find_report
from evaluation_pipelines_tests.sessions.domain.tool_reports import reference
from evaluation_pipelines_tests.telemetry.captures import CLIS, Capture
from evaluation_pipelines_tests.workplace import Workplace, open_workplace
from evaluation_pipelines_tests.world import NOON_NS, any_value, claude, line, request

Reports = dict[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """A lake with all captures."""
    with open_workplace(tmp_path_factory.mktemp("genuine")) as workplace:
        for cli in CLIS:
            workplace.land(f"{cli}.jsonl", Capture(cli).file("as sent").read_bytes())
        workplace.ingest()
        assert all(isinstance(result, DateBuilt) for result in workplace.build())
        yield workplace


@pytest.fixture(scope="module")
def reports(genuine: Workplace) -> Reports:
    """The reports of the captures by session id."""
    frame = genuine.lake.read(TOOL_REPORTS, genuine.lake.partitions(TOOL_REPORTS))
    return {row["session_id"]: row for row in frame.iter_rows(named=True)}


def listed(report: Mapping[str, Any], name: str, *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(row[field] for field in fields) for row in report[name]]


# -- the model server ----------------------------------------------------------------------------


def as_the_server_saw_it(session: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a session with the parameters that the model sent."""
    classes = {"Edit": "edit", "Write": "write", "edit": "edit", "replace": "edit"}
    return [
        {
            "position": number,
            "kind": "call",
            "outcome": call["result"],
            "tool": call["name"],
            "tool_class": classes.get(call["name"], "edit" if "patch" in call["name"] else "other"),
            # Agents log plain-text input as a single parameter.
            "parameters": json.dumps(
                call["input"] if isinstance(call["input"], dict) else {"input": call["input"]}
            ),
            "prompt": "p",
            "said": None,
            "has_content": False,
        }
        for number, call in enumerate(session["tool_calls"])
    ]


COMPARED = {
    "claude_code": "fix_greeting stream_json_three error_mid_session odd_text_raw_bodies compacted"
    " fallback_model v21197_fix",
    "codex": "fix_greeting tool_failures errors_then_ok compaction v0104_fix v058_fix",
    "gemini_cli": "fix_greeting errors_then_ok auto_routing",
    "qwen_code": "fix_greeting tool_failures errors_then_ok subagent mcp_odd_text v01510_fix",
}
"""Sessions whose telemetry has the same calls as the server, with their parameters."""


@pytest.mark.parametrize("cli", CLIS)
def test_repeats_loops_and_corrections_are_those_of_the_calls_that_the_server_saw(
    cli: str, reports: Reports
) -> None:
    compared = []
    for session in Capture(cli).truth:
        (session_id,) = session["session_ids"]
        report = reports.get(session_id)
        results = [call["result"] for call in session["tool_calls"]]
        if report is None or report["calls_with_parameters"] != len(results):
            continue  # telemetry shows other calls than the server, or not their parameters
        counts = (results.count("ok") + results.count("failed"), results.count("failed"))
        if (report["total_calls"], report["failed_calls"]) != counts:
            continue  # documented: see the golden tests
        expected = reference.report(as_the_server_saw_it(session))
        found = {repeat["call"]: repeat["original"] for repeat in report["repeats"]}
        assert found == {number: original for number, (original, _) in expected["repeats"].items()}
        assert listed(report, "loops", "first_call", "last_call") == expected["loops"]
        assert (
            dict(listed(report, "corrections", "call", "corrected_by")) == expected["corrections"]
        )
        assert report["effectiveness_score"] == pytest.approx(expected["effectiveness_score"])
        compared.append(session["label"])
    assert compared == COMPARED[cli].split()


# -- by hand -------------------------------------------------------------------------------------


def test_codex_checks_four_times_and_fails_four_times(reports: Reports) -> None:
    """Tool by tool, with its outcome.

    1-4 exec_command "make check" failed; 5 apply_patch failed; 6 no_such_tool failed; 7 view_image
    failed; 8 exec_command "kill -9 $$", 9 "exit 7", 10 {"wrong": 1} failed; 11 "sleep 5; ..." ok.
    """
    report = reports["01a1fff1-058a-7a22-b650-3d3fbe10a8dd"]

    assert (report["total_calls"], report["failed_calls"]) == (11, 10)
    assert listed(report, "repeats", "call", "original", "similarity", "distance") == [
        (2, 1, 1.0, 1),
        (3, 1, 1.0, 2),
        (4, 1, 1.0, 3),
    ]
    assert listed(report, "loops", "first_call", "last_call", "calls", "tool") == [
        (1, 4, 4, "exec_command")
    ]
    assert (report["repeated_calls"], report["looping_calls"]) == (3, 4)
    # The one that succeeded is of the tool that failed in calls 8 to 10.
    assert report["corrections"] == []
    # 100 * (1 - 10 / 11): a failed call that repeats counts once.
    assert report["effectiveness_score"] == pytest.approx(100 / 11)
    assert report["is_flagged"]
    # Codex logs results and no replies: one may have used what call 11 printed.
    assert (report["wasted_calls"], report["unknown"]) == (None, ["wasted"])
    assert listed(report, "untraced", "call") == [(11,)]


def test_claude_reads_one_file_three_times(reports: Reports) -> None:
    report = reports["75d72f58-7b0d-43a6-bda1-b87fb90f0740"]

    assert listed(report, "repeats", "call", "original", "tool") == [(2, 1, "Read"), (3, 1, "Read")]
    # Two repeats of three calls: 100 * (1 - (0.5 + 0.5) / 3)
    assert report["effectiveness_score"] == pytest.approx(200 / 3)
    # Each read gave back the 168 bytes of the file: (168 * 0.5 + 168 * 0.5) / 4
    assert report["lost_tokens"] == pytest.approx(42.0)


def test_claude_without_details_only_shows_what_failed(reports: Reports) -> None:
    """Six failures whose parameters were not logged: the loop cannot be seen."""
    report = reports["7bb7b977-7d04-4c0d-a9ba-e17b412b37c2"]

    assert (report["failed_calls"], report["effectiveness_score"]) == (6, 0.0)
    assert (report["loops"], report["repeats"], report["lost_tokens"]) == (None, None, None)
    assert report["unknown"] == ["corrected", "loops", "repeated", "wasted"]


# -- the table -----------------------------------------------------------------------------------


def test_every_window_with_a_call_has_one_report_and_no_other(
    genuine: Workplace, reports: Reports
) -> None:
    windows = {
        row["session_id"]
        for row in genuine.sessions().iter_rows(named=True)
        if row["total_tools"] + row["tools_denied"] + row["tools_unknown"] > 0
    }

    assert reports.keys() == windows


def test_a_report_that_counts_other_calls_than_the_session_is_not_published(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with open_workplace(tmp_path_factory.mktemp("broken")) as workplace:
        result = {"tool_name": "Read", "success": "true"}
        workplace.land(
            "logs.jsonl", line(claude("user_prompt"), claude("tool_result", 1, **result))
        )
        workplace.ingest()
        workplace.build()
        (day,) = workplace.lake.partitions(AGENT_SESSIONS)
        sessions = workplace.lake.read(AGENT_SESSIONS, [day]).with_columns(
            total_tools=pl.lit(2, pl.Int64)
        )
        workplace.lake.write(sessions, AGENT_SESSIONS, day)
        (failed,) = Build(workplace.stores, ("tool_reports",)).run([day])

    assert isinstance(failed, DateFailed)
    assert "calls_add_up: expected 2 calls" in failed.error


# -- one session ---------------------------------------------------------------------------------

READ_THREE_TIMES = "75d72f58-7b0d-43a6-bda1-b87fb90f0740"


@pytest.mark.parametrize("name", [READ_THREE_TIMES, f"{READ_THREE_TIMES}#baseline-1"])
def test_a_report_is_found_by_key_and_by_id(genuine: Workplace, name: str) -> None:
    assert find_report(genuine.stores, SessionName(name))["repeated_calls"] == 2


def test_a_session_without_tool_calls_has_no_report(genuine: Workplace) -> None:
    with pytest.raises(SessionNotFoundError, match="it made no tool call"):
        find_report(genuine.stores, SessionName("6747efea-76a5-4f49-bc13-322b873d7c25"))


PROMPT, REPLY = "What is the weather in Paris?", "There is drizzle in Paris."
PARIS, OSLO = "Paris: 18 C, light drizzle", "Oslo: blizzard"
CALL = "client.inference.operation.details"


def value_of(value: Any) -> dict[str, Any]:
    """Return an AnyValue of a dictionary or a list at any depth."""
    if isinstance(value, dict):
        pairs = [{"key": name, "value": value_of(item)} for name, item in value.items()]
        return {"kvlistValue": {"values": pairs}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [value_of(item) for item in value]}}
    return any_value(value)


def record(name: str, second: int, body: Any = None, **values: Any) -> dict[str, Any]:
    """Return a log record of the session ``c``; ``__`` in a name stands for a dot."""
    named = {f"gen_ai.{key.replace('__', '.')}": value for key, value in values.items()}
    sent = {"gen_ai.conversation.id": "c", "gen_ai.system": "openai", **named}
    return {
        "timeUnixNano": str(NOON_NS + second * 10**9),
        "eventName": f"gen_ai.{name}",
        "attributes": [{"key": key, "value": value_of(value)} for key, value in sent.items()],
        **({"body": value_of(body)} if body else {}),
    }


def message_events() -> list[dict[str, Any]]:
    """Return an event per message, as up to 1.36 of the conventions."""

    def asks(second: int, call_id: str, city: str) -> dict[str, Any]:
        function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
        call = {"id": call_id, "type": "function", "function": function}
        return record("choice", second, {"index": 0, "message": {"tool_calls": [call]}})

    return [
        record("user.message", 0, {"content": PROMPT}),
        asks(1, "t1", "Paris"),
        record("tool.message", 2, {"id": "t1", "content": PARIS}),
        asks(3, "t2", "Oslo"),
        record("tool.message", 4, {"id": "t2", "content": OSLO}),
        record("choice", 5, {"index": 0, "message": {"content": REPLY}}),
    ]


def calls_with_messages(*, as_text: bool) -> list[dict[str, Any]]:
    """Return an event per call of the model with all messages, as since 1.37."""

    def message(role: str, kind: str, **values: Any) -> dict[str, Any]:
        return {"role": role, "parts": [{"type": kind, **values}]}

    def asks(call_id: str, city: str) -> dict[str, Any]:
        arguments = {"city": city}
        return message(
            "assistant", "tool_call", id=call_id, name="get_weather", arguments=arguments
        )

    first = [message("user", "text", content=PROMPT)]
    second = [
        *(*first, asks("t1", "Paris")),
        message("tool", "tool_call_response", id="t1", response=PARIS),
    ]
    third = [
        *(*second, asks("t2", "Oslo")),
        message("user", "tool_call_response", id="t2", response=OSLO),
    ]
    answers = (asks("t1", "Paris"), asks("t2", "Oslo"), message("assistant", "text", content=REPLY))
    return [
        record(
            CALL,
            at,
            operation__name="chat",
            input__messages=json.dumps(given) if as_text else given,
            output__messages=json.dumps([answer]) if as_text else [answer],
        )
        for at, (given, answer) in enumerate(zip((first, second, third), answers, strict=True))
    ]


@pytest.mark.parametrize(
    ("records", "tool", "unknown"),
    [
        (message_events(), "(unnamed)", ["corrected", "loops", "repeated"]),
        (calls_with_messages(as_text=True), "get_weather", []),
        (calls_with_messages(as_text=False), "get_weather", []),
    ],
    ids=["events of messages", "messages as text", "messages as values"],
)
def test_wasted_calls_are_known_where_results_and_replies_are_logged(
    workplace: Workplace, records: list[dict[str, Any]], tool: str, unknown: list[str]
) -> None:
    sent = json.dumps(request(records, {"service.name": "mine"}, scope="mine")).encode() + b"\n"
    workplace.land("a.jsonl", sent)
    workplace.land("b.jsonl", sent)  # sent again: the same calls
    workplace.ingest()
    workplace.build()
    lake = workplace.lake
    (report,) = lake.read(TOOL_REPORTS, lake.partitions(TOOL_REPORTS)).to_dicts()

    # Messages do not say whether a call succeeded: it is in no total, and there is no score.
    assert (report["total_calls"], report["unknown_calls"]) == (0, 2)
    assert report["effectiveness_score"] is None
    # The reply uses "drizzle" of the first result, and nothing uses "blizzard" of the second one.
    assert [(call["call"], call["tool"]) for call in report["wasted"]] == [(2, tool)]
    assert (report["wasted_calls"], report["results_logged"]) == (1, 2)
    assert report["unknown"] == unknown
