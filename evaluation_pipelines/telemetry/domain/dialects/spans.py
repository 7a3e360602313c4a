"""Spans of libraries and agent programs: a SpanSource for each convention.

Each convention has its attribute names here once. Where programs depart from their convention, a
function reads them.
"""

from collections.abc import Iterator
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import (
    dollars,
    milliseconds,
    text,
    tokens,
)
from evaluation_pipelines.telemetry.domain.dialects.claude_code import (
    TOOL_CLASSES as CLAUDE_CLASSES,
)
from evaluation_pipelines.telemetry.domain.dialects.genai import CALL_COLUMNS
from evaluation_pipelines.telemetry.domain.spans.messages import (
    Message,
    newest_first,
    parsed,
    parsed_object,
)
from evaluation_pipelines.telemetry.domain.spans.source import (
    AGENT,
    APPROVAL,
    CALL,
    CHAIN,
    EXECUTION,
    PART,
    TOOL,
    Outcome,
    SpanSource,
    SpanView,
    by_attributes,
    outcome_by_status,
)

SESSION_KEYS = (
    "session.id",
    "gen_ai.conversation.id",
    "conversation.id",
    "langsmith.metadata.thread_id",
    "langsmith.metadata.session_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.conversation_id",
    "gcp.vertex.agent.session_id",
    "langfuse.session.id",
    *(
        f"ai.{group}.{key}"
        for group in ("telemetry.metadata", "settings.context")
        for key in (
            *("sessionId", "session_id", "session.id", "threadId", "thread_id"),
            *("conversationId", "conversation_id", "chatId", "chat_id"),
        )
    ),
)
"""Attributes with the id of a session, the most reliable first."""

TEXTS = (
    *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"),
    *("gen_ai.tool.definitions", "gen_ai.tool.description", "gen_ai.tool.json_schema"),
    *(
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.prompt",
        "gen_ai.completion",
    ),
    *("gen_ai.task.input", "gen_ai.task.output", "traceloop.entity.input"),
    *("traceloop.entity.output", "llm.input_messages", "llm.output_messages", "llm.tools"),
    *("llm.invocation_parameters", "llm.prompts", "llm.completions", "input.value"),
    *("output.value", "tool.description", "tool.parameters", "pydantic_ai.all_messages"),
    *("model_request_parameters", "logfire.json_schema", "final_result", "tool_arguments"),
    *("tool_response", "ai.prompt", "ai.response.text", "ai.response.toolCalls"),
    *("ai.response.object", "ai.toolCall.args", "ai.toolCall.result", "ai.request.headers"),
    *("gcp.vertex.agent.llm_", "gcp.vertex.agent.tool_", "crew_tasks", "crew_agents"),
    *("smolagents.task", "langsmith.metadata.LANGSMITH", "user_prompt", "metadata"),
    *("langsmith.metadata.usage_metadata", "memory", "traceloop.association.properties."),
)
"""Prefixes of attributes with content, history or descriptions of tools."""

_GENAI = {
    **CALL_COLUMNS,
    "gen_ai.usage.cache_write.input_tokens": ("cache_creation_tokens", tokens),
    "gen_ai.usage.cache_read_input_tokens": ("cache_read_tokens", tokens),
    "gen_ai.usage.cache_write_input_tokens": ("cache_creation_tokens", tokens),
    "gen_ai.usage.cache_creation_input_tokens": ("cache_creation_tokens", tokens),
    "gen_ai.usage.details.reasoning_tokens": ("reasoning_tokens", tokens),
    "operation.cost": ("cost_usd", dollars),
}
_OPENINFERENCE = {
    **_GENAI,
    "llm.model_name": ("model", text),
    "llm.provider": ("provider", text),
    "llm.system": ("provider", text),
    "llm.token_count.prompt": ("input_tokens", tokens),
    "llm.token_count.completion": ("output_tokens", tokens),
    "llm.token_count.prompt_details.cache_read": ("cache_read_tokens", tokens),
    "llm.token_count.prompt_details.cache_write": ("cache_creation_tokens", tokens),
    "llm.token_count.completion_details.reasoning": ("reasoning_tokens", tokens),
    "llm.cost.total": ("cost_usd", dollars),
    "tool.name": ("tool_name", text),
    "tool_call.id": ("tool_use_id", text),
}
_AI_SDK = {
    **_GENAI,
    "ai.response.model": ("model", text),
    "ai.model.id": ("model", text),
    "ai.model.provider": ("provider", text),
    "ai.response.id": ("request_id", text),
    "ai.usage.inputTokens": ("input_tokens", tokens),
    "ai.usage.promptTokens": ("input_tokens", tokens),
    "ai.usage.outputTokens": ("output_tokens", tokens),
    "ai.usage.completionTokens": ("output_tokens", tokens),
    "ai.usage.cachedInputTokens": ("cache_read_tokens", tokens),
    "ai.usage.inputTokenDetails.cacheReadTokens": ("cache_read_tokens", tokens),
    "ai.usage.inputTokenDetails.cacheWriteTokens": ("cache_creation_tokens", tokens),
    "ai.usage.reasoningTokens": ("reasoning_tokens", tokens),
    "ai.usage.outputTokenDetails.reasoningTokens": ("reasoning_tokens", tokens),
    "ai.response.msToFirstChunk": ("ttft_ms", milliseconds),
    "ai.toolCall.name": ("tool_name", text),
    "ai.toolCall.id": ("tool_use_id", text),
    "ai.telemetry.metadata.userId": ("user_id", text),
}
_LANGSMITH = {**_GENAI, "langsmith.metadata.user_id": ("user_id", text)}


