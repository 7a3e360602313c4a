"""Objects of the JavaScript SDK, and other forms than OTLP that are named in quarantine."""

import json
from typing import Any

import pytest

from evaluation_pipelines_tests.telemetry.domain.reading import read, read_one
from evaluation_pipelines_tests.world import NOON_NS, attributes, claude, line

SENT = {
    "event.name": "gemini_cli.tool_call",
    "session.id": "s",
    "function_name": "glob",
    "success": True,
    "duration_ms": 20,
    "interactive": False,
    "ratio": 0.5,
    "experiments.ids": [1, "a"],
    "metadata": {"exitCode": 3},
}
WHO = {"service.name": "gemini-cli", "service.version": "v24.0.0"}
OTLP = {
    "resourceLogs": [
        {
            "resource": {"attributes": attributes(WHO)},
            "scopeLogs": [
                {
                    "scope": {"name": "gemini-cli"},
                    "logRecords": [
                        {
                            "timeUnixNano": str(NOON_NS + 5),
                            "observedTimeUnixNano": str(NOON_NS + 7),
                            "body": {"stringValue": "Tool call: glob."},
                            "attributes": [
                                *attributes({k: v for k, v in SENT.items() if k != "metadata"}),
                                {
                                    "key": "metadata",
                                    "value": {
                                        "kvlistValue": {
                                            "values": attributes({"exitCode": 3}),
                                        }
                                    },
                                },
                            ],
                        }
                    ],
                }
            ],
        }
    ]
}
NOON_S = NOON_NS // 10**9


def sdk(**fields: Any) -> dict[str, Any]:
    """A log record as the SDK holds it; ``None`` leaves a field out."""
    record = {
        "hrTime": [NOON_S, 5],
        "hrTimeObserved": [NOON_S, 7],
        "instrumentationScope": {"name": "gemini-cli"},
        "attributes": SENT,
        "resource": {"attributes": WHO},
        "body": "Tool call: glob.",
        **fields,
    }
    return {name: value for name, value in record.items() if value is not None}


@pytest.mark.parametrize(
    "record",
    [
        sdk(),
        sdk(body=None, _body="Tool call: glob.", _isReadonly=True, _logRecordLimits={}),
        sdk(resource={"_rawAttributes": [*map(list, WHO.items()), ["service.name", "late"]]}),
        sdk(resource={"_attributes": WHO}, spanContext={"traceId": "0" * 32}, severityNumber=9),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_record_of_the_sdk_is_the_event_that_otlp_would_give(
    record: dict[str, Any], indent: int | None
) -> None:
    expected = read_one(json.dumps(OTLP).encode())
    assert read_one(json.dumps(record, indent=indent).encode()) == expected


def test_spans_and_metrics_of_the_sdk_are_counted_and_broken_records_named() -> None:
    span = {"name": "chat", "kind": 0, "startTime": [1, 0], "_spanContext": {}, "attributes": {}}
    metrics = {"resource": {"_rawAttributes": []}, "scopeMetrics": []}
    broken, untimed = sdk(attributes=7), sdk(hrTime="noon", attributes={**SENT, "session.id": "t"})
    batch = read(*(json.dumps(line).encode() for line in (span, metrics, broken, untimed, sdk())))
    assert (batch.counts.skipped, batch.events.height, batch.counts.lines) == (2, 2, 5)
    assert batch.counts.times_observed == 1
    (defect,) = batch.quarantined
    assert defect.reason.startswith("not an OTLP log record: Expected `array")


def documents(*records: dict[str, Any]) -> list[bytes]:
    return [json.dumps(record).encode() for record in records]


def test_equal_records_of_one_time_are_calls_and_those_written_again_are_copies() -> None:
    call, later = sdk(), sdk(hrTime=[NOON_S, 9_000_000])
    span = {"name": "chat", "kind": 0, "startTime": [1, 0], "_spanContext": {}}
    written = documents(call, span, call, later, later, later)
    ids = read(*written).events["event_id"].to_list()
    assert len(set(ids)) == len(ids) == 2 + 3
    # An array and a resent file are the same events; so is what is read in two parts, of which
    # the first ends between equal calls: fewer, and never more.
    assert read(b"[" + b",".join(written) + b"]").events["event_id"].to_list() == ids
    assert read(*written, *written).events["event_id"].to_list() == ids + ids
    for cut in range(len(written)):
        parts = [read(*written[:cut]), read(*written[cut:])]
        found = {event for part in parts for event in part.events["event_id"]}
        assert found <= set(ids)
        assert len(found) == {1: 4, 2: 4, 4: 4, 5: 4}.get(cut, 5)


VECTOR = (
    b'{"attributes":{"event.name":"user_prompt"},"message":"x","resources":{"service.name":"c"},'
    b'"source_type":"opentelemetry","timestamp":"2026-06-01T12:00:00Z"}'
)
GOOD = line(claude("user_prompt"))


@pytest.mark.parametrize(
    ("sent", "program"),
    [
        (VECTOR, "written by Vector in its own form: set use_otlp_decoding"),
        (b"[" + VECTOR + b"]", "written by Vector"),
        (GOOD.decode().strip().encode("utf-16"), "UTF-16, as PowerShell 5 writes"),
        (b"\0" * 50, "a run of NUL bytes, as a crash"),
        (b'{"source": 1}', "neither an OTLP request"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
    ],
)
def test_other_forms_are_named_with_the_setting_that_helps(sent: bytes, program: str) -> None:
    batch = read(GOOD, sent, GOOD)
    (defect,) = batch.quarantined
    assert defect.reason.startswith(program)
    assert batch.events.height == 2


def test_every_record_of_a_mixed_file_ends_in_one_number() -> None:
    """Good records next to bad ones: none of either is lost or counted twice."""
    many = claude("user_prompt", 1, **{f"k{n}": n for n in range(100)})
    half = GOOD.strip()[:300]
    batch = read(
        line(claude("user_prompt"), {"attributes": 7}, claude("user_prompt", 2)),  # 2 events, 1 bad
        line(many),  # 1 bad: 103 attributes, the limit is 100
        line(claude("user_prompt", 3, session__id="")),  # 1 without a session
        half + GOOD.strip() + VECTOR,  # 1 bad, 1 event, 1 bad
        json.dumps(sdk()).encode() + json.dumps(OTLP).encode(),  # 2 events, the same one twice
        b'{"resourceSpans": []}{"resourceMetrics": []}',  # 1 skipped
        b'{"session_id": "s", "masque": "M", "donned_at": "2026-06-01T11:00:00Z"}',  # 1 event
        line(claude("x"))
        .replace(b"com.anthropic.claude_code.events", b"x")
        .replace(b"claude_code.x", b"x"),  # 1 unknown
        b"not JSON",  # 1 bad
    )
    counts = batch.counts
    assert (counts.events, counts.quarantined, counts.skipped) == (6, 5, 1)
    assert (counts.unattributed, counts.unknown_records, counts.attribution_lines) == (1, 1, 1)
    assert counts.lines == 6 + 3 + 2 + 2  # nine lines, of which three have 3, 2 and 2 requests
    # The first prompt and the tool call are there twice.
    assert batch.events["event_id"].n_unique() == 6 - 2
