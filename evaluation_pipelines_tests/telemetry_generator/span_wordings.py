"""The wordings of libraries that send spans and no logs: a trace for each prompt.

A span is sent when it ends, so children come first, and the prompt with the reply comes last.
"""

import json
from abc import abstractmethod
from hashlib import blake2b
from typing import Any

from evaluation_pipelines_tests.telemetry_generator.wording import Record, Tokens, Wording

_TOOLS = ("search_orders", "read_policy", "create_refund")


class SpanWording(Wording):
    """One library, one session: as many traces as prompts."""

    source_cli, team = "genai", "shop"
    can_refuse = False
    logs_results = True

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self._prompts = self._spans = self._begun_ms = 0

    def prompt(self, time_ms: int) -> list[Record]:
        """See ``Wording``: nothing is sent before the turn ends."""
        self._prompts += 1
        self._begun_ms = time_ms
        return []

    def answer(self, time_ms: int, tokens: Tokens) -> list[Record]:
        """See ``Wording``."""
        return [self._span(f"chat {self.model}", time_ms - 900, time_ms, self._call(tokens))]

    def call(self, time_ms: int, number: int, duration_ms: int, *, fails: bool) -> list[Record]:
        """See ``Wording``: a tool that fails has an exception."""
        tool, result = _TOOLS[number % len(_TOOLS)], f"order_{number} is found"
        values = self._tool(tool, number, None if fails else result)
        span = self._span(f"execute_tool {tool}", time_ms - duration_ms, time_ms, values)
        if fails:
            span["status"] = {"code": 2, "message": "timed out"}
            exception = {"exception.type": "TimeoutError", "exception.message": "timed out"}
            event = {"name": "exception", "attributes": self._attributes(exception)}
            span["events"] = [event | {"timeUnixNano": f"{time_ms}000000"}]
        return [span]

    def reply(self, time_ms: int, used: list[int]) -> list[Record]:
        """See ``Wording``: the span around the turn, with prompt and reply."""
        named = ", ".join(f"order_{number}" for number in used)
        asked, said = f"Look after ticket {self._prompts}.", f"Done: {named or 'nothing'}."
        root = self._span("turn", self._begun_ms, time_ms, self._turn(asked, said))
        del root["parentSpanId"]
        return [root | {"spanId": self._id("root", 8)}]

    @abstractmethod
    def _call(self, tokens: Tokens) -> dict[str, Any]:
        """Attributes of a call to the model."""

    @abstractmethod
    def _tool(self, tool: str, number: int, result: str | None) -> dict[str, Any]:
        """Attributes of a tool call, which has failed without a result."""

    @abstractmethod
    def _turn(self, asked: str, said: str) -> dict[str, Any]:
        """Attributes of a turn."""

    def _span(
        self, name: str, start_ms: int, end_ms: int, values: dict[str, Any]
    ) -> dict[str, Any]:
        self._spans += 1
        return {
            "traceId": self._id("trace", 16),
            "spanId": self._id(str(self._spans), 8),
            "parentSpanId": self._id("root", 8),
            "name": name,
            "startTimeUnixNano": f"{start_ms}000000",
            "endTimeUnixNano": f"{end_ms}000000",
            "attributes": self._attributes(values),
            "status": {},
        }

    def _id(self, name: str, size_bytes: int) -> str:
        text = f"{self.session_id} {self._prompts} {name}"
        return blake2b(text.encode(), digest_size=size_bytes).hexdigest()


class PydanticAiWording(SpanWording):
    """Pydantic AI: the GenAI conventions, the session on every span."""

    scope, service, model = "pydantic-ai", "support-desk", "gpt-5.1"

    def _call(self, tokens: Tokens) -> dict[str, Any]:
        return self._named("chat") | {
            "gen_ai.request.model": self.model,
            "gen_ai.response.model": self.model,
            "gen_ai.provider.name": "openai",
            "gen_ai.usage.input_tokens": tokens.input_tokens + tokens.cached_tokens,
            "gen_ai.usage.cache_read.input_tokens": tokens.cached_tokens,
            "gen_ai.usage.output_tokens": tokens.output_tokens,
        }

    def _tool(self, tool: str, number: int, result: str | None) -> dict[str, Any]:
        told = {} if result is None else {"gen_ai.tool.call.result": result}
        return self._named("execute_tool") | {
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": f"call_{number}",
            "gen_ai.tool.call.arguments": json.dumps({"order": number}),
            **told,
        }

    def _turn(self, asked: str, said: str) -> dict[str, Any]:
        messages = [{"role": "user", "parts": [{"type": "text", "content": asked}]}]
        return self._named("invoke_agent") | {
            "pydantic_ai.all_messages": json.dumps(messages),
            "final_result": said,
        }

    def _named(self, operation: str) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.agent.name": "refunds",
            "gen_ai.conversation.id": self.session_id,
        }


class LangGraphWording(SpanWording):
    """LangGraph with OpenInference: kinds, flattened messages, sums on no span."""

    scope, service = "openinference.instrumentation.langchain", "back-office"
    model = "claude-sonnet-4-5"

    def _call(self, tokens: Tokens) -> dict[str, Any]:
        return self._named("LLM") | {
            "llm.model_name": self.model,
            "llm.provider": "anthropic",
            "llm.token_count.prompt": tokens.input_tokens + tokens.cached_tokens,
            "llm.token_count.prompt_details.cache_read": tokens.cached_tokens,
            "llm.token_count.completion": tokens.output_tokens,
        }

    def _tool(self, tool: str, number: int, result: str | None) -> dict[str, Any]:
        told = {} if result is None else {"output.value": result}
        sent = {"tool.name": tool, "input.value": json.dumps({"order": number})}
        return self._named("TOOL") | sent | told

    def _turn(self, asked: str, said: str) -> dict[str, Any]:
        sent = json.dumps({"messages": [{"role": "user", "content": asked}]})
        answered = json.dumps({"messages": [{"role": "assistant", "content": said}]})
        return self._named("CHAIN") | {"input.value": sent, "output.value": answered}

    def _named(self, kind: str) -> dict[str, Any]:
        return {"openinference.span.kind": kind, "session.id": self.session_id}


class VercelWording(SpanWording):
    """Vercel AI SDK 6: operations of its own; only the turn names the session."""

    scope, service, model = "ai", "shop-assistant", "gpt-5.1"

    def _call(self, tokens: Tokens) -> dict[str, Any]:
        return {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.response.model": self.model,
            "ai.model.provider": "openai.chat",
            "ai.usage.inputTokens": tokens.input_tokens + tokens.cached_tokens,
            "ai.usage.cachedInputTokens": tokens.cached_tokens,
            "ai.usage.outputTokens": tokens.output_tokens,
        }

    def _tool(self, tool: str, number: int, result: str | None) -> dict[str, Any]:
        told = {} if result is None else {"ai.toolCall.result": json.dumps(result)}
        return {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": tool,
            "ai.toolCall.id": f"call_{number}",
            "ai.toolCall.args": json.dumps({"order": number}),
            **told,
        }

    def _turn(self, asked: str, said: str) -> dict[str, Any]:
        return {
            "ai.operationId": "ai.generateText",
            "ai.prompt": json.dumps({"prompt": asked}),
            "ai.response.text": said,
            "ai.telemetry.metadata.sessionId": self.session_id,
        }


SPAN_WORDINGS: tuple[type[SpanWording], ...] = (PydanticAiWording, LangGraphWording, VercelWording)
