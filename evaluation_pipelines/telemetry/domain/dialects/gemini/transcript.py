"""Transcripts of Gemini CLI and Qwen Code.

Gemini CLI writes a message again when its calls have ended, as a line with the same id. Before 0.30
a file is one JSON document, rewritten as a whole. Qwen Code has its telemetry of requests among the
lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
from msgspec.structs import asdict

from evaluation_pipelines.telemetry.domain.attributes import BROKEN
from evaluation_pipelines.telemetry.domain.dialects.dialect import Dialect
from evaluation_pipelines.telemetry.domain.dialects.gemini.family import EXIT_CODE
from evaluation_pipelines.telemetry.domain.dialects.gemini.gemini_cli import GEMINI_CLI
from evaluation_pipelines.telemetry.domain.dialects.gemini.qwen_code import QWEN_CODE
from evaluation_pipelines.telemetry.domain.dialects.transcript import (
    ID,
    Call,
    Place,
    Transcript,
    decode,
    encode,
    texts_in,
)

_OF_PROGRAM = ("<session_context>", "<state_snapshot>", "<system-reminder>", "/")
"""First words of user messages by the program, and of commands to it."""

_ENDED = ("success", "error", "cancelled")
_REMEMBERED = 64


def _refined(dialect: Dialect, name: str, attributes: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return event name and columns, as its dialect reads them."""
    row: dict[str, Any] = {"source_event_name": name, "event_name": dialect.event_names[name]}
    rest = {}
    for key, value in attributes.items():
        column, convert = dialect.columns.get(key, (None, None))
        if column is None or convert is None:
            rest[key] = value
        elif value is not None and (converted := convert(value)) is not BROKEN:
            row[column] = converted
    dialect.refine(row, rest)
    del row["source_event_name"]
    return row.pop("event_name"), row


def _call(name: str | None, arguments: Any, status: str | None, response: Any) -> dict[str, Any]:
    """Return the attributes of a call in telemetry."""
    answer = response if isinstance(response, dict) else {}
    output, error = answer.get("output"), answer.get("error")
    codes = EXIT_CODE.findall(next((text for text in (output, error) if isinstance(text, str)), ""))
    return {
        "function_name": name,
        "function_args": encode(arguments).decode(),
        "success": status == "success",
        "tool_type": "mcp" if (name or "").startswith("mcp_") else "native",
        "error": error if isinstance(error, str) else None,
        "metadata": {"exitCode": codes[-1]} if codes and codes[-1] != "(none)" else None,
    }


def _response(parts: Any) -> Any:
    """Return the answer of the tool."""
    for part in parts if isinstance(parts, list) else ():
        found = part.get("functionResponse") if isinstance(part, dict) else None
        if isinstance(found, dict):
            return found.get("response")
    return None


_At = tuple[int, Place, str | None]
"""Offset, place and time of a line."""


@dataclass(slots=True)
class _OfFamily(Transcript):
    """Reader of both. ``context`` has ``session``."""

    def _add_refined(self, at: _At, name: str, key: str | None, row: dict[str, Any]) -> None:
        offset, place, time = at
        common = {ID: key, "session.id": self.context.get("session")}
        self._add(offset, place, name, time, common | self._without_texts(row))


class _Tokens(msgspec.Struct, gc=False):
    """Tokens of a request, named as in telemetry."""

    input_token_count: int | None = msgspec.field(default=None, name="input")
    output_token_count: int | None = msgspec.field(default=None, name="output")
    cached_content_token_count: int | None = msgspec.field(default=None, name="cached")
    thoughts_token_count: int | None = msgspec.field(default=None, name="thoughts")
    tool_token_count: int | None = msgspec.field(default=None, name="tool")


class _ToolCall(msgspec.Struct, gc=False):
    id: str | None = None
    name: str | None = None
    args: Any = None
    result: Any = None
    status: str | None = None
    timestamp: str | None = None


