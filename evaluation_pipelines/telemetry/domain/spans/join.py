"""Join two signals of one agent, logs and spans, or telemetry and transcripts: each call is once.

The row of the first signal counts, completed with values that only the second one has.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import polars as pl

from evaluation_pipelines.schemas import TEXT_KEY
from evaluation_pipelines.telemetry.domain.dialects.span_source import ASKED
from evaluation_pipelines.telemetry.domain.dialects.transcript import TRANSCRIPT
from evaluation_pipelines.telemetry.domain.spans.assemble import Assembled

_SESSION = ("organization_id", "session_id")
_TOLERANCE_US = 100_000
"""Difference between the clocks of two signals of one process."""

_BEFORE_TURN_US = 2_000_000
"""Time from a prompt to the span of its turn."""

_WRITTEN_WITHIN_US = 2_000_000
"""Time between an event and its line in a transcript."""

_IS_SPAN = pl.col("trace_id").is_not_null()
IS_TRANSCRIPT = pl.col("source_event_name").str.starts_with(TRANSCRIPT).fill_null(value=False)
"""True for events of transcripts."""

_CALLS, _TOOLS, _PROMPTS, _REPLIES = "call", "tool", "prompt", "reply"
_DECISIONS = "tool_decision"
_KINDS = {
    "api_request": _CALLS,
    "api_error": _CALLS,
    "tool_result": _TOOLS,
    "user_prompt": _PROMPTS,
    "assistant_response": _REPLIES,
}
"""The other events are kinds of their own."""

_ONCE = ("compaction", "api_refusal")
"""Events of the second signal that only count if the first lacks them."""

_FILLED = (
    *("repository", "branch"),
    *("agent_id", "subagent", "prompt_id", "request_id", "tool_use_id", "query_source", "model"),
    *("model_as_sent", "model_variant", "provider", "tool_name"),
    *("exit_code", "decision", "error_type", "duration_ms", "ttft_ms", "output_tokens"),
    *("reasoning_tokens",),
    *("trace_id", "span_id", "parent_span_id", "span_role", "error_event_id"),
)

_END = ("success", "success_source")
"""Columns that depend on the exit code."""

_INPUT = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
_COST = ("cost_usd", "cost_source", "list_price_usd")
"""Columns that depend on the number of cached tokens: all are of the log, or all of the span."""


class _Event(NamedTuple):
    """Columns that decide."""

    row: int
    organization_id: str | None
    session_id: str
    event_name: str
    at: int
    duration_ms: float | None
    trace_id: str | None
    span_id: str | None
    span_role: str | None
    request_id: str | None
    tool_use_id: str | None
    model: str | None
    tool_name: str | None
    decision: str | None
    success: bool | None
    exit_code: int | None
    has_content: bool | None
    is_second: bool
    is_transcript: bool

    @property
    def id(self) -> str | None:
        return self.tool_use_id if _KINDS[self.event_name] is _TOOLS else self.request_id

    @property
    def name(self) -> str | None:
        return self.tool_name if _KINDS[self.event_name] is _TOOLS else self.model

    @property
    def window(self) -> tuple[int, int, int]:
        """Times at which its log can be: the earliest, the most likely, the latest."""
        if self.is_transcript:
            return self.at - _WRITTEN_WITHIN_US, self.at, self.at + _WRITTEN_WITHIN_US
        length = 0 if self.duration_ms is None else round(self.duration_ms * 1000)
        if _KINDS[self.event_name] is _PROMPTS:
            return self.at - _BEFORE_TURN_US, self.at, self.at + length
        return self.at - length - _TOLERANCE_US, self.at, self.at + _TOLERANCE_US


def join_signals(events: pl.DataFrame, is_second: pl.Expr = _IS_SPAN) -> Assembled:
    """Return events without the second signal's copies of calls in the first one of their session.

    Args:
        events: AGENT_EVENTS of whole sessions: of logs, and of spans as ``assemble`` returns them.
            A joined row with the text of its span has the TEXT_KEY of the span.
        is_second: True for events of the second signal: spans, or IS_TRANSCRIPT.
    """
    numbered = events.with_row_index("row")
    relevant = numbered.filter(pl.col("event_name").is_in([*_KINDS, *_ONCE, _DECISIONS])).filter(
        is_second.any().over(_SESSION) & (~is_second).any().over(_SESSION)
    )
    if relevant.is_empty():
        return Assembled(events, {})
    read = relevant.with_columns(
        at=pl.col("event_time").dt.epoch("us"), is_second=is_second, is_transcript=IS_TRANSCRIPT
    ).select(_Event._fields)
    sessions: dict[tuple[str | None, str], list[_Event]] = defaultdict(list)
    for event in map(_Event._make, read.sort("at", "row").iter_rows()):
        sessions[event.organization_id, event.session_id].append(event)
    pairs, doubles = list[tuple[int, int]](), set[int]()
    for session in sessions.values():
        _join(session, pairs, doubles)
    reason = "also in the logs" if is_second is _IS_SPAN else "also in telemetry"
    return Assembled(_joined(numbered, pairs, doubles), Counter({reason: len(doubles)}))


def _join(session: Sequence[_Event], pairs: list[tuple[int, int]], doubles: set[int]) -> None:
    """Add pairs of log and span, and the spans that do not count."""
    logs: dict[str, list[_Event]] = defaultdict(list)
    spans: dict[str, list[_Event]] = defaultdict(list)
    for event in session:
        kind = _KINDS.get(event.event_name, event.event_name)
        (spans if event.is_second else logs)[kind].append(event)
    decided = {row.tool_use_id for row in logs[_DECISIONS]} - {None}
    both = (*logs[_DECISIONS], *spans[_DECISIONS])
    refused = {row.tool_use_id for row in both if row.decision == "reject"} - {None}
    with_text = set[str | None]()
    for kind in (_CALLS, _TOOLS, _PROMPTS):
        for log, span in _pairs(logs[kind], spans[kind]):
            pairs.append((log.row, span.row))
            doubles.add(span.row)
            with_text |= {span.span_id} - {None} if log.has_content else set()
    known = (
        *(row for row in spans[_DECISIONS] if row.tool_use_id in decided),
        *(row for name in _ONCE if logs[name] for row in spans[name]),
        *(row for row in spans[_TOOLS] if row.tool_use_id in refused),
        *(row for row in spans[_PROMPTS] if row.span_role == ASKED and logs[_PROMPTS]),
        *(row for row in spans[_REPLIES] if logs[_REPLIES] or row.span_id in with_text),
    )
    doubles |= {event.row for event in known}


def _pairs(logs: Sequence[_Event], spans: Sequence[_Event]) -> Iterable[tuple[_Event, _Event]]:
    """Yield logs and spans of the same calls: by id, else by name within the time of the span."""
    by_id = {log.id: log for log in logs if log.id is not None}
    taken, rest = set[int](), list[_Event]()
    for span in spans:
        log = None if span.id is None else by_id.pop(span.id, None)
        if log is None:
            rest.append(span)
        else:
            taken.add(log.row)
            yield log, span
    open_logs = [log for log in logs if log.row not in taken]
    times = [log.at for log in open_logs]
    # A span with an exit code can be of a log with another end: the others choose before it.
    for span in sorted(rest, key=lambda span: span.exit_code is not None):
        earliest, likely, latest = span.window
        near = [
            log
            for log in open_logs[bisect_left(times, earliest) : bisect_left(times, latest + 1)]
            if log.row not in taken and _can_be(log, span)
        ]
        if near:
            _, _, log = min((_ends_differ(log, span), abs(log.at - likely), log) for log in near)
            taken.add(log.row)
            yield log, span


def _ends_differ(log: _Event, span: _Event) -> bool:
    return {log.success, span.success} == {True, False}


def _can_be(log: _Event, span: _Event) -> bool:
    has_other_id = None not in {log.id, span.id} and log.id != span.id
    has_other_name = None not in {log.name, span.name} and log.name != span.name
    # Telemetry may not know an exit code, which decides.
    has_end = span.is_transcript and (span.exit_code is None or log.exit_code is not None)
    has_other_end = has_end and _ends_differ(log, span)
    is_other = has_other_id or has_other_name or has_other_end
    return log.event_name == span.event_name and not is_other


def _joined(
    numbered: pl.DataFrame, pairs: Sequence[tuple[int, int]], doubles: set[int]
) -> pl.DataFrame:
    """Return the rows without doubles, the logs of pairs completed by their spans."""
    of_log = pl.DataFrame(pairs, schema={"row": pl.UInt32, "span": pl.UInt32}, orient="row")
    known = ("row", *_FILLED, *_END, *_INPUT, *_COST, *TEXT_KEY, "has_content", "has_parameters")
    of_span = numbered.select(pl.col(known).name.suffix("_of_span"))
    left = numbered.filter(~pl.col("row").is_in(sorted(doubles)))
    both = left.join(of_log, on="row", how="left", maintain_order="left").join(
        of_span, left_on="span", right_on="row_of_span", how="left", maintain_order="left"
    )
    has_text = (
        pl.col("has_content_of_span").fill_null(value=False)
        & ~pl.col("has_content").fill_null(value=False)
        & (pl.col("has_parameters_of_span") | ~pl.col("has_parameters").fill_null(value=False))
    )
    has_input = (
        pl.col("span").is_not_null()
        & pl.col("cache_read_tokens").is_null()
        & (pl.col("cache_read_tokens_of_span").is_not_null() | pl.col("input_tokens").is_null())
    )
    has_end = pl.col("success").is_null() | (  # as exit codes decide in `settle_outcome`
        pl.col("exit_code").is_null()
        & (pl.col("exit_code_of_span") != 0)
        & pl.col("success_of_span").is_not_null()
    )
    of_span_if = {
        **dict.fromkeys(_END, has_end),
        **dict.fromkeys(_INPUT, has_input),
        **dict.fromkeys(_COST, has_input & pl.col("cost_usd").is_null()),
        **dict.fromkeys((*TEXT_KEY, "has_content", "has_parameters"), has_text),
    }
    return both.with_columns(
        *(pl.coalesce(name, f"{name}_of_span") for name in _FILLED),
        **{
            name: pl.when(condition).then(f"{name}_of_span").otherwise(name)
            for name, condition in of_span_if.items()
        },
    ).select(column for column in numbered.columns if column != "row")
