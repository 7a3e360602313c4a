"""Read each span alone into shapes, which ``events.py`` converts to rows.

A span becomes a record for each of its roles: its attributes about the work, and fields in
parentheses for assembling the trace.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    OFFERED_TOOLS,
    as_is,
    plain_attributes,
    text,
)
from evaluation_pipelines.telemetry.domain.dialects.dialect import (
    Dialect,
    Row,
    leave_out_cached,
)
from evaluation_pipelines.telemetry.domain.dialects.messages import (
    last_prompt,
    last_reply,
    open_prompt,
    parsed,
    parsed_object,
    plain_text,
)
from evaluation_pipelines.telemetry.domain.dialects.registry import (
    SESSION_KEYS,
    SPAN_CONTENT,
    SPAN_SOURCES,
)
from evaluation_pipelines.telemetry.domain.dialects.span_source import (
    AGENT,
    ANSWER,
    APPROVAL,
    ASKED,
    CALL,
    CHAIN,
    EXECUTION,
    OUTCOME,
    PART,
    REPLY,
    TOOL,
    SpanSource,
    SpanView,
)
from evaluation_pipelines.telemetry.domain.otlp import Span
from evaluation_pipelines.telemetry.domain.shapes import (
    SHARED_COLUMNS,
    Origin,
    Producer,
    Shape,
)
from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome, shell_class

_REDACTED = ("__REDACTED__", "<REDACTED>", "[REDACTED]")

_COMMON = (
    *("event_id", "event_name", "trace_id", "span_id", "parent_span_id", "span_role"),
    *("span_session_id", "session_id", "agent_id"),
)
_OF_TOOL = (
    *("duration_ms", "content", "error", "error_type", "tool_parameters", "success"),
    *("success_source", "exit_code", "decision", "tool_class", "tool_type"),
)
_EXTRA = {  # role -> columns in the order of ``_rows``
    CALL: ("duration_ms", "error", "error_type"),
    REPLY: ("content",),
    ASKED: ("content",),
    AGENT: ("duration_ms", "content"),
    CHAIN: ("duration_ms", "content"),
    ANSWER: ("content",),
    TOOL: _OF_TOOL,
    EXECUTION: ("duration_ms", "error", "error_type", "success"),
    APPROVAL: ("duration_ms", "decision"),
    OUTCOME: (),
    PART: ("duration_ms",),
}
_field = "({})".format  # no attribute has such a name
_FIELD_COLUMNS = {_field(name): (name, as_is) for name in (*_COMMON, *_OF_TOOL)}
_WITH_ATTRIBUTES = (CALL, TOOL, OUTCOME)


@dataclass(slots=True)
class _Known:
    """Spans of one scope with the same attributes in the same order.

    ``kept`` has the attributes for calls, tools and outcomes by their index, ``shared`` for other
    rows.
    """

    source: SpanSource | None
    kept: dict[int, str]
    shared: dict[int, str]
    session: Sequence[str]
    tools: int | None
    tells_cached: bool
    shapes: dict[tuple[str, str], Shape] = field(default_factory=dict)


@dataclass(slots=True)
class Spans:
    """Shapes of the spans of a batch.

    A span with more than ``max_attributes`` is a defect, without its messages: OpenInference has
    an attribute for each field of each. ``unread`` counts spans without a source by scope and name.
    """

    max_attributes: int
    unread: Counter[tuple[str, str]] = field(default_factory=Counter)
    _known: dict[tuple[str, tuple[str, ...]], _Known] = field(default_factory=dict)
    _shapes: dict[tuple[Any, ...], Shape] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Shape]:
        return iter(self._shapes.values())

    def add(
        self, numbers: Iterator[int], producer: Producer, origin: Origin, scope: str, span: Span
    ) -> list[Shape] | str:
        """Add a span to the shapes of its rows, and return them, or the reason of a defect."""
        trace_id, span_id = _identity(span.trace_id), _identity(span.span_id)
        if trace_id is None or span_id is None:
            return f"a span without {'traceId' if trace_id is None else 'spanId'}"
        pairs = span.attributes or ()
        keys = tuple([pair.key for pair in pairs])
        known = self._known.get((scope, keys))
        if known is None:
            known = self._known[scope, keys] = _learn(scope, keys)
        if known.source is None:
            self.unread[scope, (text(span.name) or "")[:200]] += 1
            return []
        if len(known.kept) > self.max_attributes:
            return f"{len(known.kept)} attributes, limit is {self.max_attributes}"
        values = plain_attributes(pairs)
        if known.tools is not None:
            values[known.tools] = _tool_names(text(values[known.tools]))
        view = SpanView(scope, span, dict(zip(keys, values, strict=True)))
        source = known.source
        if source.completes is not None:
            view.attributes |= source.completes(view)
        kind, role = _kind(source, view)
        parent = _identity(span.parent_span_id)
        own, session = _sessions(view, known, producer, trace_id)
        agent = text(view.first(source.agent)) if source.agent else None
        sent, ended, ms = _times(span)
        found = []
        for row_role, event, *extra in _rows(source, view, role, ms):
            shape = known.shapes.get((kind, row_role)) or self._shape(
                known, source, scope, kind, row_role
            )
            event_id = hashlib.blake2b(
                f"{trace_id}/{span_id}/{row_role}".encode(), digest_size=16
            ).digest()
            common = (event_id, event, trace_id, span_id, parent, row_role, own, session, agent)
            indices = known.kept if row_role in _WITH_ATTRIBUTES else known.shared
            record = [*common, *extra, *[values[index] for index in indices]]
            time = ended if row_role in (CALL, REPLY, ANSWER, TOOL) else sent
            shape.records.append((next(numbers), producer, origin, time, None, None, record))
            found.append(shape)
        return found

    def _shape(self, known: _Known, source: SpanSource, scope: str, kind: str, role: str) -> Shape:
        """Return the shape of spans that have the same attributes in a row."""
        indices = known.kept if role in _WITH_ATTRIBUTES else known.shared
        keys = (*map(_field, (*_COMMON, *_EXTRA[role])), *indices.values())
        dialect = _dialect(source, role, tells_cached=known.tells_cached)
        shape = self._shapes.setdefault(
            (scope, dialect, kind, keys), Shape(scope, kind, dialect, keys)
        )
        known.shapes[kind, role] = shape
        return shape


@cache
def _dialect(source: SpanSource, role: str, *, tells_cached: bool) -> Dialect:
    """Return the dialect that converts the rows of a role."""

    def refine(row: Row, rest: dict[str, Any]) -> bool:
        source.refine(row, rest)
        if source.includes_cached:
            leave_out_cached(row, unsent=0 if tells_cached else None)
        if row.get("cost_usd") is not None:
            row["cost_source"] = "reported"
        return True

    return Dialect(
        source_cli=source.source_cli,
        name_prefix="(none)",
        scopes=(),
        event_names={},
        columns={**_FIELD_COLUMNS, **(source.columns if role in _WITH_ATTRIBUTES else {})},
        refine=refine,
        refined=None if role == CALL else frozenset(),
        uses=_CALL_COLUMNS,
        ran_by=source.ran_by,
        sends_cost=False,
    )


_CALL_COLUMNS = frozenset(
    {
        *("source_event_name", "cost_usd", "cost_source"),
        *("input_tokens", "cache_read_tokens", "cache_creation_tokens", "output_tokens"),
        "reasoning_tokens",
    }
)


def _learn(scope: str, keys: tuple[str, ...]) -> _Known:
    names = frozenset(keys)
    source = next((source for source in SPAN_SOURCES if source.recognizes(scope, names)), None)
    kept = {
        index: key
        for index, key in enumerate(keys)
        if key not in SESSION_KEYS and (key == OFFERED_TOOLS or not key.startswith(SPAN_CONTENT))
    }
    return _Known(
        source if source is not None and source.is_read else None,
        kept,
        {index: key for index, key in enumerate(keys) if key in _SHARED},
        [key for key in SESSION_KEYS if key in names],
        keys.index(OFFERED_TOOLS) if OFFERED_TOOLS in names else None,
        source is None or not source.cached or not names.isdisjoint(source.cached),
    )


@lru_cache(256)  # each call of a session repeats them
def _tool_names(definitions: str | None) -> str | None:
    """Return the names of defined tools with commas: descriptions and schemas are not kept."""
    found = list(dict.fromkeys(_names(parsed(definitions))))
    return ", ".join(found[:_MAX_TOOL_NAMES]) or None


def _names(sent: Any) -> Iterator[str]:
    """Yield names in a list of tools, or of groups of declarations as Gemini has them."""
    for tool in sent if isinstance(sent, list) else ():
        if isinstance(tool, dict):
            yield from _names(tool.get("functionDeclarations", tool.get("function_declarations")))
            function = tool.get("function")
            name = (function if isinstance(function, dict) else tool).get("name")
            if isinstance(name, str) and 0 < len(name) <= _MAX_NAME_CHARACTERS:
                yield name


_MAX_TOOL_NAMES, _MAX_NAME_CHARACTERS = 200, 100
_SHARED = SHARED_COLUMNS.keys() - set(SESSION_KEYS)


def _identity(sent: Any) -> str | None:
    """Return the id of a trace or span, or None if it is empty or only zeros."""
    return sent if isinstance(sent, str) and sent.strip("0") else None


def _kind(source: SpanSource, view: SpanView) -> tuple[str, str]:
    """Return the kind of a span as sent, and its role."""
    kind = text(view.first(source.kinds)) or ""
    role = source.role(view, source.roles.get(kind, PART))
    if view.attributes.get("logfire.span_type") == "pending_span":  # sent again when it ends
        role = PART
    return (kind or view.name)[:200], role


def _sessions(
    view: SpanView, known: _Known, producer: Producer, trace_id: str
) -> tuple[str | None, str]:
    """Return the session that a span names, and that of its rows otherwise."""
    own = next(filter(None, (text(view.attributes[key]) for key in known.session)), None)
    if own is None and (linked := view.linked_trace) not in (None, trace_id):
        own = f"trace:{linked}"
    return own, producer.columns.get("session_id") or f"trace:{trace_id}"


def _times(span: Span) -> tuple[Any, Any, float | None]:
    """Return start and end as sent, and the duration if they are in order."""
    try:
        started, ended = int(span.start_time_unix_nano), int(span.end_time_unix_nano)
    except (TypeError, ValueError, OverflowError):
        started, ended = 0, 0
    if 0 < started <= ended:
        return str(started), str(ended), (ended - started) / 1e6
    known = span.start_time_unix_nano or span.end_time_unix_nano
    return known, known, None


_Values = tuple[Any, ...]


def _rows(source: SpanSource, view: SpanView, role: str, ms: float | None) -> Iterator[_Values]:
    """Yield the rows of a span: role, event, and the values of ``_EXTRA``."""
    if role == CALL:
        failed = source.failed(view)
        error = _error(view) if failed else (None, None)
        yield CALL, "api_error" if failed else "api_request", ms, *error
        if reply := _written(last_reply(view.messages(source.replied, "assistant"))):
            yield REPLY, "assistant_response", reply
        if prompt := _written(open_prompt(view.messages(source.asked, "user"))):
            yield ASKED, "user_prompt", prompt
    elif role in (AGENT, CHAIN):
        yield role, "user_prompt", ms, _written(last_prompt(view.messages(source.prompted, "user")))
        if answer := _written(last_reply(view.messages(source.answered, "assistant"))):
            yield ANSWER, "assistant_response", answer
    elif role == TOOL:
        yield TOOL, "tool_result", ms, *_tool(source, view)
    elif role == EXECUTION:
        success = source.succeeded(view)
        yield EXECUTION, "other", ms, *((None, None) if success else _error(view)), success
    elif role == APPROVAL:
        yield APPROVAL, "other", ms, text(view.attributes.get("decision"))
    elif role == OUTCOME:
        yield OUTCOME, "outcome"
    else:
        yield PART, "other", ms


def _written(content: str | None) -> str | None:
    return None if content is None or content in _REDACTED else text(content)


def _error(view: SpanView) -> tuple[str | None, str | None]:
    """Return text and class of an error."""
    error = text(view.attributes.get("error")) or view.error
    return error, text(view.attributes.get("error_class")) or view.error_type


def _tool(source: SpanSource, view: SpanView) -> _Values:
    """Return the values of a tool call after its duration."""
    is_denied = view.error_type == "denied"
    name = text(view.first(_tool_attributes(source))) or ""
    sent = _written(text(view.first(source.parameters)))
    tool_class = "mcp" if name.startswith("mcp__") else source.tool_classes.get(name, "other")
    command = _command(sent) if tool_class == "shell" else None
    row: Row = {"success": source.succeeded(view)}
    settle_outcome(row, _exit_code(view), command)
    failed = row["success"] is False
    return (
        _written(plain_text(view.first(source.results))),
        view.error if failed else None,
        view.error_type if failed or is_denied else None,
        sent,
        row["success"],
        row["success_source"],
        row.get("exit_code"),
        "reject" if is_denied else None,
        shell_class(command) if tool_class == "shell" else tool_class,
        "mcp" if tool_class == "mcp" else "builtin",
    )


@cache
def _tool_attributes(source: SpanSource) -> tuple[str, ...]:
    """Return the attributes with the name of a tool."""
    return tuple(key for key, (column, _) in source.columns.items() if column == "tool_name")


def _exit_code(view: SpanView) -> int | None:
    code = view.attributes.get("process.exit.code")
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _command(parameters: str | None) -> str | None:
    command = parsed_object(parameters).get("command")
    return command if isinstance(command, str) else None