class _GeminiLine(msgspec.Struct, gc=False, rename="camel"):
    session_id: str | None = None
    kind: str | None = None
    messages: list["_GeminiLine"] | None = None
    id: str | None = None
    timestamp: str | None = None
    type: str | None = None
    content: Any = None
    model: str | None = None
    tokens: _Tokens | None = None
    tool_calls: list[_ToolCall] | None = None
    change: Any = msgspec.field(default=None, name="$set")
    rewind: Any = msgspec.field(default=None, name="$rewindTo")


_GEMINI_LINE = msgspec.json.Decoder(_GeminiLine)


@dataclass(slots=True)
class GeminiTranscript(_OfFamily):
    """Reader of a chat of Gemini CLI. ``context["seen"]`` has the ids of the last messages."""

    source_cli: ClassVar[str] = "gemini_cli"
    variable: ClassVar[str] = "GEMINI_CLI_HOME"
    home: ClassVar[str] = ""
    patterns: ClassVar[tuple[str, ...]] = (
        ".gemini/tmp/*/chats/*.jsonl",
        ".gemini/tmp/*/chats/*.json",
    )
    top: ClassVar[int] = 4
    versions: ClassVar[str] = "0.20 to 0.61"
    unknown: ClassVar[str] = (
        "durations of requests, who allowed a call, repository, branch, version"
    )

    def _read(self, line: bytes, offset: int) -> str:
        entry: _GeminiLine = decode(_GEMINI_LINE, line)
        if entry.session_id is not None:
            self.context["session"] = entry.session_id
            for message in entry.messages or ():
                self._read_message(message, offset)
            return "session"
        if entry.change is not None or entry.rewind is not None:
            return "change"
        return self._read_message(entry, offset)

    def _read_message(self, entry: _GeminiLine, offset: int) -> str:
        at = (offset, Place(), entry.timestamp)
        match entry.type:
            case "user":
                text = texts_in(entry.content)
                if text and not text.startswith(_OF_PROGRAM) and self._is_new(entry.id):
                    self._add_refined(at, "user_prompt", entry.id, {"content": text})
            case "gemini":
                if self._is_new(entry.id):
                    self._add_answer(at, entry)
                for call in entry.tool_calls or ():
                    if call.status in _ENDED and self._is_new(call.id):
                        response = _response(call.result)
                        attributes = _call(call.name, call.args, call.status, response)
                        name, row = _refined(GEMINI_CLI, "tool_call", attributes)
                        row["tool_use_id"] = call.id
                        self._add_refined((*at[:2], call.timestamp), name, call.id, row)
            case "error":
                error = {"error": texts_in(entry.content)}
                self._add_refined(at, "api_error", entry.id, error)
            case "info" | "warning":
                pass
            case _:
                return f"?{entry.type}"
        return entry.type

    def _add_answer(self, at: _At, entry: _GeminiLine) -> None:
        counts = entry.tokens
        if counts is not None:
            attributes = {"model": entry.model, **asdict(counts)}
            name, row = _refined(GEMINI_CLI, "api_response", attributes)
            self._add_refined(at, name, entry.id, row)
        if text := texts_in(entry.content):
            self._add_refined(at, "assistant_response", entry.id, {"content": text})

    def _is_new(self, key: str | None) -> bool:
        """Return True for the first line of a message or call, and remember it."""
        seen: Sequence[str | None] = self.context.get("seen", ())
        if key in seen:
            return False
        self.context["seen"] = [*seen, key][-_REMEMBERED:]
        return True


class _QwenMessage(msgspec.Struct, gc=False):
    parts: Any = None


class _QwenResult(msgspec.Struct, gc=False, rename="camel"):
    call_id: str | None = None
    status: str | None = None
    error_type: str | None = None


class _QwenTelemetry(msgspec.Struct, gc=False, rename="camel"):
    ui_event: dict[str, Any] | None = None


class _QwenUsage(msgspec.Struct, gc=False, rename="camel"):
    """The same of Qwen Code."""

    input_token_count: int | None = msgspec.field(default=None, name="promptTokenCount")
    output_token_count: int | None = msgspec.field(default=None, name="candidatesTokenCount")
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None


