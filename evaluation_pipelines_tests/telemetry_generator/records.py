"""The log records of Claude Code, one text for each event, made once for a process."""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from evaluation_pipelines_tests.telemetry_generator.otlp import (
    boolean,
    double,
    record,
    resource_logs,
    text,
    whole,
)
from evaluation_pipelines_tests.telemetry_generator.team import Developer, Model

_FIRST_CONTEXT = 18_000
_COMPACTED_CONTEXT = 14_000
_CACHE_MS = 5 * 60 * 1000
"""A prompt cache forgets what was not asked for in five minutes."""


class Usage(NamedTuple):
    """Tokens, price (nano-dollars) and duration of one request."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_creation_tokens: int
    cost_nano: int
    duration_ms: int


@dataclass(slots=True)
class Conversation:
    """What a process has told a model so far, in tokens."""

    model: Model
    random: Random
    tokens: int = 0
    _asked_ms: int = -_CACHE_MS

    def ask(self, time_ms: int) -> Usage:
        """A request with everything said so far and something new."""
        random = self.random.random
        fresh = 200 + int(random() * 2600) if self.tokens else _FIRST_CONTEXT
        output = 40 + int(random() * random() * 1400)
        is_cached = time_ms - self._asked_ms < _CACHE_MS
        read = self.tokens if is_cached else 0
        created = self.tokens - read + fresh
        given = 3 + int(random() * 10)
        self.tokens += fresh + output
        self._asked_ms = time_ms
        model = self.model
        cost_nano = (
            given * model.input_price
            + output * model.output_price
            + read * model.cache_read_price
            + created * model.cache_write_price
        )
        return Usage(given, output, read, created, cost_nano, 700 + output * 11)

    def compact(self) -> tuple[int, int]:
        """Replace what was said by a summary; gives the tokens before and after."""
        before, self.tokens = self.tokens, _COMPACTED_CONTEXT
        return before, _COMPACTED_CONTEXT


@dataclass(frozen=True, slots=True)
class Process:
    """One run of the agent program, as far as every record of it tells.

    ``labels`` are the attributes that its environment gives it: organization, team, masque, label;
    ``places`` those that only its resource has: repository, branch, environment, user.
    """

    session_id: str
    developer: Developer
    labels: tuple[tuple[str, str], ...]
    places: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Records:
    """Texts to be filled in with ``%``.

    Each takes the time (ms), the time as ISO text, the sequence, then the prompt id (but for
    what comes before the first prompt), then what the comment says, and last the time again.
    """

    before: str
    after: str
    hook_registered: str  # nothing more
    plugin_loaded: str  # nothing more
    mcp_server_connection: str  # duration (ms)
    user_prompt: str  # length, text, message id
    command: str  # name, message id
    api_request: str  # source, model, four token counts, cost (USD, millionths), ms, ms, request id
    api_error: str  # model, duration (ms), request id
    api_retries_exhausted: str  # model, duration (ms)
    assistant_response: str  # length, text, request id, message id, model
    tool_decision: str  # decision, source, tool, call id, request id
    tool_result: str  # tool, call id, success, duration (ms), input bytes, other attributes
    hook_start: str  # event, tool
    hook_complete: str  # event, tool, duration (ms)
    compaction: str  # trigger, duration (ms), tokens before, tokens after
    subagent_completed: str  # tokens, calls, model

    @classmethod
    def of(cls, process: Process) -> "Records":
        """The records of one process, in the wording of its version."""
        return _Wording(process).records()


@dataclass(frozen=True, slots=True)
class _Wording:
    process: Process

    def records(self) -> Records:
        version = self.process.developer.team.version
        before, after = resource_logs(self._resource(), version)
        return Records(
            before,
            after,
            **self._startup_records(),
            **self._prompt_records(),
            **self._api_records(),
            **self._tool_records(),
            **self._hook_records(),
        )

    def _startup_records(self) -> dict[str, str]:
        return {
            "hook_registered": self._first(
                "hook_registered",
                *(text("hook_event", "PostToolUse"), text("hook_type", "command")),
                *(text("hook_source", "projectSettings"), text("safe_mode", "false")),
            ),
            "plugin_loaded": self._first(
                "plugin_loaded",
                *(text("plugin.name", "third-party"), text("plugin.scope", "user-local")),
                *(text("enabled_via", "user-install"), text("plugin_id_hash", "5bd1e3a0c2f84d67")),
                *(
                    boolean("has_hooks"),
                    boolean("has_mcp", "false"),
                    whole("skill_path_count", "2"),
                ),
            ),
            "mcp_server_connection": self._first(
                "mcp_server_connection",
                *(text("status", "connected"), text("transport_type", "stdio")),
                *(text("server_scope", "project"), text("duration_ms", "%d")),
                boolean("is_plugin", "false"),
            ),
        }

    def _prompt_records(self) -> dict[str, str]:
        message = self._newer(text("message.uuid"))
        return {
            "user_prompt": self._said(
                "user_prompt", text("prompt_length", "%d"), text("prompt") + message
            ),
            "command": self._said(
                "user_prompt",
                *(text("prompt_length", "6"), text("prompt", "<REDACTED>")),
                *(text("command_name"), text("command_source", "builtin") + message),
            ),
            "assistant_response": self._said(
                "assistant_response",
                *(whole("response_length"), text("response"), text("request_id")),
                *(text("message.uuid"), text("model"), text("query_source", "repl_main_thread")),
            ),
        }

    def _api_records(self) -> dict[str, str]:
        cost = double("cost_usd") if self._is_modern else text("cost_usd", "%r")
        failure = (
            *(text("model"), text("error", "Internal server error")),
            *(self._number("status_code", "500"), text("speed", "normal")),
        )
        return {
            "api_request": self._said(
                "api_request",
                *(text("query_source"), text("model")),
                *map(self._number, ("input_tokens", "output_tokens")),
                *map(self._number, ("cache_read_tokens", "cache_creation_tokens")),
                cost + self._newer(whole("cost_usd_micros")),
                self._number("duration_ms") + self._newer(whole("ttft_ms")),
                *(text("request_id"), text("speed", "normal"), text("effort", "medium")),
            ),
            "api_error": self._said(
                "api_error",
                *(*failure, self._number("attempt", "10"), self._number("duration_ms")),
                *(text("request_id"), text("query_source", "repl_main_thread")),
            ),
            "api_retries_exhausted": self._said(
                "api_retries_exhausted",
                *(*failure, self._number("total_attempts", "10")),
                self._number("total_retry_duration_ms"),
            ),
            "compaction": self._said(
                "compaction",
                *(text("trigger"), text("success", "true"), text("duration_ms", "%d")),
                *(text("pre_tokens", "%d"), text("post_tokens", "%d")),
            ),
        }

    def _tool_records(self) -> dict[str, str]:
        return {
            "tool_decision": self._said(
                "tool_decision",
                *(text("decision"), text("source"), text("tool_name"), text("tool_use_id")),
                *(text("tool_source", "builtin"), text("request_id")),
            ),
            # Some attributes of a result are there or not: they are filled in with their comma.
            "tool_result": self._said(
                "tool_result",
                *(text("tool_name"), text("tool_use_id"), text("success")),
                *(text("duration_ms", "%d"), text("tool_input_size_bytes", "%d") + "%s"),
            ),
            "subagent_completed": self._said(
                "subagent_completed",
                *(text("agent_type", "custom"), text("agent.source", "projectSettings")),
                *map(self._number, ("total_tokens", "total_tool_uses")),
                text("final_model"),
            ),
        }

    def _hook_records(self) -> dict[str, str]:
        hook = (
            *(text("hook_event"), text("hook_name"), text("hook_source", "merged")),
            *(text("num_hooks", "1"), text("managed_only", "false"), text("safe_mode", "false")),
        )
        return {
            "hook_start": self._said("hook_execution_start", *hook),
            "hook_complete": self._said(
                "hook_execution_complete",
                *(*hook, text("num_success", "1"), text("num_blocking", "0")),
                *(text("num_non_blocking_error", "0"), text("num_cancelled", "0")),
                text("total_duration_ms", "%d"),
            ),
        }

    @property
    def _is_modern(self) -> bool:
        return self.process.developer.team.is_modern

    def _number(self, key: str, value: str = "%d") -> str:
        """A number of an API event: 2.1.122 changed them from texts to numbers."""
        return whole(key, value) if self._is_modern else text(key, value)

    def _newer(self, attribute: str) -> str:
        """An attribute that old versions lack, with its comma; the value for it is then dropped."""
        return f",{attribute}" if self._is_modern else "%.0s"

    def _resource(self) -> list[str]:
        return [
            *(text("host.arch", "amd64"), text("os.type", "linux"), text("os.version", "6.8.0")),
            text("service.name", "claude-code"),
            text("service.version", self.process.developer.team.version),
            *(text(key, value) for key, value in self.process.labels),
            *(text(key, value) for key, value in self.process.places),
        ]

    def _first(self, name: str, *attributes: str) -> str:
        return record(name, [*self._common(name), *attributes])

    def _said(self, name: str, *attributes: str) -> str:
        return record(name, [*self._common(name), text("prompt.id"), *attributes])

    def _common(self, name: str) -> list[str]:
        # Newer versions repeat on every record what the environment adds to the resource.
        labels = self.process.labels if self._is_modern else ()
        provider = (text("anthropic.provider", "firstParty"), boolean("anthropic.custom_base_url"))
        login = self.process.developer.login_of(self.process.session_id)
        return [
            text("user.id", login.account_id),
            *([text("user.email", str(login.email))] if login.is_signed_in else []),
            text("session.id", self.process.session_id),
            *(text(key, value) for key, value in labels),
            *(provider if self._is_modern else ()),
            *(text("terminal.type", "xterm-256color"), text("event.name", name)),
            *(text("event.timestamp"), whole("event.sequence")),
        ]
