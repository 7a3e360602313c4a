"""Captured spans, in the ways they can arrive, and what an independent reference reads in them."""

import json
from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evaluation_pipelines.telemetry.domain.dialects.registry import DIALECTS
from evaluation_pipelines.telemetry.domain.events import Clock
from evaluation_pipelines.telemetry.domain.reader import EventBatch, EventReader
from evaluation_pipelines.telemetry.domain.shapes import Origin
from evaluation_pipelines.telemetry.domain.spans import assemble, trace_sessions
from evaluation_pipelines_tests.telemetry.domain.reading import OnePrice

FOLDER = Path(__file__).parents[2] / "data" / "spans"
UNREAD = "codex-cli"
SOURCES = sorted(path.parent.name for path in FOLDER.glob("*/expected.json"))
_NEW_YEAR_2027_US = 1_798_761_600_000_000

Request = dict[str, Any]


@cache
def requests(source: str) -> tuple[bytes, ...]:
    """Return the export requests of a source, in the order of arrival."""
    return tuple((FOLDER / source / "traces.jsonl").read_bytes().splitlines())


def expected(source: str) -> dict[str, dict[str, Any]]:
    """Return what the reference reads, by session."""
    found = json.loads((FOLDER / source / "expected.json").read_text())
    sessions = dict(found["sessions_without_truth"])
    for session in found["truth_sessions"]:
        sessions |= session["sessions"]
    return sessions


def single_spans(lines: Iterable[bytes]) -> list[Request]:
    """Return a request for each span."""
    found = []
    for line in lines:
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    alone = {"scope": scope.get("scope"), "spans": [span]}
                    sent = {"resource": resource.get("resource"), "scopeSpans": [alone]}
                    found.append({"resourceSpans": [sent]})
    return found


def in_protobuf(line: bytes) -> bytes:
    """Return a request as SDKs send it by default."""
    message = json.loads(line, object_hook=_with_bytes)
    request = ParseDict(message, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    return bytes(request.SerializeToString())


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    """Write ids as protobuf's own JSON has them, and drop empty texts."""
    for name in ("traceId", "spanId", "parentSpanId"):
        if value.get(name):
            value[name] = b64encode(bytes.fromhex(value[name])).decode()
    return (
        {name: item for name, item in value.items() if item != ""} if "key" not in value else value
    )


def read(lines: Iterable[bytes], **settings: Any) -> EventBatch:
    """Return the batch of some lines, read at the end of the year of the captures."""
    options = {"max_attributes": 1000, **settings}
    clock = Clock(_NEW_YEAR_2027_US, 300_000_000)
    reader = EventReader(dialects=DIALECTS, prices=OnePrice(), clock=clock, **options)
    for offset, line in enumerate(lines):
        reader.read(line, Origin("file", offset))
    return reader.take(0)


def assembled(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the events of spans, each under the session that its trace is filed under."""
    sessions = trace_sessions(rows).select("trace_id", named="session_id")
    events = assemble(rows).events.join(sessions, on="trace_id", how="left")
    return events.with_columns(session_id=pl.coalesce("named", "session_id")).drop("named")


def told(events: pl.DataFrame) -> dict[str, Any]:
    """Return the numbers of a session. To the reference a refused call failed."""
    names = events["event_name"]
    requests = events.filter(names == "api_request")
    calls = events.filter(names == "tool_result")
    denied = calls["success"].is_null() & (calls["decision"] == "reject").fill_null(value=False)
    sums = {
        name: int(requests[column].sum() or 0)
        for name, column in {
            "uncached": "input_tokens",
            "output": "output_tokens",
            "cached": "cache_read_tokens",
            "cache_write": "cache_creation_tokens",
            "reasoning": "reasoning_tokens",
        }.items()
    }
    sums["input_total"] = sums.pop("uncached") + sums["cached"] + sums["cache_write"]
    reported = requests.filter(pl.col("cost_source") == "reported")["cost_usd"].to_list()
    return {
        "prompts": (names == "user_prompt").sum(),
        "tool_calls": calls.height,
        "tool_ok": calls["success"].sum(),
        "tool_failed": calls.filter(~calls["success"].fill_null(value=True) | denied).height,
        "tool_none": (calls["success"].is_null() & ~denied).sum(),
        "api_ok": requests.height,
        "api_failed": (names == "api_error").sum(),
        "tokens": sums,
        "cost_usd": round(float(sum(reported)), 9) if reported else None,
        "models": sorted(events["model_as_sent"].drop_nulls().unique()),
        "tools": dict(sorted(calls["tool_name"].value_counts().iter_rows())),
        "agents": sorted({*events["agent_id"].drop_nulls(), *events["subagent"].drop_nulls()}),
    }
