"""Transcripts of Codex CLI: ``~/.codex/sessions/**/rollout-*.jsonl``.

The first line names the session. Token counts are repeated: a request was made where their total
has changed, and later versions have a record of each request. A fork by earlier versions has all
lines of its parent, after the parent's first line. Ids of turns and sessions grow with time.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from evaluation_pipelines.telemetry.domain.dialects.codex.telemetry import CODEX
from evaluation_pipelines.telemetry.domain.dialects.dialect import leave_out_cached
from evaluation_pipelines.telemetry.domain.dialects.transcript import (
    ID,
    Call,
    Transcript,
    decode,
    encode,
    texts_in,
    without_folders,
)

_SILENT = frozenset(
    """event_msg/agent_reasoning event_msg/agent_reasoning_raw_content
    event_msg/agent_reasoning_section_break event_msg/context_compacted event_msg/deprecation_notice
    event_msg/entered_review_mode event_msg/exec_command_end event_msg/exited_review_mode
    event_msg/guardian_assessment event_msg/image_generation_end
    event_msg/mcp_tool_call_end event_msg/patch_apply_end event_msg/plan_update
    event_msg/stream_error event_msg/task_complete event_msg/thread_goal_updated
    event_msg/thread_name_updated event_msg/thread_rolled_back event_msg/thread_settings_applied
    event_msg/turn_complete event_msg/undo_completed event_msg/view_image_tool_call
    event_msg/warning event_msg/web_search_end inter_agent_communication response_item/compaction
    response_item/compaction_summary response_item/context_compaction response_item/ghost_snapshot
    response_item/image_generation_call response_item/message response_item/other
    response_item/reasoning response_item/tool_search_call response_item/tool_search_output
    response_item/web_search_call world_state""".split()
)
"""Kinds of lines without an event of their own."""

_PROGRAM = "exec"
"""Tool of code mode, whose programs call others."""

_NOT_DONE, _REFUSED = ("failed", "declined"), "exec command rejected by user"
_FAILED = re.compile(
    r"(?:exec_command|write_stdin|apply_patch|patch|command|tool call|sandbox|collab \w+) "
    r"(?:failed|verification failed|timed out)|failed (?:to|in|for)|unsupported call"
    r"|execution error|aborted by user|err: |error: |Err\(|tool call error",
    re.IGNORECASE,
)
_WALL_TIME = re.compile(
    r'(?:Chunk ID: .*\n)?Wall time: ([\d.]+) seconds|.*"duration_seconds": ?([\d.]+)', re.DOTALL
)


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_output_tokens: int | None = None
    total_tokens: int | None = None


class _Counts(msgspec.Struct, gc=False):
    total_token_usage: _Usage | None = None
    last_token_usage: _Usage | None = None


class _Git(msgspec.Struct, gc=False):
    branch: str | None = None
    repository_url: str | None = None


class _Duration(msgspec.Struct, gc=False):
    secs: int = 0
    nanos: int = 0


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    command: Any = None
    exit_code: int | None = None
    status: str | None = None
    duration: _Duration | None = None
    content: Any = None
    server: str | None = None
    tool: str | None = None


class _Payload(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    session_id: str | None = None
    source: Any = None
    cli_version: str | None = None
    cwd: str | None = None
    git: _Git | None = None
    model: str | None = None
    effort: str | None = None
    turn_id: str | None = None
    call_id: str | None = None
    response_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: Any = None
    action: Any = None
    input: Any = None
    output: Any = None
    info: _Counts | None = None
    usage: _Usage | None = None
    item: _Item | None = None
    message: Any = None


class _Line(msgspec.Struct, gc=False):
    type: str = "without type"
    timestamp: str | None = None
    payload: _Payload | None = None


_LINE = msgspec.json.Decoder(_Line)


@dataclass(slots=True)
class CodexTranscript(Transcript):
    """Reader of a rollout of Codex.

    ``context`` has ``session``, ``parent``, ``nickname``, ``folder``, ``branch``, ``repository``,
    ``model``, ``effort``, ``total`` (tokens so far), ``has_records`` and ``is_copy``.
    """

    source_cli: ClassVar[str] = "codex"
    variable: ClassVar[str] = "CODEX_HOME"
    home: ClassVar[str] = ".codex"
    patterns: ClassVar[tuple[str, ...]] = (
        "sessions/*rollout-*.jsonl",
        "archived_sessions/*rollout-*.jsonl",
    )
    top: ClassVar[int] = 4
    versions: ClassVar[str] = "0.58 to 0.171"
    unknown: ClassVar[str] = "durations of requests, who allowed a call"
    _durations: dict[str, float] = field(default_factory=dict)

    def _read(self, line: bytes, offset: int) -> str:
        entry: _Line = decode(_LINE, line)
        payload = entry.payload or _Payload()
        kind = f"{entry.type}/{payload.type}" if payload.type else entry.type
        read = self._READERS.get(kind)
        if read is None:
            return kind if kind in _SILENT else f"?{kind}"
        if not self.context.get("is_copy") or kind in _OF_COPIES:
            read(self, entry, payload, offset)
        return kind

    def _begin(self, _: _Line, payload: _Payload, __: int) -> None:
        """Read who works where. A second such line is of the parent, whose lines follow."""
        if "session" in self.context:
            self.context["is_copy"] = payload.id != self.context["session"]
            return
        parent, name = _parent(payload)
        git = payload.git or _Git()
        self.context |= {
            "session": payload.id,
            "version": payload.cli_version,
            "parent": parent,
            "nickname": name,
            "folder": self._text(payload.cwd),
            "branch": git.branch,
            "repository": without_folders(git.repository_url),
        }

    def _read_turn(self, entry: _Line, payload: _Payload, offset: int) -> None:
        self._answer()
        self._end_copy(entry, payload, offset)
        self.context["model"] = payload.model or self.context.get("model")
        self.context["effort"] = payload.effort

    def _end_copy(self, _: _Line, payload: _Payload, __: int) -> None:
        if payload.turn_id is not None and payload.turn_id > (self.context.get("session") or ""):
            self.context["is_copy"] = False

    def _read_prompt(self, entry: _Line, payload: _Payload, offset: int) -> None:
        self._interrupt()
        if self.context.get("parent") is None:
            columns = self._prompt(texts_in(payload.message), self.context.get("folder"))
            self._append(offset, "user_prompt", entry.timestamp, {ID: "prompt", **columns})

    def _read_reply(self, entry: _Line, payload: _Payload, offset: int) -> None:
        columns = {ID: "reply", "content": self._text(texts_in(payload.message))}
        self._append(offset, "assistant_response", entry.timestamp, columns)

    def _read_error(self, entry: _Line, payload: _Payload, offset: int) -> None:
        columns = {ID: "error", "error": self._text(texts_in(payload.message))}
        self._append(offset, "api_error", entry.timestamp, columns)

    def _read_compaction(self, entry: _Line, _: _Payload, offset: int) -> None:
        self._append(offset, "compaction", entry.timestamp, {ID: "compaction"})

    def _read_abort(self, _: _Line, __: _Payload, ___: int) -> None:
        self._calls.clear()

    def _read_counts(self, entry: _Line, payload: _Payload, offset: int) -> None:
        counts = payload.info or _Counts()
        total, last = counts.total_token_usage, counts.last_token_usage
        if total is None or last is None or total.total_tokens == self.context.get("total"):
            return
        self.context["total"] = total.total_tokens
        if not (self.context.get("has_records") or self.context.get("is_copy")):
            self._add_request(entry, offset, last, None)

    def _read_record(self, entry: _Line, payload: _Payload, offset: int) -> None:
        self.context["has_records"] = True
        if payload.usage is not None:
            self._add_request(entry, offset, payload.usage, payload.response_id)

    def _add_request(
        self, entry: _Line, offset: int, usage: _Usage, response_id: str | None
    ) -> None:
        columns = {
            ID: response_id or f"request {usage.total_tokens}",
            "request_id": response_id,
            "model": self.context.get("model"),
            "effort": self.context.get("effort"),
            "input_tokens": usage.input_tokens,
            "cache_read_tokens": usage.cached_input_tokens or 0,
            "cache_creation_tokens": usage.cache_write_input_tokens or 0,
            "output_tokens": usage.output_tokens,
            "reasoning_tokens": usage.reasoning_output_tokens,
        }
        leave_out_cached(columns)
        self._append(offset, "api_request", entry.timestamp, columns)

    def _read_item(self, entry: _Line, payload: _Payload, offset: int) -> None:
        item = payload.item or _Item()
        said = _Payload(message=item.content)
        match item.type:
            case "UserMessage":
                self._read_prompt(entry, said, offset)
            case "AgentMessage":
                self._read_reply(entry, said, offset)
            case "CommandExecution" | "McpToolCall" | "FileChange" if item.id is not None:
                if item.duration is not None:
                    duration = item.duration
                    self._durations[item.id] = duration.secs * 1e3 + duration.nanos / 1e6
                programs = [call.name == _PROGRAM for call in self._calls.values()]
                if item.id not in self._calls and any(programs):
                    self._add_inner_call(entry, item, offset)

    def _add_inner_call(self, entry: _Line, item: _Item, offset: int) -> None:
        tool = {"CommandExecution": "exec_command", "FileChange": "apply_patch"}.get(item.type)
        arguments = None if item.command is None else encode({"cmd": item.command}).decode()
        tool = tool or f"mcp__{item.server}__{item.tool}"
        call = Call(tool, "", "", None, arguments, offset, call_id=item.id)
        output = "" if item.exit_code is None else f"Process exited with code {item.exit_code}\n"
        output = _REFUSED if item.status == "declined" else output
        self._add_call(entry, offset, call, output, success=item.status not in _NOT_DONE)

    def _read_call(self, _: _Line, payload: _Payload, offset: int) -> None:
        call_id = payload.call_id or payload.id or ""
        tool = payload.name or ("local_shell" if payload.type == "local_shell_call" else "")
        given = payload.arguments or payload.input or payload.action
        arguments = given if isinstance(given, str) else encode(given).decode()
        call = Call(tool, "", "", None, arguments, offset, namespace=payload.namespace)
        self._open(call_id, call)

    def _read_output(self, entry: _Line, payload: _Payload, offset: int) -> None:
        call = self._close(payload.call_id, offset)
        output = payload.output
        shown = texts_in(output.get("content") if isinstance(output, dict) else output)
        if call is not None:
            success = _FAILED.match(shown) is None
            self._add_call(entry, offset, call, shown, success=success)

    def _add_call(
        self, entry: _Line, offset: int, call: Call, output: str, *, success: bool
    ) -> None:
        """Add a call, read like the record that telemetry has of it."""
        row: dict[str, Any] = {
            "event_name": "tool_result",
            "source_event_name": "tool_result",
            "tool_use_id": call.call_id,
            "tool_name": call.name,
            "content": output,
            "success": success,
        }
        rest = {"arguments": call.parameters, "tool_namespace": call.namespace}
        CODEX.refine(row, {name: value for name, value in rest.items() if value is not None})
        name = row.pop("event_name")
        del row["source_event_name"]
        row |= {ID: call.call_id, "subagent": self.context.get("nickname")}
        row["duration_ms"] = self._durations.pop(call.call_id or "", None) or _wall_time_ms(output)
        self._append(offset, name, entry.timestamp, self._without_texts(row))

    _READERS: ClassVar[dict[str, Callable[..., None]]] = {
        "session_meta": _begin,
        "turn_context": _read_turn,
        "event_msg/task_started": _end_copy,
        "event_msg/turn_started": _end_copy,
        "event_msg/user_message": _read_prompt,
        "event_msg/agent_message": _read_reply,
        "event_msg/token_count": _read_counts,
        "token_usage_record": _read_record,
        "event_msg/item_completed": _read_item,
        "event_msg/turn_aborted": _read_abort,
        "event_msg/error": _read_error,
        "compacted": _read_compaction,
        "response_item/function_call": _read_call,
        "response_item/custom_tool_call": _read_call,
        "response_item/local_shell_call": _read_call,
        "response_item/function_call_output": _read_output,
        "response_item/custom_tool_call_output": _read_output,
    }


_OF_COPIES = (
    *("session_meta", "turn_context", "event_msg/task_started", "event_msg/turn_started"),
    "event_msg/token_count",
)
"""Kinds of lines read among copies, too."""


def _parent(payload: _Payload) -> tuple[str | None, str | None]:
    """Return the session of a sub-agent's caller, and its name. None for a session of people."""
    source = payload.source
    spawned = source.get("subagent") if isinstance(source, dict) else None
    if spawned is None:
        is_other = payload.session_id not in (None, payload.id)
        return (payload.session_id, "sub-agent") if is_other else (None, None)
    if not isinstance(spawned, dict):
        return payload.session_id, str(spawned)
    spawn = next((agent for agent in spawned.values() if isinstance(agent, dict)), {})
    name = spawn.get("agent_role") or spawn.get("agent_nickname") or "sub-agent"
    return spawn.get("parent_thread_id") or payload.session_id, str(name)


def _wall_time_ms(output: str) -> float | None:
    found = _WALL_TIME.match(output)
    seconds = float(found[1] or found[2]) if found else 0.0
    return seconds * 1e3 or None  # rounded to nothing: unknown