# -- GenAI conventions -----------------------------------------------------------------------------

_OPERATIONS = {
    **dict.fromkeys(("chat", "generate_content", "text_completion", "llm_call", "call_llm"), CALL),
    **dict.fromkeys(("execute_tool", "tool_call", "tool"), TOOL),
    **dict.fromkeys(("invoke_agent", "agent", "agent_call"), AGENT),
    **dict.fromkeys(("invoke_workflow", "invoke_swarm", "workflow", "invoke_graph"), CHAIN),
    **dict.fromkeys(("completion",), CALL),
}
_ARGUMENTS = (
    *("gen_ai.tool.call.arguments", "tool_arguments", "gcp.vertex.agent.tool_call_args"),
    "traceloop.entity.input",
)
_RESULTS = (
    *("gen_ai.tool.call.result", "tool_response", "gcp.vertex.agent.tool_response"),
    "traceloop.entity.output",
)
_COPILOT_CLASSES = {
    **dict.fromkeys(("view", "read_bash", "list_bash"), "read"),
    **dict.fromkeys(("grep", "glob", "rg"), "search"),
    **dict.fromkeys(("edit", "str_replace_editor", "apply_patch"), "edit"),
    "create": "write",
    **dict.fromkeys(("bash", "powershell", "write_bash", "stop_bash"), "shell"),
    **dict.fromkeys(("web_fetch", "web_search"), "web"),
    "task": "agent",
}


def _convention_role(view: SpanView, kind: str, role: str) -> str:
    if not kind and view.name == "call_llm":  # of Google ADK, schema 1
        return CALL
    if not kind and view.name == "invocation":
        return CHAIN
    is_merged = view.attributes.get("gen_ai.tool.name") == "(merged tools)"
    return PART if is_merged else role


def _convention_outcome(view: SpanView) -> Outcome:
    outcome = outcome_by_status(view)
    if not outcome.success:
        return outcome
    if view.scope.startswith("strands"):
        return outcome if view.has(("gen_ai.tool.status",)) else Outcome(None)
    if view.scope == "gemini-cli":
        status = parsed_object(text(view.attributes.get("gen_ai.output.messages"))).get("status")
        began = (text(view.attributes.get("gen_ai.output.messages")) or "")[:40]
        is_error = status == "error" or began.startswith('{"status":"error"')
        return Outcome(success=False) if is_error else outcome
    if view.attributes.get("gen_ai.tool.call.id") == "<not specified>":
        return Outcome(None)
    # Libraries that send arguments send the result as well, unless the call was cancelled.
    return outcome if view.has(_RESULTS) or not view.has(_ARGUMENTS) else Outcome(None)


_ASKED = ("gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message")


def _of_events(view: SpanView, *names: str) -> Iterator[Message]:
    """Yield messages in span events of Strands: one per event, or all in one."""
    details = view.event("gen_ai.client.inference.operation.details")
    key = "gen_ai.output.messages" if "gen_ai.choice" in names else "gen_ai.input.messages"
    if key in details:
        yield from newest_first(details[key])
        return
    for name, sent in reversed(view.events):
        if name in names:
            role = name.split(".")[1]
            content = parsed(sent.get("content") or sent.get("message"))
            role = "assistant" if role == "choice" else role
            yield from newest_first({"role": role, "parts": content or []})


