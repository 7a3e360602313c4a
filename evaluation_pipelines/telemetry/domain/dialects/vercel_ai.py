"""Spans of the Vercel AI SDK to version 6, and of 7 on request: else 7 follows the conventions."""

from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import milliseconds, text, tokens
from evaluation_pipelines.telemetry.domain.dialects.genai import GENAI, SPAN_ATTRIBUTES
from evaluation_pipelines.telemetry.domain.dialects.libraries import Library
from evaluation_pipelines.telemetry.domain.dialects.messages import parsed
from evaluation_pipelines.telemetry.domain.dialects.span_source import (
    AGENT,
    CALL,
    TOOL,
    SpanSource,
    SpanView,
)

_CACHED = ("ai.usage.cachedInputTokens", "ai.usage.inputTokenDetails.cacheReadTokens")
_OBJECTS = ("Text", "Object")
_LIBRARY = Library(
    title="Vercel AI SDK 7",
    language="javascript",
    scopes=("gen_ai", "ai"),
    packages="@ai-sdk/otel",
    code="""
import { OpenTelemetry } from "@ai-sdk/otel";
import { registerTelemetry } from "ai";

// Of each call: telemetry: { recordInputs: {content}, recordOutputs: {content} }
registerTelemetry(new OpenTelemetry({ runtimeContext: true }));
""",
    session="generateText({..., runtimeContext: { sessionId }, "
    "telemetry: { includeRuntimeContext: { sessionId: true } } })",
    unknown="reasoning tokens, retried requests",
)


def _reply(view: SpanView) -> dict[str, Any]:
    """Return the reply as a message."""
    said = text(view.attributes.get("ai.response.text"))
    said = said or text(view.attributes.get("ai.response.object"))
    calls = parsed(view.attributes.get("ai.response.toolCalls"))
    if said or calls:
        return {"reply": {"role": "assistant", "content": said, "tool_calls": calls}}
    return {}


VERCEL_AI = SpanSource(
    marks=("ai.operationId",),
    kinds=("ai.operationId",),
    roles={
        **{f"ai.generate{what}.doGenerate": CALL for what in _OBJECTS},
        **{f"ai.stream{what}.doStream": CALL for what in _OBJECTS},
        **{f"ai.{how}{what}": AGENT for how in ("generate", "stream") for what in _OBJECTS},
        "ai.toolCall": TOOL,
    },
    columns={
        **SPAN_ATTRIBUTES,
        "ai.response.model": ("model", text),
        "ai.model.id": ("model", text),
        "ai.model.provider": ("provider", text),
        "ai.response.id": ("request_id", text),
        "ai.usage.inputTokens": ("input_tokens", tokens),
        "ai.usage.promptTokens": ("input_tokens", tokens),
        "ai.usage.outputTokens": ("output_tokens", tokens),
        "ai.usage.completionTokens": ("output_tokens", tokens),
        **dict.fromkeys(_CACHED, ("cache_read_tokens", tokens)),
        "ai.usage.inputTokenDetails.cacheWriteTokens": ("cache_creation_tokens", tokens),
        "ai.usage.reasoningTokens": ("reasoning_tokens", tokens),
        "ai.usage.outputTokenDetails.reasoningTokens": ("reasoning_tokens", tokens),
        "ai.response.msToFirstChunk": ("ttft_ms", milliseconds),
        "ai.toolCall.name": ("tool_name", text),
        "ai.toolCall.id": ("tool_use_id", text),
        "ai.telemetry.metadata.userId": ("user_id", text),
    },
    ran_by=GENAI.ran_by,
    session=tuple(
        f"ai.{group}.{key}"
        for group in ("telemetry.metadata", "settings.context")
        for key in (
            *("sessionId", "session_id", "session.id", "threadId", "thread_id"),
            *("conversationId", "conversation_id", "chatId", "chat_id"),
        )
    ),
    content=(
        *("ai.prompt", "ai.response.text", "ai.response.toolCalls", "ai.response.object"),
        *("ai.toolCall.args", "ai.toolCall.result", "ai.request.headers"),
    ),
    asked=("ai.prompt.messages",),
    replied=("reply",),
    prompted=("ai.prompt",),
    answered=("reply",),
    agent=("ai.telemetry.functionId",),
    parameters=("ai.toolCall.args",),
    results=("ai.toolCall.result",),
    completes=_reply,
    cached=_CACHED,
    libraries={"vercel-ai": _LIBRARY},
)
