"""Sessions of OpenCode, in the form of its export.

A line has the session, or a message with its parts. A document has all of them.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import msgspec

from evaluation_pipelines.telemetry.domain.dialects.opencode.telemetry import (
    REFUSED_BY_RULE,
    REFUSED_BY_USER,
    tool_class,
)
from evaluation_pipelines.telemetry.domain.dialects.transcript import (
    ID,
    Call,
    Transcript,
    UnreadableLine,
    command_in,
    decode,
)
from evaluation_pipelines.times import from_us

_KINDS = frozenset(
    """agent compaction file patch reasoning retry snapshot step-finish step-start subtask text
    tool""".split()
)
"""Kinds of parts."""

_ENDED = ("completed", "error")
_ABORTED = "Tool execution aborted"
_FAILED_REQUESTS = frozenset(
    "APIError ContentFilterError ContextOverflowError ProviderAuthError UnknownError".split()
)


class _Time(msgspec.Struct, gc=False):
    created: float | None = None
    completed: float | None = None
    start: float | None = None
    end: float | None = None


class _Failure(msgspec.Struct, gc=False):
    name: str | None = None
    data: Any = None


class _Info(msgspec.Struct, gc=False, rename="camel"):
    """A message, or the session: without ``role``."""

    id: str | None = None
    role: str | None = None
    version: str | None = None
    directory: str | None = None
    parent_id: str | None = msgspec.field(default=None, name="parentID")
    agent: str | None = None
    mode: str | None = None
    model_id: str | None = msgspec.field(default=None, name="modelID")
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    time: _Time = msgspec.field(default_factory=_Time)
    summary: Any = None
    error: _Failure | None = None


class _Cache(msgspec.Struct, gc=False):
    read: int | None = None
    write: int | None = None


class _Tokens(msgspec.Struct, gc=False):
    total: int | None = None
    input: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cache: _Cache = msgspec.field(default_factory=_Cache)


class _State(msgspec.Struct, gc=False):
    status: str | None = None
    input: msgspec.Raw = msgspec.Raw()
    output: Any = None
    error: Any = None
    metadata: Any = None
    time: _Time = msgspec.field(default_factory=_Time)


class _Part(msgspec.Struct, gc=False):
    type: str = "without type"
    id: str | None = None
    text: str | None = None
    synthetic: bool | None = None
    ignored: bool | None = None
    tool: str | None = None
    call_id: str | None = msgspec.field(default=None, name="callID")
    state: _State = msgspec.field(default_factory=_State)
    tokens: _Tokens | None = None
    cost: float | None = None


class _Line(msgspec.Struct, gc=False):
    info: _Info
    parts: list[_Part] = []
    messages: list["_Line"] = []


class _Message(NamedTuple):
    """A message of a line."""

    offset: int
    info: _Info
    parts: list[_Part]

    @property
    def key(self) -> list[Any]:
        """Time and id: the order of messages."""
        return [self.info.time.created or 0, self.info.id or ""]


_LINE = msgspec.json.Decoder(_Line)
_KEY = re.compile(rb'\{"key":"([^"]{0,100})')
"""Id of a session or message, before what its store has of it. Received lines have none."""

_MOST_FAULTS = 1_000
_TOO_MANY_FAULTS = f"more than {_MOST_FAULTS:,} unreadable lines, the others are not counted"


@dataclass(slots=True)
class OpenCodeTranscript(Transcript):
    """Reader of a session, which is read from its start each time.

    ``context`` has ``session``, ``parent``, ``created``, ``repository``, if it may be kept
    ``folder``, ``done``: time and id of the last ended message so far, and ``faults``: ids of
    unreadable lines of a store so far, to count each once. After 1,000 a last defect says that
    others are not counted.
    """

    source_cli: ClassVar[str] = "opencode"
    variable: ClassVar[str] = "XDG_DATA_HOME"
    home: ClassVar[str] = ".local/share"
    patterns: ClassVar[tuple[str, ...]] = (
        "opencode/opencode*.db",
        "opencode/storage/session/*.json",
    )
    has_store: ClassVar[bool] = True
    versions: ClassVar[str] = "1.0 to 1.18"
    unknown: ClassVar[str] = "requests for titles, durations of requests, branch"
    _open_messages: list[_Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context["faults"] = {*self.context.get("faults", ())}

    def _read(self, line: bytes, offset: int) -> str:
        try:
            entry: _Line = decode(_LINE, line)
        except msgspec.ValidationError:
            if "session" in self.context:
                raise
            self._refuse(line, offset, len(line), "a session of another form")
            return ""
        if entry.info.role is not None:
            self._read_message(_Message(offset, entry.info, entry.parts))
            return ""
        kind = "" if "created" in self.context else "session"  # counted by an earlier reading
        self._begin(entry.info)
        for message in entry.messages:
            self._read_message(_Message(offset, message.info, message.parts))
        return kind

    def _note_fault(self, line: bytes, offset: int) -> bool:
        if not (found := _KEY.match(line)):
            return True
        key, known = found[1].decode(errors="replace"), self.context["faults"]
        if key in known or len(known) > _MOST_FAULTS:
            return False
        known.add(key)
        if len(known) > _MOST_FAULTS:
            self.unreadable.append(UnreadableLine(offset, len(line), _TOO_MANY_FAULTS))
        return len(known) <= _MOST_FAULTS

    def finish(self, *, is_final: bool) -> None:
        """Read open messages as they are after long silence. They stay open."""
        for message in self._open_messages if is_final else ():  # a tool can take hours
            self._read_events(message)

    def _begin(self, session: _Info) -> None:
        place = self._place(session.version, session.directory, None)
        self.context |= {
            "session": session.id,
            "parent": session.parent_id,
            "created": session.time.created or 0,
            "repository": place.repository,
            "folder": self._text(session.directory),
        }

    def _read_message(self, message: _Message) -> None:
        """Read messages once they have ended: the next answer ends an interrupted one.

        A prompt ends none: it can be queued while the agent works.
        """
        if message.key <= self.context.get("done", []) or "session" not in self.context:
            return
        if message.info.role == "assistant":
            self._end_messages()
        self._open_messages.append(message)
        if message.info.time.completed is not None:
            self._end_messages()

    def _end_messages(self) -> None:
        for message in self._open_messages:
            self.context["done"] = message.key
            self._read_events(message)
            role = message.info.role
            self._count(message.offset, f"message/{role}", is_known=role in ("user", "assistant"))
            for part in message.parts:
                self._count(message.offset, f"part/{part.type}", is_known=part.type in _KINDS)
        self._open_messages.clear()

    def _read_events(self, message: _Message) -> None:
        offset, info, parts = message
        read = {"user": self._read_prompt, "assistant": self._read_answer}.get(info.role or "")
        # A fork has copies of earlier messages, with their times.
        if read is not None and (info.time.created or 0) >= self.context.get("created", 0):
            read(info, parts, offset)

    def _read_prompt(self, message: _Info, parts: list[_Part], offset: int) -> None:
        texts = _texts(parts)
        if texts and self.context.get("parent") is None:
            folder = self.context.get("folder")
            columns = {ID: message.id, **self._prompt("\n".join(texts), folder)}
            self._append_at(message, offset, "user_prompt", message.time.created, columns)

    def _read_answer(self, message: _Info, parts: list[_Part], offset: int) -> None:
        time = message.time
        calls = [part for part in parts if part.type == "tool"]
        starts = [call.state.time.start for call in calls if call.state.time.start is not None]
        answered = min(starts, default=time.completed or time.created)
        for part in parts:
            if part.type == "step-finish" and part.tokens is not None:
                request = _request(message, part, part.tokens)
                self._append_at(message, offset, "api_request", answered, request)
        for call in calls:
            if call.state.status in _ENDED:
                self._add_call(message, call, offset)
        if message.error is not None and message.error.name in _FAILED_REQUESTS:
            self._add_failure(message, message.error, offset)
        if message.summary is True:
            self._append_at(message, offset, "compaction", time.created, {ID: message.id})
        elif time.completed is not None and (texts := _texts(parts)):
            columns = {ID: message.id, "content": self._text("\n".join(texts))}
            self._append_at(message, offset, "assistant_response", time.completed, columns)

    def _add_call(self, message: _Info, part: _Part, offset: int) -> None:
        state, tool = part.state, part.tool or ""
        command = command_in(state.input) if tool == "bash" else None
        parameters = bytes(state.input).decode() if self.keeps_texts else None
        call = Call(tool, tool_class(tool, command), "builtin", command, parameters, offset)
        error = state.error if isinstance(state.error, str) else ""
        is_refused = bool(REFUSED_BY_USER.search(error) or REFUSED_BY_RULE.search(error))
        code = state.metadata.get("exit") if isinstance(state.metadata, dict) else None
        columns = self._tool_columns(
            part.call_id,
            call,
            success=None if is_refused or error == _ABORTED else state.status == "completed",
            exit_code=code if isinstance(code, int) else None,
        )
        columns |= {ID: part.id, "error": self._text(error or None)}
        if is_refused:
            columns["decision"] = "reject"
        elif state.time.start is not None and state.time.end is not None:
            columns["duration_ms"] = state.time.end - state.time.start
        if isinstance(state.output, str):
            columns["content"] = self._text(state.output)
        name = "tool_decision" if is_refused else "tool_result"
        self._append_at(message, offset, name, state.time.end, columns)

    def _add_failure(self, message: _Info, failure: _Failure, offset: int) -> None:
        sent = failure.data.get("message") if isinstance(failure.data, dict) else None
        columns = {
            ID: message.id,
            "model": message.model_id,
            "error_type": failure.name,
            "error": self._text(sent if isinstance(sent, str) else None),
        }
        self._append_at(message, offset, "api_error", message.time.completed, columns)

    def _append_at(
        self, message: _Info, offset: int, name: str, at_ms: float | None, columns: dict[str, Any]
    ) -> None:
        if self.context.get("parent") is not None:
            columns["subagent"] = message.agent or message.mode or "sub-agent"
        self._append(offset, name, _iso(at_ms or message.time.created), columns)


def _iso(at_ms: float | None) -> str | None:
    """Return a time, None for one that no program can have."""
    with suppress(OverflowError):
        return None if at_ms is None else from_us(round(at_ms * 1000)).isoformat()
    return None


def _texts(parts: list[_Part]) -> list[str]:
    """Return what a person or the model wrote."""
    return [
        part.text
        for part in parts
        if part.type == "text" and part.text and not (part.synthetic or part.ignored)
    ]


def _request(message: _Info, part: _Part, tokens: _Tokens) -> dict[str, Any]:
    """Return the columns of a request. Since 1.18 its output is without the reasoning."""
    read, written = tokens.cache.read or 0, tokens.cache.write or 0
    output, reasoning = tokens.output, tokens.reasoning or 0
    if output is not None and tokens.total == (
        (tokens.input or 0) + read + written + output + reasoning
    ):
        output += reasoning
    return {
        ID: part.id,
        "model": message.model_id,
        "provider": message.provider_id,
        "input_tokens": tokens.input,
        "output_tokens": output,
        "reasoning_tokens": reasoning,
        "cache_read_tokens": read,
        "cache_creation_tokens": written,
        # 0 if no price is known, too.
        "cost_usd": part.cost or None,
        "cost_source": "reported" if part.cost else None,
    }