def _asked(view: SpanView) -> Iterator[Message]:
    names = ("gen_ai.input.messages", "gcp.vertex.agent.llm_request")
    return _either(view.messages(*names), _flat(view, "gen_ai.prompt."), _of_events(view, *_ASKED))


def _replied(view: SpanView) -> Iterator[Message]:
    names = ("gen_ai.output.messages", "gcp.vertex.agent.llm_response")
    events = _of_events(view, "gen_ai.choice")
    return _either(view.messages(*names), _flat(view, "gen_ai.completion."), events)


def _prompted(view: SpanView) -> Iterator[Message]:
    if sent := text(view.event("github.copilot.user.message").get("content")):
        return iter([Message("user", sent)])
    names = ("gen_ai.input.messages", "pydantic_ai.all_messages", "traceloop.entity.input")
    return _either(view.messages(*names), _of_events(view, "gen_ai.user.message"))


def _answered(view: SpanView) -> Iterator[Message]:
    if result := text(view.attributes.get("final_result")):
        return iter([Message("assistant", result)])
    names = ("gen_ai.output.messages", "traceloop.entity.output")
    return _either(view.messages(*names), _of_events(view, "gen_ai.choice"))


def _either(*places: Iterator[Message]) -> Iterator[Message]:
    """Yield the messages of the first place with any."""
    for place in places:
        if (last := next(place, None)) is not None:
            yield last
            yield from place
            return


def _flat(view: SpanView, prefix: str) -> Iterator[Message]:
    """Yield the last message with an attribute per field: ``PREFIX.0.message.content``."""
    sent = {key[len(prefix) :]: key for key in view.attributes if key.startswith(prefix)}
    numbers = [int(each) for key in sent if (each := key.partition(".")[0]).isdecimal()]
    if not numbers:
        return
    start, role, texts = f"{max(numbers)}.", "", list[str]()
    calls: dict[str, dict[str, Any]] = {}
    for field, key in sent.items():
        name, value = field.removeprefix(start).removeprefix("message."), view.attributes[key]
        if not field.startswith(start):
            continue
        if name == "role":
            role = str(value)
        elif name == "content" or name.endswith("message_content.text"):
            texts.append(text(value) or "")
        elif name.startswith("tool_calls."):
            which, _, inner = name.removeprefix("tool_calls.").partition(".")
            inner = inner.removeprefix("tool_call.").removeprefix("function.")
            calls.setdefault(which, {})[inner] = value
    role = {"human": "user", "ai": "assistant"}.get(role, role)
    yield Message(role, "\n".join(dict.fromkeys(filter(None, texts))), list(calls.values()))


def _event_parameters(view: SpanView) -> Any:
    if view.scope == "gemini-cli":
        return parsed_object(text(view.attributes.get("gen_ai.input.messages"))).get("args")
    return view.event("gen_ai.tool.message").get("content")


def _event_result(view: SpanView) -> Any:
    if view.scope == "gemini-cli":
        return parsed_object(text(view.attributes.get("gen_ai.output.messages"))).get("response")
    return view.event("gen_ai.choice").get("message")


def _is_convention(scope: str, names: frozenset[str]) -> bool:
    kinds = ("gen_ai.operation.name", "traceloop.span.kind", "llm.request.type")
    return (
        any(kind in names for kind in kinds)
        or scope in _CONVENTION_SCOPES
        or any(name.startswith("gen_ai.") for name in names)
    )


_WITHOUT_CACHED = ("gemini-cli", "opentelemetry.instrumentation.openai_v2")
_CONVENTION_SCOPES = ("gcp.vertex.agent", "github.copilot", "gemini-cli", "pydantic-ai")

CONVENTIONS = SpanSource(
    source_cli="genai",
    recognizes=_is_convention,
    kinds=("gen_ai.operation.name", "traceloop.span.kind", "llm.request.type"),
    roles=_OPERATIONS,
    columns=_GENAI,
    asked=_asked,
    replied=_replied,
    prompted=_prompted,
    answered=_answered,
    agent=("gen_ai.agent.name", "agent_name", "gen_ai.agent.id"),
    parameters=_ARGUMENTS,
    results=_RESULTS,
    role_of=_convention_role,
    outcome=_convention_outcome,
    parameters_of=_event_parameters,
    result_of=_event_result,
    tells_cached=lambda scope, _: scope not in _WITHOUT_CACHED,
    tool_classes=_COPILOT_CLASSES,
)


# -- OpenInference ---------------------------------------------------------------------------------


