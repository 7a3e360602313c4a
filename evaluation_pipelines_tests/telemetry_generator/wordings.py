"""The wordings of the agents other than Claude Code."""

from evaluation_pipelines_tests.telemetry_generator.wording import Record, Tokens, Wording


class CodexWording(Wording):
    """Codex CLI: all numbers but some are texts, and input tokens count cached ones in."""

    source_cli, scope, service, model = "codex", "codex_otel.log_only", "codex_exec", "gpt-5.5"
    person = ("user.email", "Ana@orchard.example")
    session_key = "conversation.id"
    logs_results = True

    def prompt(self, time_ms: int) -> list[Record]:
        """See ``Wording``."""
        return [self._codex("user_prompt", time_ms, prompt_length="24", prompt="[REDACTED]")]

    def answer(self, time_ms: int, tokens: Tokens) -> list[Record]:
        """The end of a stream of events, of which most only say that it goes on."""
        whole = tokens.input_tokens + tokens.cached_tokens
        counts = {
            "input_token_count": str(whole),
            "output_token_count": str(tokens.output_tokens),
            "cached_token_count": tokens.cached_tokens,
            "reasoning_token_count": tokens.thought_tokens,
            "tool_token_count": str(whole + tokens.output_tokens),
        }
        kind = {"event.kind": "response.completed"}
        return [
            self._codex("sse_event", time_ms - 5, **{"event.kind": "response.created"}),
            self._codex("sse_event", time_ms, **kind, **counts),
        ]

    def call(self, time_ms: int, number: int, duration_ms: int, *, fails: bool) -> list[Record]:
        """See ``Wording``."""
        asked = {"tool_name": "exec_command", "call_id": f"call_{number}"}
        output = f"Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code {2 * fails}\n"
        output += "" if fails else f"built target_{number}\n"
        return [
            self._codex(
                "tool_decision", time_ms - duration_ms, **asked, decision="approved", source="User"
            ),
            self._codex(
                "tool_result",
                time_ms,
                **asked,
                arguments='{"cmd":"make"}',
                duration_ms=str(duration_ms),
                success="true",
                output=output,
            ),
        ]

    def reply(self, time_ms: int, used: list[int]) -> list[Record]:
        """See ``Wording``; sent with ``log_agent_responses``."""
        built = ", ".join(f"target_{number}" for number in used)
        return [self._codex("agent_response", time_ms, response=f"Built: {built or 'none'}.")]

    def refuse(self, time_ms: int, number: int) -> list[Record]:
        """See ``Wording``."""
        asked = {"tool_name": "exec_command", "call_id": f"call_{number}"}
        return [self._codex("tool_decision", time_ms, **asked, decision="denied", source="User")]

    def _codex(self, name: str, time_ms: int, **values: object) -> Record:
        record = self._record(f"codex.{name}", time_ms, model=self.model, **values)
        del record["body"]
        place = "event otel/src/events/session_telemetry.rs:925"
        return record | {"timeUnixNano": "0", "eventName": place}


class GeminiWording(Wording):
    """Gemini CLI: each API call is told twice, and one record tells a tool call and its fate."""

    source_cli, scope, service, model = "gemini_cli", "gemini-cli", "gemini-cli", "gemini-2.5-pro"
    person = ("enduser.id", "ben")
    prefix = "gemini_cli."
    counts_thoughts_as_output = False

    def prompt(self, time_ms: int) -> list[Record]:
        """See ``Wording``."""
        return [self._said("user_prompt", time_ms, prompt_length=24)]

    def answer(self, time_ms: int, tokens: Tokens) -> list[Record]:
        """The call, and the same by the GenAI conventions."""
        again = "gen_ai.client.inference.operation.details"
        usage = {"gen_ai.usage.output_tokens": tokens.output_tokens}
        return [self._answer(time_ms, tokens), self._record(again, time_ms, **usage)]

    def call(self, time_ms: int, number: int, duration_ms: int, *, fails: bool) -> list[Record]:
        """See ``Wording``."""
        outcome = {"success": not fails, "duration_ms": duration_ms}
        return [self._call(time_ms, decision="accept", call_id=f"c{number}", **outcome)]

    def refuse(self, time_ms: int, number: int) -> list[Record]:
        """See ``Wording``."""
        outcome = {"success": False, "duration_ms": 0}
        return [self._call(time_ms, decision="reject", call_id=f"c{number}", **outcome)]

    def _answer(self, time_ms: int, tokens: Tokens) -> Record:
        return self._said(
            "api_response",
            time_ms,
            model=self.model,
            status_code=200,
            duration_ms=900,
            input_token_count=tokens.input_tokens + tokens.cached_tokens,
            cached_content_token_count=tokens.cached_tokens,
            output_token_count=tokens.output_tokens,
            thoughts_token_count=tokens.thought_tokens,
            tool_token_count=0,
        )

    def _call(self, time_ms: int, **values: object) -> Record:
        command = {"function_name": "run_shell_command", "function_args": '{"command":"make"}'}
        return self._said("tool_call", time_ms, **command, **values)

    def _said(self, name: str, time_ms: int, **values: object) -> Record:
        return self._record(f"{self.prefix}{name}", time_ms, prompt_id="p1", **values)


