"""Transcripts of GitHub Copilot CLI: ``~/.copilot/session-state/*/events.jsonl``.

Early versions have no records of requests: of each one its answer has the output tokens.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from evaluation_pipelines.telemetry.domain.dialects.dialect import leave_out_cached
from evaluation_pipelines.telemetry.domain.dialects.transcript import (
    ID,
    Transcript,
    decode,
)

_SILENT = frozenset(
    """abort assistant.intent assistant.reasoning assistant.streaming_delta assistant.turn_end
    assistant.turn_start hook.end hook.start permission.completed permission.requested
    session.context_changed session.info session.idle session.mode_changed session.plan_changed
    session.resume session.shutdown session.task_complete
    session.title_changed session.usage_info session.warning skill.invoked subagent.completed
    subagent.failed subagent.selected subagent.started system.message system.notification
    tool.execution_partial_result tool.execution_progress tool.user_requested""".split()
)
"""Kinds of lines without an event of their own."""

_CLASSES = {
    **dict.fromkeys(("bash", "powershell", "read_bash", "write_bash", "stop_bash"), "shell"),
    **dict.fromkeys(("view", "read_agent", "list_bash"), "read"),
    **dict.fromkeys(("rg", "grep", "glob", "list_agents"), "search"),
    **dict.fromkeys(("edit", "apply_patch", "str_replace_editor"), "edit"),
    "create": "write",
    **dict.fromkeys(("web_fetch", "web_search"), "web"),
    **dict.fromkeys(("task", "write_agent"), "agent"),
}
_SHELLS = ("bash", "powershell")
_REFUSED = ("denied", "rejected")
_EXIT_CODE = re.compile(r"<exited with exit code (\d+)>\s*\Z")


class _Context(msgspec.Struct, gc=False):
    cwd: str | None = None
    branch: str | None = None


class _Usage(msgspec.Struct, gc=False, rename="camel"):
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    duration: float | None = None
    time_to_first_token_ms: float | None = None
    api_call_id: str | None = None
    reasoning_effort: str | None = None


class _Shell(msgspec.Struct, gc=False, rename="camel"):
    exit_code: int | None = None


class _Error(msgspec.Struct, gc=False):
    message: str | None = None
    code: str | None = None


class _Data(msgspec.Struct, gc=False, rename="camel"):
    session_id: str | None = None
    copilot_version: str | None = None
    context: _Context | None = None
    content: str | None = None
    source: str | None = None
    message: str | None = None
    model: str | None = None
    new_model: str | None = None
    output_tokens: int | None = None
    usage: _Usage | None = None
    tool_call_id: str | None = None
    parent_tool_call_id: str | None = None
    tool_name: str | None = None
    mcp_server_name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw()
    success: bool | None = None
    error: _Error | None = None
    result: Any = None
    shell_execution: _Shell | None = None


class _Line(msgspec.Struct, gc=False):
    type: str = "without type"
    id: str | None = None
    timestamp: str | None = None
    data: _Data | None = None


_LINE = msgspec.json.Decoder(_Line)


@dataclass(slots=True)
class CopilotTranscript(Transcript):
    """Reader of the events of a session.

    ``context`` has ``session``, ``repository``, ``branch``, ``model``, if it may be kept
    ``folder``, and ``has_records``: requests have their own lines.
    """

    source_cli: ClassVar[str] = "genai"
    variable: ClassVar[str] = "COPILOT_HOME"
    home: ClassVar[str] = ".copilot"
    patterns: ClassVar[tuple[str, ...]] = ("session-state/*/events.jsonl",)
    top: ClassVar[int] = 2
    versions: ClassVar[str] = "1.0"
    unknown: ClassVar[str] = (
        "durations of calls. Versions without records of requests (1.0.49): input and cached tokens"
    )

    def _read(self, line: bytes, offset: int) -> str:
        entry: _Line = decode(_LINE, line)
        read = self._READERS.get(entry.type)
        if read is not None:
            read(self, entry, entry.data or _Data(), offset)
        elif entry.type not in _SILENT:
            return f"?{entry.type}"
        return entry.type

    def _begin(self, _: _Line, data: _Data, __: int) -> None:
        where = data.context or _Context()
        place = self._place(data.copilot_version, where.cwd, where.branch)
        self.context |= {"repository": place.repository, "branch": place.branch}
        self.context |= {"session": data.session_id, "folder": self._text(where.cwd)}

    def _read_prompt(self, entry: _Line, data: _Data, offset: int) -> None:
        self._interrupt()
        if data.source in (None, "user"):
            columns = self._prompt(data.content, self.context.get("folder"))
            self._append_line(entry, offset, "user_prompt", columns)

    def _read_model(self, _: _Line, data: _Data, __: int) -> None:
        self.context["model"] = data.new_model

    def _read_reply(self, entry: _Line, data: _Data, offset: int) -> None:
        if data.parent_tool_call_id is None:  # not of a sub-agent
            self._answer()
        if data.output_tokens is not None and not self.context.get("has_records"):
            model = data.model or self.context.get("model")
            columns = {"model": model, "output_tokens": data.output_tokens}
            self._append_line(entry, offset, "api_request", columns)
        if data.content:
            content = self._text(data.content)
            self._append_line(entry, offset, "assistant_response", {"content": content})

    def _read_error(self, entry: _Line, data: _Data, offset: int) -> None:
        self._append_line(entry, offset, "api_error", {"error": self._text(data.message)})

    def _read_compaction(self, entry: _Line, _: _Data, offset: int) -> None:
        self._append_line(entry, offset, "compaction", {})

    def _read_call(self, _: _Line, data: _Data, offset: int) -> None:
        tool, server = data.tool_name or "", data.mcp_server_name
        if server is not None:
            tool = f"mcp__{server}__{tool.removeprefix(f'{server}-')}"
        call = self._call(tool, data.arguments, _SHELLS, _CLASSES, offset)
        self._open(data.tool_call_id or "", call)

    def _append_line(self, entry: _Line, offset: int, name: str, columns: dict[str, Any]) -> None:
        self._append(offset, name, entry.timestamp, {ID: entry.id, **columns})

    def _read_usage(self, entry: _Line, data: _Data, offset: int) -> None:
        self.context["has_records"] = True
        usage = data.usage or _Usage()
        columns: dict[str, Any] = {
            "request_id": usage.api_call_id,
            "model": usage.model,
            "effort": usage.reasoning_effort,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens or 0,
            "cache_creation_tokens": usage.cache_write_tokens or 0,
            "reasoning_tokens": usage.reasoning_tokens,
            "duration_ms": usage.duration,
            "ttft_ms": usage.time_to_first_token_ms,
        }
        leave_out_cached(columns)
        self._append_line(entry, offset, "api_request", columns)

    def _read_result(self, entry: _Line, data: _Data, offset: int) -> None:
        call = self._close(data.tool_call_id, offset)
        result = data.result.get("content") if isinstance(data.result, dict) else None
        result = result if isinstance(result, str) else None
        code = (data.shell_execution or _Shell()).exit_code
        if call is not None and call.name in _SHELLS and (found := _EXIT_CODE.search(result or "")):
            code = int(found[1])
        is_refused = data.error is not None and data.error.code in _REFUSED
        success = None if is_refused else data.success
        columns = self._tool_columns(data.tool_call_id, call, success=success, exit_code=code)
        if is_refused:
            self._append_line(entry, offset, "tool_decision", columns | {"decision": "reject"})
            return
        columns["content"] = self._text(result)
        columns["error"] = self._text((data.error or _Error()).message)
        self._append_line(entry, offset, "tool_result", columns)

    _READERS: ClassVar[dict[str, Callable[..., None]]] = {
        "session.start": _begin,
        "user.message": _read_prompt,
        "assistant.message": _read_reply,
        "session.model_change": _read_model,
        "session.usage_record": _read_usage,
        "tool.execution_start": _read_call,
        "tool.execution_complete": _read_result,
        "session.error": _read_error,
        "session.compaction_complete": _read_compaction,
    }