def _inference_role(view: SpanView, _: str, role: str) -> str:
    if role == TOOL and view.name.startswith("handoff to "):
        return PART
    # The OpenAI SDK reports its workflow as an agent.
    is_workflow = role == AGENT and view.scope.endswith(".openai_agents")
    return CHAIN if is_workflow and not view.has(("agent.name",)) else role


def _inference_prompt(view: SpanView) -> Iterator[Message]:
    tasks = parsed(view.attributes.get("crew_tasks"))
    if isinstance(tasks, list) and tasks and isinstance(tasks[0], dict):
        return iter([Message("user", text(tasks[0].get("description")) or "")])
    return view.messages("smolagents.task", "input.value")


def _inference_answer(view: SpanView) -> Iterator[Message]:
    sent = parsed(view.attributes.get("output.value"))
    is_text = isinstance(sent, str) and bool(sent)
    return iter([Message("assistant", sent)]) if is_text else view.messages("output.value")


def _inference_agent(view: SpanView) -> dict[str, Any]:
    """Return the name of an agent from the name of its span."""
    name, dot, _ = view.name.rpartition(".run")
    is_agent = view.attributes.get("openinference.span.kind") == "AGENT"
    return {"agent.name": name} if dot and is_agent and name else {}


def _result_outcome(view: SpanView) -> Outcome:
    """Return the outcome of a tool: a missing result means cancelled."""
    outcome = outcome_by_status(view)
    is_open = outcome.success and view.has(("input.value",)) and not view.has(("output.value",))
    return Outcome(None) if is_open else outcome


OPENINFERENCE = SpanSource(
    source_cli="genai",
    recognizes=lambda _, names: "openinference.span.kind" in names,
    kinds=("openinference.span.kind",),
    roles={"LLM": CALL, "TOOL": TOOL, "AGENT": AGENT, "CHAIN": CHAIN},
    columns=_OPENINFERENCE,
    asked=lambda view: _either(_flat(view, "llm.input_messages."), view.messages("input.value")),
    replied=lambda view: _either(
        _flat(view, "llm.output_messages."), view.messages("output.value")
    ),
    prompted=_inference_prompt,
    answered=_inference_answer,
    agent=("agent.name", "graph.node.id"),
    parameters=("input.value", "tool.parameters"),
    results=("output.value",),
    role_of=_inference_role,
    outcome=_result_outcome,
    completes=_inference_agent,
    tells_cached=lambda _, names: "llm.token_count.prompt_details.cache_read" in names,
)


# -- LangSmith -------------------------------------------------------------------------------------


def _usage(view: SpanView) -> dict[str, Any]:
    """Return tokens from the metadata under the names of the conventions."""
    usage = parsed_object(text(view.attributes.get("langsmith.metadata.usage_metadata")))
    details = {"cache_read": "input_token_details", "cache_creation": "input_token_details"}
    found = {f"gen_ai.usage.{name}": usage.get(name) for name in ("input_tokens", "output_tokens")}
    for name, group in details.items():
        inner = usage.get(group)
        if isinstance(inner, dict):
            found[f"gen_ai.usage.{name}.input_tokens"] = inner.get(name)
    inner = usage.get("output_token_details")
    if isinstance(inner, dict):
        found["gen_ai.usage.reasoning.output_tokens"] = inner.get("reasoning")
    known = view.attributes
    return {k: v for k, v in found.items() if v is not None and k not in known}


def _smith_outcome(view: SpanView) -> Outcome:
    outcome = outcome_by_status(view)
    stopped = outcome.success and bool(view.event("exception"))
    return Outcome(None) if stopped else outcome


LANGSMITH = SpanSource(
    source_cli="genai",
    recognizes=lambda _, names: "langsmith.span.kind" in names,
    kinds=("langsmith.span.kind",),
    roles={"llm": CALL, "tool": TOOL, "chain": CHAIN},
    columns=_LANGSMITH,
    asked=by_attributes("gen_ai.prompt"),
    replied=by_attributes("gen_ai.completion"),
    prompted=by_attributes("gen_ai.prompt"),
    answered=by_attributes("gen_ai.completion"),
    agent=("langsmith.metadata.lc_agent_name",),
    parameters=("gen_ai.prompt",),
    results=("gen_ai.completion",),
    outcome=_smith_outcome,
    completes=_usage,
    failed=lambda view: view.has_failed or bool(view.event("exception")),
)


# -- Vercel AI SDK ---------------------------------------------------------------------------------