class QwenWording(GeminiWording):
    """Qwen Code, a fork of it: each call once, and the session has a beginning."""

    counts_thoughts_as_output = True

    source_cli, scope, service, model = "qwen_code", "qwen-code", "qwen-code", "qwen3-coder-plus"
    person = ("enduser.id", "finn")
    prefix = "qwen-code."

    def begin(self, time_ms: int) -> list[Record]:
        """See ``Wording``."""
        return [self._record("session.start", time_ms)]

    def answer(self, time_ms: int, tokens: Tokens) -> list[Record]:
        """See ``Wording``."""
        return [self._answer(time_ms, tokens)]


class OpenCodeWording(Wording):
    """OpenCode by its plugin ``opencode-plugin-otel``: bare names, and a cost."""

    source_cli, scope, service = "opencode", "com.opencode", "opencode"
    model = "claude-sonnet-4-5"

    def prompt(self, time_ms: int) -> list[Record]:
        """See ``Wording``."""
        return [self._record("user_prompt", time_ms, prompt_length=24)]

    def answer(self, time_ms: int, tokens: Tokens) -> list[Record]:
        """See ``Wording``."""
        counts = {
            "input_tokens": tokens.input_tokens,
            "output_tokens": tokens.output_tokens,
            "reasoning_tokens": tokens.thought_tokens,
            "cache_read_tokens": tokens.cached_tokens,
            "cache_creation_tokens": 0,
        }
        price = {"model": self.model, "provider": "anthropic", "cost_usd": 0.01}
        return [self._record("api_request", time_ms, duration_ms=900, **price, **counts)]

    def call(self, time_ms: int, number: int, duration_ms: int, *, fails: bool) -> list[Record]:
        """See ``Wording``."""
        values = {"tool_name": "bash", "success": not fails, "duration_ms": duration_ms}
        return [self._record("tool_result", time_ms, **values, call=number)]

    def refuse(self, time_ms: int, number: int) -> list[Record]:
        """See ``Wording``."""
        values = {"tool_type": "bash", "decision": "reject", "source": "reject", "call": number}
        return [self._record("tool_decision", time_ms, **values)]


class CopilotWording(Wording):
    """Copilot Chat by the GenAI conventions; the inference is named at the top level only."""

    source_cli, scope, service, model = "genai", "copilot-chat", "copilot-chat", "gpt-5.5"
    session_key = "gen_ai.conversation.id"
    can_refuse = False

    def begin(self, time_ms: int) -> list[Record]:
        """See ``Wording``."""
        return [self._record("copilot_chat.session.start", time_ms)]

    def prompt(self, time_ms: int) -> list[Record]:
        """A message, whose text is in the body."""
        text = [{"key": "content", "value": {"stringValue": f"(prompt at {time_ms})"}}]
        body = {"body": {"kvlistValue": {"values": text}}}
        return [self._record("gen_ai.user.message", time_ms) | body]

    def answer(self, time_ms: int, tokens: Tokens) -> list[Record]:
        """See ``Wording``."""
        usage = {
            "gen_ai.request.model": self.model,
            "gen_ai.usage.input_tokens": tokens.input_tokens + tokens.cached_tokens,
            "gen_ai.usage.cache_read.input_tokens": tokens.cached_tokens,
            "gen_ai.usage.output_tokens": tokens.output_tokens,
            "gen_ai.usage.reasoning.output_tokens": tokens.thought_tokens,
        }
        name = "gen_ai.client.inference.operation.details"
        record = self._record(name, time_ms, **usage)
        unnamed = [
            attribute for attribute in record["attributes"] if attribute["key"] != "event.name"
        ]
        return [record | {"eventName": name, "attributes": unnamed}]

    def call(self, time_ms: int, number: int, duration_ms: int, *, fails: bool) -> list[Record]:
        """See ``Wording``."""
        tool = {"gen_ai.tool.name": "run_in_terminal", "gen_ai.tool.call.id": f"t{number}"}
        outcome = {"success": not fails, "duration_ms": duration_ms}
        return [self._record("copilot_chat.tool.call", time_ms, **tool, **outcome)]


WORDINGS: tuple[type[Wording], ...] = (
    CodexWording,
    GeminiWording,
    QwenWording,
    OpenCodeWording,
    CopilotWording,
)
