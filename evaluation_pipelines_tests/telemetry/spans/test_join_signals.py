"""Logs and spans of one run give the numbers of the logs, with what only the spans have."""

import json
from collections.abc import Sequence
from functools import cache

import polars as pl
import pytest

from evaluation_pipelines.telemetry.domain.dialects.transcript import TRANSCRIPT
from evaluation_pipelines.telemetry.domain.spans import IS_TRANSCRIPT, SPAN_COLUMNS, join_signals
from evaluation_pipelines_tests.telemetry.spans.captured import (
    FOLDER,
    assembled,
    read,
    requests,
    single_spans,
    told,
)

End = tuple[int, bool, int | None]


@cache
def both(source: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the events of the logs and of the spans of a program."""
    logs = (FOLDER / source / "logs.jsonl").read_bytes().splitlines()
    return read(logs).events, assembled(read(requests(source)).events)


@pytest.mark.parametrize("source", ["claude-code", "gemini-cli"])
def test_a_call_in_logs_and_spans_counts_once(source: str) -> None:
    """The logs have every call of both programs: by id, or by name and time (Gemini CLI)."""
    logs, spans = both(source)
    joined = join_signals(pl.concat([spans, logs]))
    assert joined.dropped == {"also in the logs": spans.height}
    for (session_id,), of_logs in logs.group_by("session_id"):
        found = told(joined.events.filter(session_id=session_id))
        assert {**found, "agents": []} == {**told(of_logs), "agents": []}


def test_logs_are_completed_by_spans() -> None:
    """Who did it, where in the trace, and the result that only the span has."""
    logs, spans = both("claude-code")
    joined = join_signals(pl.concat([logs, spans])).events
    of_agent = joined.filter(pl.col("subagent") == "general-purpose")
    kinds = dict(of_agent["event_name"].value_counts().iter_rows())
    assert kinds == {"api_request": 3, "tool_result": 2, "other": 1}
    results = joined.filter(event_name="tool_result")
    assert results["span_id"].null_count() == 0
    # Two edits have a result and no parameters: the log's parameters count more.
    with_text = spans.filter(event_name="tool_result", has_content=True, has_parameters=True)
    texts = joined.join(with_text, on=["event_id", "source_file_id", "source_offset"], how="semi")
    assert texts.height == with_text.height == 7


def call_in_both(**of_log: object) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the log and the span of a call; ``of_log`` are other values of the log."""
    span = read(requests("copilot-cli")).events.filter(event_name="api_request").head(1)
    span = span.with_columns(request_id=pl.lit("r"), cost_source=pl.lit("priced"))
    log = span.with_columns(pl.lit(None).alias(name) for name in SPAN_COLUMNS)
    return log.with_columns(**{name: pl.lit(value) for name, value in of_log.items()}), span


def test_tokens_and_cost_are_of_the_signal_that_knows_the_cached_ones() -> None:
    """The log of a call has all input; its span has 30 of it uncached, 70 cached, and a price."""
    names = ("input_tokens", "cache_read_tokens", "cache_creation_tokens", "cost_usd")
    log, span = call_in_both(**dict(zip(names, (100, None, None, None), strict=True)))
    span = span.with_columns(**dict(zip(names, map(pl.lit, (30, 70, 0, 0.1)), strict=True)))
    joined = join_signals(pl.concat([log, span], how="vertical_relaxed")).events
    assert joined.select(names).rows() == [(30, 70, 0, 0.1)]


@pytest.mark.parametrize(
    ("log_id", "span_ids", "calls"),
    [
        ("r", ["r"], 1),
        (None, ["r"], 1),
        ("other", ["r"], 2),  # the log of another call
        (None, ["r", "r2"], 2),  # one log is not that of both
        ("r2", ["r", "r2"], 2),
    ],
)
def test_a_log_is_that_of_one_span_by_id_or_by_time(
    log_id: str | None, span_ids: list[str], calls: int
) -> None:
    log, span = call_in_both(request_id=log_id, sequence=7)
    spans = [
        span.with_columns(request_id=pl.lit(span_id), span_id=pl.lit(span_id))
        for span_id in span_ids
    ]
    joined = join_signals(pl.concat([log, *spans], how="vertical_relaxed")).events
    assert joined.height == calls
    assert joined.filter(sequence=7).height == 1


@pytest.mark.parametrize(
    ("logs", "lines", "joined"),
    [
        # The exit code decides, whether or not the transcript reports the same.
        ([(0, True, None)], [(0, False, 3)], [(0, False, 3)]),
        # An exit code of 0 does not make a failed call good.
        ([(0, False, None)], [(0, True, 0)], [(0, False, 0)]),
        # The nearest line has the end of the other call.
        (
            [(0, True, None), (1, False, None)],
            [(0, False, 3), (1, True, 0)],
            [(0, True, 0), (1, False, 3)],
        ),
        # Only one log can be that of the call without an exit code.
        (
            [(0, True, None), (1, False, None)],
            [(1, False, 3), (2, False, None)],
            [(0, False, 3), (1, False, None)],
        ),
    ],
)
def test_a_call_in_telemetry_and_transcripts_has_one_end(
    logs: Sequence[End], lines: Sequence[End], joined: Sequence[End]
) -> None:
    """Without ids of calls: second of the call, success, exit code."""
    call = both("gemini-cli")[0].filter(event_name="tool_result").head(1)
    events = [
        call.with_columns(
            pl.col("event_time").dt.offset_by(f"{second}s"),
            source_event_name=pl.lit(source),
            success=pl.lit(success),
            success_source=pl.lit("reported"),
            exit_code=pl.lit(code, pl.Int64),
            duration_ms=pl.lit(float(second) if source == "tool_call" else None, pl.Float64),
        )
        for source, ends in (("tool_call", logs), (TRANSCRIPT, lines))
        for second, success, code in ends
    ]
    found = join_signals(pl.concat(events, how="vertical_relaxed"), IS_TRANSCRIPT).events
    assert found.select("duration_ms", "success", "exit_code").rows() == joined


def test_each_signal_alone_counts_and_so_does_what_one_of_both_missed() -> None:
    """Without the logs of the first call and tool, their spans count."""
    logs, spans = both("claude-code")
    assert join_signals(logs).events.equals(logs)
    assert join_signals(spans).events.equals(spans)
    session = spans.filter(event_name="tool_result").sort("event_time")["session_id"][0]
    some = logs.filter(session_id=session).sort("event_time")
    names = pl.col("event_name").is_in(["api_request", "tool_result"])
    first = some.filter(names).unique("event_name", keep="first", maintain_order=True)
    rest = some.join(first, on="event_id", how="anti")
    joined = join_signals(pl.concat([rest, spans.filter(session_id=session)])).events
    assert told(joined)["tokens"] == told(some)["tokens"]
    assert joined.filter(names).height == some.filter(names).height


def test_calls_of_one_model_at_one_time_are_as_many_as_the_logs_have() -> None:
    """Without ids each span has at most one log, the nearest."""
    logs, spans = both("gemini-cli")
    calls = logs.filter(event_name="api_request")
    sooner = calls.head(1).with_columns(pl.col("event_time").dt.offset_by("-1h"))
    joined = join_signals(
        pl.concat([logs.filter(pl.col("event_name") != "api_request"), sooner, spans])
    )
    assert (
        joined.events.filter(event_name="api_request").height
        == 1 + spans.filter(event_name="api_request").height
    )


@pytest.mark.parametrize("left_out", [{"gen_ai.input.messages"}, {"gen_ai.response.id"}])
def test_calls_of_copilot_that_are_logged_too_count_once(left_out: set[str]) -> None:
    """Its conversations with the record that the conventions have for a call: that of its span.

    By id, or by model and time: no conversation takes the record of another.
    """
    lines = []
    for sent in single_spans(requests("copilot-cli")):
        ((resource,), (scope,)) = sent["resourceSpans"], sent["resourceSpans"][0]["scopeSpans"]
        (span,) = scope["spans"]
        if span["name"].startswith("chat "):
            name = {"stringValue": "gen_ai.client.inference.operation.details"}
            pairs = [pair for pair in span["attributes"] if pair["key"] not in left_out]
            record = {
                "timeUnixNano": span["endTimeUnixNano"],
                "attributes": [{"key": "event.name", "value": name}, *pairs],
            }
            entry = {"resource": resource["resource"], "scopeLogs": [{"logRecords": [record]}]}
            lines.append(json.dumps({"resourceLogs": [entry]}).encode())
    spans, logs = assembled(read(requests("copilot-cli")).events), read(lines).events
    joined = join_signals(pl.concat([logs, spans]))
    calls = spans.filter(pl.col("span_role") == "call")
    assert joined.dropped["also in the logs"] >= logs.height == calls.height == 16
    for (session_id,), of_spans in spans.group_by("session_id"):
        assert told(joined.events.filter(session_id=session_id)) == told(of_spans)


def test_a_cost_that_the_log_sent_stays() -> None:
    names = ("input_tokens", "cache_read_tokens", "cache_creation_tokens", "cost_usd")
    log, span = call_in_both(**dict(zip(names, (100, None, None, 0.5), strict=True)))
    span = span.with_columns(**dict(zip(names, map(pl.lit, (30, 70, 0, 0.1)), strict=True)))
    joined = join_signals(pl.concat([log, span], how="vertical_relaxed")).events
    assert joined.select(names).rows() == [(30, 70, 0, 0.5)]