def _vercel_reply(view: SpanView) -> list[Message]:
    said = text(view.attributes.get("ai.response.text")) or ""
    said = said or text(view.attributes.get("ai.response.object")) or ""
    calls = parsed(view.attributes.get("ai.response.toolCalls"))
    calls = calls if isinstance(calls, list) else []
    return [Message("assistant", said, calls)] if said or calls else []


def _vercel_outcome(view: SpanView) -> Outcome:
    outcome = outcome_by_status(view)
    is_open = view.has(("ai.toolCall.args",)) and not view.has(("ai.toolCall.result",))
    return Outcome(None) if outcome.success and is_open else outcome


_VERCEL_CACHED = ("ai.usage.cachedInputTokens", "ai.usage.inputTokenDetails.cacheReadTokens")
_OBJECTS = ("Text", "Object")
VERCEL = SpanSource(
    source_cli="genai",
    recognizes=lambda _, names: "ai.operationId" in names,
    kinds=("ai.operationId",),
    roles={
        **{f"ai.generate{what}.doGenerate": CALL for what in _OBJECTS},
        **{f"ai.stream{what}.doStream": CALL for what in _OBJECTS},
        **{f"ai.{how}{what}": AGENT for how in ("generate", "stream") for what in _OBJECTS},
        "ai.toolCall": TOOL,
    },
    columns=_AI_SDK,
    asked=by_attributes("ai.prompt.messages"),
    replied=_vercel_reply,
    prompted=by_attributes("ai.prompt"),
    answered=_vercel_reply,
    agent=("ai.telemetry.functionId",),
    parameters=("ai.toolCall.args",),
    results=("ai.toolCall.result",),
    outcome=_vercel_outcome,
    tells_cached=lambda _, names: not names.isdisjoint(_VERCEL_CACHED),
)


# -- Claude Code -----------------------------------------------------------------------------------

_CLAUDE_COLUMNS = {
    "model": ("model", text),
    "request_id": ("request_id", text),
    "query_source_safe": ("query_source", text),
    "input_tokens": ("input_tokens", tokens),
    "output_tokens": ("output_tokens", tokens),
    "cache_read_tokens": ("cache_read_tokens", tokens),
    "cache_creation_tokens": ("cache_creation_tokens", tokens),
    "ttft_ms": ("ttft_ms", milliseconds),
    "tool_name": ("tool_name", text),
    "tool_use_id": ("tool_use_id", text),
    "subagent_type": ("subagent", text),
    "gen_ai.provider.name": ("provider", text),
}


def _claude_tool(view: SpanView) -> Any:
    names = ("full_command", "file_path", "subagent_type")
    found = {name: view.attributes[name] for name in names if name in view.attributes}
    if "full_command" in found:
        found["command"] = found.pop("full_command")
    return found or None


def _claude_output(view: SpanView) -> Any:
    output = view.event("tool.output")
    return next((output[n] for n in ("output", "content", "result") if output.get(n)), None)


def _claude_outcome(view: SpanView) -> Outcome:
    """Return the outcome of an execution. The tool around it has none."""
    success = view.attributes.get("success")
    if success in (True, "true", False, "false"):
        return Outcome(success in (True, "true"))
    return Outcome(success=False if view.has_failed else None)


def _claude_prompt(view: SpanView) -> list[Message]:
    sent = text(view.attributes.get("user_prompt"))
    return [Message("user", sent)] if sent else []


CLAUDE = SpanSource(
    source_cli="claude_code",
    recognizes=lambda scope, names: (
        scope.startswith("com.anthropic.claude_code") and "span.type" in names
    ),
    kinds=("span.type",),
    roles={
        "interaction": AGENT,
        "llm_request": CALL,
        "tool": TOOL,
        "tool.execution": EXECUTION,
        "tool.blocked_on_user": APPROVAL,
    },
    columns=_CLAUDE_COLUMNS,
    asked=by_attributes(),
    replied=by_attributes(),
    prompted=_claude_prompt,
    answered=by_attributes(),
    agent=(),
    parameters=(),
    results=(),
    outcome=_claude_outcome,
    parameters_of=_claude_tool,
    result_of=_claude_output,
    failed=lambda view: view.has_failed or view.attributes.get("success") in (False, "false"),
    includes_cached=False,
    tool_classes=CLAUDE_CLASSES,
)


SPAN_SOURCES = (CLAUDE, OPENINFERENCE, LANGSMITH, VERCEL, CONVENTIONS)
"""All sources, in the order in which they are tried."""

UNREAD_SCOPES = ("codex",)
"""Scopes with spans that only repeat the program's logs."""
