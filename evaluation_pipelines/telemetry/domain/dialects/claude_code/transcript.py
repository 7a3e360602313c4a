"""Transcripts of Claude Code: ``~/.claude/projects/*/*.jsonl``.

A message of the model is several lines with one ``message.id``, each with all of its usage, the
last one with the right one. A fork copies the lines of its parent with their ``uuid`` under its own
session id. A sub-agent has a file of its own, with the session id of its parent.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import msgspec

from evaluation_pipelines.telemetry.domain.dialects.claude_code.telemetry import (
    EXIT_CODE,
    SHELLS,
    TOOL_CLASSES,
)
from evaluation_pipelines.telemetry.domain.dialects.transcript import (
    ID,
    Place,
    Transcript,
    TranscriptHead,
    decode,
)

_SILENT = frozenset(
    """agent-color agent-name agent-setting ai-title api-request api-request-blob
    api-request-resumed api-request-shape artifact-autoreact-ledger artifact-comment-monitor
    atis-latch attachment attribution-snapshot bridge-session content-replacement cost-state
    custom-title data-flow-incomplete data-flow-records derived-from file-history-delta
    file-history-snapshot fork-context-ref frame-link history-suppression host-row interactive-mark
    isolation-latch last-prompt memory-mode mode observer-ref permission-mode pr-link progress
    queue-operation repl-mode result resume-head-vouch session-owner started summary tag
    tools-used worktree-state""".split()
)
"""Kinds of lines without an event of their own."""

_STARTED = re.compile(rb'\{"type":"queue-operation",.{0,200}?"timestamp":"([^"]{1,40})"')
_FIRST_KEY = re.compile(rb'\{"type":"([\w-]{1,50})"')
_NO_PROMPT = re.compile(
    r"<(?:command-name|local-command-|bash-(?:input|stdout|stderr)|task-notification"
    r"|system-reminder|user-memory-input|teammate-message|tick)|Caveat: The messages below"
    r"|\[Request interrupted"
)
"""First words of user messages not entered as a prompt."""

_COMMAND = re.compile(r"<command-(?:message>.*?</command-message>\s*<command-)?name>/?([^<\s]+)")
_REFUSED = re.compile(
    r"The user doesn't want to (?:proceed with|take) this|Claude requested permissions to"
    r"|Permission (?:to use|for this (?:action|command|tool use)) |\[Request interrupted by user"
    r"|The user rejected|User rejected"
)
_WARM_UP = "Warmup"
_SYNTHETIC = "<synthetic>"
_FIRST_CHARACTERS = 4096
_HEAD_LINES = 40


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw()
    text: msgspec.Raw = msgspec.Raw()
    tool_use_id: str | None = None
    content: msgspec.Raw = msgspec.Raw()
    is_error: bool | None = None


class _CacheWrites(msgspec.Struct, gc=False):
    ephemeral_1h_input_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheWrites | None = None
    service_tier: str | None = None
    speed: str | None = None


class _Message(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    content: str | list[_Block] | None = None
    usage: _Usage | None = None
    stop_reason: str | None = None


class _Result(msgspec.Struct, gc=False, rename="camel"):
    duration_ms: float | None = None
    total_duration_ms: float | None = None


class _Line(msgspec.Struct, gc=False, rename="camel"):
    type: str = "without type"
    subtype: str | None = None
    uuid: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    request_session_id: str | None = None
    version: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    is_sidechain: bool | None = None
    agent_id: str | None = None
    attribution_agent: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    prompt_id: str | None = None
    request_id: str | None = None
    effort: str | None = msgspec.field(default=None, name="perTurnEffort")
    tool_denial_kind: str | None = None
    message: _Message | None = None
    tool_use_result: _Result | str | list[Any] | None = None


class _Reply(msgspec.Struct):
    """A message of the model, of which more lines may follow."""

    line: _Line
    message: _Message
    offset: int
    place: Place
    texts: list[str]
    text_at: str | None = None

    @property
    def has_ended(self) -> bool:
        """False if lines with more of it may follow, such as calls of tools."""
        return self.message.stop_reason not in (None, "tool_use")


_LINE = msgspec.json.Decoder(_Line)
_TEXT = msgspec.json.Decoder(str | list[_Block] | None)
_STRING = msgspec.json.Decoder(str)


@dataclass(slots=True)
class ClaudeCodeTranscript(Transcript):
    """Reader of a file of Claude Code.

    ``context`` has ``version``, ``subagent``, ``is_warm_up``, ``time`` of the last record, and
    ``started``, when its first line was written.
    """

    source_cli: ClassVar[str] = "claude_code"
    variable: ClassVar[str] = "CLAUDE_CONFIG_DIR"
    home: ClassVar[str] = ".claude"
    patterns: ClassVar[tuple[str, ...]] = ("projects/*.jsonl",)
    top: ClassVar[int] = 2
    versions: ClassVar[str] = "2.0 to 2.1"
    unknown: ClassVar[str] = (
        "requests for titles and summaries, durations of most calls and of requests, reported cost"
    )
    _reply: _Reply | None = None

    @staticmethod
    def session_of(path: str) -> str | None:
        """Return the session in the path of a file, None for a sub-agent of 2.0."""
        *folders, name = path.split("/")
        if folders and folders[-1] == "subagents":
            return folders[-2]
        return None if name.startswith("agent-") else name.removesuffix(".jsonl")

    @classmethod
    def head(cls, lines: Iterable[bytes]) -> TranscriptHead:
        """Return session, id and time in the first lines of a file."""
        session_id = first_time = None
        for line in islice(lines, _HEAD_LINES):
            try:
                entry: _Line = decode(_LINE, line)
            except ValueError:
                continue
            session_id = session_id or entry.session_id
            first_time = first_time or entry.timestamp
            if entry.uuid is not None:
                return TranscriptHead(entry.session_id or session_id, entry.uuid, first_time)
        return TranscriptHead(session_id, first_time=first_time)

    def waits_from(self) -> tuple[int, dict[str, Any]] | None:
        """Return offset and context of the first message without its end, or a call's result."""
        first = Transcript.waits_from(self)
        reply = self._reply
        if reply is None or reply.has_ended or (first is not None and first[0] < reply.offset):
            return first
        return reply.offset, self.context

    def finish(self, *, is_final: bool) -> None:
        """End the last message, if all of it is there."""
        if self._reply is None or not (is_final or self._reply.has_ended):
            return
        reply, self._reply = self._reply, None
        line, message = reply.line, reply.message
        common = {"session.id": line.session_id, "subagent": self.context.get("subagent")}
        usage = message.usage
        if usage is not None:
            read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
            kept = usage.cache_creation and usage.cache_creation.ephemeral_1h_input_tokens
            request = {
                ID: message.id,
                "request_id": line.request_id or message.id,
                "model": message.model,
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cache_read_tokens": read or 0,
                "cache_creation_tokens": written or 0,
                "cache_creation_1h_tokens": kept or None,
                "service_tier": usage.service_tier if usage.service_tier != "standard" else None,
                "speed": usage.speed,
                "effort": line.effort,
            }
            self._add(reply.offset, reply.place, "api_request", line.timestamp, common | request)
        if message.stop_reason == "refusal":
            refusal = {ID: message.id, "request_id": line.request_id, "model": message.model}
            self._add(reply.offset, reply.place, "api_refusal", line.timestamp, common | refusal)
        elif reply.text_at is not None:
            answer = {ID: message.id, "content": "\n".join(reply.texts) or None}
            self._add(
                reply.offset, reply.place, "assistant_response", reply.text_at, common | answer
            )

    def _read(self, line: bytes, offset: int) -> str:
        if (silent := self._silent_kind(line)) is not None:
            return silent
        entry: _Line = decode(_LINE, line)
        if entry.version is not None:
            self.context["version"] = entry.version
        if entry.type in ("assistant", "user") and entry.message is not None:
            if self._is_own(entry):
                read = self._read_reply if entry.type == "assistant" else self._read_user
                read(entry, entry.message, offset)
        elif entry.type == "system":
            self._read_system(entry, offset)
        elif entry.type not in _SILENT:
            return f"?{entry.type}"
        return entry.type

    def _silent_kind(self, line: bytes) -> str | None:
        """Return the kind of a line without an event, None for others."""
        first = _FIRST_KEY.match(line)
        if first is None or (kind := first[1].decode()) not in _SILENT:
            return None
        if not line.rstrip().endswith(b"}"):
            raise ValueError("not JSON")
        if "version" not in self.context and (started := _STARTED.match(line)):
            self.context.setdefault("started", started[1].decode())
        return kind

    def _is_own(self, entry: _Line) -> bool:
        """Return False for a copy of a line of another session, or a warm-up.

        A fork starts with its own time: without the lines of its parent, earlier ones are copies.
        """
        started = "" if self.session_id else self.context.get("started", "")
        return not (
            (entry.timestamp or started) < started
            or entry.uuid in self.known_ids
            or entry.session_id not in (None, self.session_id or entry.session_id)
            or entry.request_session_id not in (None, entry.session_id)
            or self.context.get("is_warm_up")
        )

    def _place_of(self, entry: _Line) -> Place:
        return self._place(entry.version, entry.cwd, entry.git_branch)

    def _read_reply(self, entry: _Line, message: _Message, offset: int) -> None:
        self._note_subagent(entry)
        place = self._place_of(entry)
        if message.model == _SYNTHETIC:
            if entry.is_api_error_message:
                failure = {ID: entry.uuid, "session.id": entry.session_id}
                error = self._text(_text_of(message.content))
                columns = failure | {"subagent": self.context.get("subagent"), "error": error}
                self._add(offset, place, "api_error", entry.timestamp, columns)
            return
        reply = self._reply
        if reply is None or reply.message.id != message.id:
            self.finish(is_final=True)
            self._answer()
            reply = self._reply = _Reply(entry, message, offset, place, [])
        elif message.usage is not None:
            reply.message.usage = message.usage
            reply.line.timestamp = entry.timestamp
            reply.message.stop_reason = message.stop_reason or reply.message.stop_reason
        for block in message.content if isinstance(message.content, list) else ():
            if block.type == "text":
                reply.text_at = entry.timestamp
                if self.keeps_texts:
                    reply.texts.append(_STRING.decode(block.text))
            elif block.type == "tool_use" and block.id is not None:
                tool = block.name or ""
                call = self._call(tool, block.input, SHELLS, TOOL_CLASSES, reply.offset)
                self._open(block.id, call)

    def _note_subagent(self, entry: _Line) -> None:
        if entry.agent_id is not None or entry.is_sidechain:
            known = entry.attribution_agent or self.context.get("subagent")
            self.context["subagent"] = known or "sub-agent"

    def _read_user(self, entry: _Line, message: _Message, offset: int) -> None:
        self._note_subagent(entry)
        place = self._place_of(entry)
        blocks = message.content if isinstance(message.content, list) else ()
        results = [block for block in blocks if block.type == "tool_result"]
        for block in results:
            self._read_result(entry, place, block, offset, is_alone=len(results) == 1)
        if results:
            return
        if entry.is_sidechain:
            self.context["is_warm_up"] = _text_of(message.content) == _WARM_UP
        elif not (entry.is_meta or entry.is_compact_summary):
            self._read_prompt(entry, place, _text_of(message.content) or "", offset)

    def _read_prompt(self, entry: _Line, place: Place, content: str, offset: int) -> None:
        self._interrupt()
        command = _COMMAND.match(content)
        if _NO_PROMPT.match(content) and command is None:
            return
        columns = {
            ID: entry.uuid,
            "session.id": entry.session_id,
            "prompt_id": entry.prompt_id,
            "slash_command": command and command[1],
            **self._prompt(content, entry.cwd),
        }
        # Commands to the program itself have their name first.
        is_builtin = command is not None and content.startswith("<command-name>")
        name = "other" if is_builtin else "user_prompt"
        self._add(offset, place, name, entry.timestamp, columns)

    def _read_result(
        self, entry: _Line, place: Place, block: _Block, offset: int, *, is_alone: bool
    ) -> None:
        call = self._close(block.tool_use_id, offset)
        content = _first_words(block.content) if block.is_error else ""
        is_refused = entry.tool_denial_kind is not None or bool(_REFUSED.match(content))
        code = EXIT_CODE.match(content)
        columns = self._tool_columns(
            block.tool_use_id,
            call,
            success=None if is_refused else not block.is_error,
            exit_code=int(code[1]) if code else None,
        )
        columns |= {ID: f"{entry.uuid} {block.tool_use_id}", "session.id": entry.session_id}
        columns |= {"prompt_id": entry.prompt_id, "subagent": self.context.get("subagent")}
        if is_refused:
            columns["decision"] = "reject"
            self._add(offset, place, "tool_decision", entry.timestamp, columns)
            return
        result = entry.tool_use_result
        if is_alone and isinstance(result, _Result):
            columns["duration_ms"] = result.duration_ms or result.total_duration_ms
        if self.keeps_texts:
            columns["error" if block.is_error else "content"] = _text_of(
                _TEXT.decode(block.content or b"null")
            )
        self._add(offset, place, "tool_result", entry.timestamp, columns)

    def _read_system(self, entry: _Line, offset: int) -> None:
        if entry.subtype == "compact_boundary" and self._is_own(entry):
            columns = {ID: entry.uuid, "session.id": entry.session_id}
            self._add(offset, self._place_of(entry), "compaction", entry.timestamp, columns)


def _text_of(content: str | list[_Block] | None) -> str | None:
    if not isinstance(content, list):
        return content
    texts = [_STRING.decode(block.text) for block in content if block.type == "text"]
    return "\n".join(texts) or None


def _first_words(content: msgspec.Raw) -> str:
    """Return the first characters of a result."""
    found = _text_of(_TEXT.decode(content)) if content else None
    return (found or "")[:_FIRST_CHARACTERS]