class _QwenLine(msgspec.Struct, gc=False, rename="camel"):
    uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    type: str = "without type"
    subtype: str | None = None
    provenance: str | None = None
    version: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    model: str | None = None
    message: _QwenMessage | None = None
    usage_metadata: _QwenUsage | None = None
    tool_call_result: _QwenResult | None = None
    system_payload: _QwenTelemetry | None = None


_QWEN_LINE = msgspec.json.Decoder(_QwenLine)
_REQUESTS = ("api_response", "api_error", "chat_compression")


@dataclass(slots=True)
class QwenTranscript(_OfFamily):
    """Reader of a chat of Qwen Code. ``context["has_telemetry"]``: its requests are there."""

    source_cli: ClassVar[str] = "qwen_code"
    variable: ClassVar[str] = "QWEN_HOME"
    home: ClassVar[str] = ".qwen"
    patterns: ClassVar[tuple[str, ...]] = ("projects/*/chats/*.jsonl",)
    top: ClassVar[int] = 3
    versions: ClassVar[str] = "0.12 to 0.24"
    unknown: ClassVar[str] = "durations of calls"

    def _read(self, line: bytes, offset: int) -> str:
        entry: _QwenLine = decode(_QWEN_LINE, line)
        self.context["session"] = entry.session_id
        place = self._place(entry.version, entry.cwd, entry.git_branch)
        at = (offset, place, entry.timestamp)
        parts = entry.message.parts if entry.message else None
        match entry.type:
            case "user":
                text = texts_in(parts)
                is_prompt = entry.provenance in (None, "real_user") and entry.subtype is None
                if is_prompt and text and not text.startswith(_OF_PROGRAM):
                    self._interrupt()
                    self._add_refined(at, "user_prompt", entry.uuid, self._prompt(text, entry.cwd))
            case "assistant":
                self._read_answer(at, entry, parts)
            case "tool_result":
                if entry.tool_call_result is not None:
                    self._read_result(at, entry.tool_call_result, parts, entry.uuid)
            case "system":
                event = entry.system_payload and entry.system_payload.ui_event
                self._read_event(at, entry.uuid, event or {})
            case _:
                return f"?{entry.type}"
        return entry.type

    def _read_answer(self, at: _At, entry: _QwenLine, parts: Any) -> None:
        self._answer()
        for part in parts if isinstance(parts, list) else ():
            call = part.get("functionCall") if isinstance(part, dict) else None
            if isinstance(call, dict) and call.get("id") is not None:
                arguments = encode(call.get("args")).decode()
                name = str(call.get("name"))
                self._open(str(call["id"]), Call(name, "", "", None, arguments, at[0]))
        usage = entry.usage_metadata
        if usage is not None and not self.context.get("has_telemetry"):
            attributes = {"model": entry.model, **asdict(usage)}
            name, row = _refined(QWEN_CODE, "api_response", attributes)
            self._add_refined(at, name, entry.uuid, row)
        if text := texts_in(parts):
            self._add_refined(at, "assistant_response", entry.uuid, {"content": text})

    def _read_result(self, at: _At, result: _QwenResult, parts: Any, key: str | None) -> None:
        call = self._close(result.call_id, at[0])
        if call is None:
            return
        arguments = msgspec.json.decode(call.parameters or "null")
        attributes = _call(call.name, arguments, result.status, _response(parts))
        attributes |= {"error_type": result.error_type, "call_id": result.call_id}
        name, row = _refined(QWEN_CODE, "tool_call", attributes)
        self._add_refined(at, name, key, row)

    def _read_event(self, at: _At, key: str | None, event: dict[str, Any]) -> None:
        kind = str(event.get("event.name")).removeprefix(QWEN_CODE.name_prefix)
        if kind in _REQUESTS:
            self.context["has_telemetry"] = True
            name, row = _refined(QWEN_CODE, kind, event)
            self._add_refined(at, name, key, row)
