"""Frameworks with spans of the GenAI conventions, where they depart from them, and LangSmith."""

from dataclasses import replace
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import text, tokens
from evaluation_pipelines.telemetry.domain.dialects.dialect import Row
from evaluation_pipelines.telemetry.domain.dialects.genai import CONVENTIONS, SPAN_ATTRIBUTES
from evaluation_pipelines.telemetry.domain.dialects.libraries import Library
from evaluation_pipelines.telemetry.domain.dialects.messages import parsed_object
from evaluation_pipelines.telemetry.domain.dialects.span_source import (
    CALL,
    CHAIN,
    OUTCOME,
    PART,
    TOOL,
    SpanSource,
    SpanView,
)

PYDANTIC_AI = replace(
    CONVENTIONS,
    scopes=("pydantic-ai",),
    content=(
        *("pydantic_ai.all_messages", "model_request_parameters", "logfire.json_schema"),
        *("final_result", "tool_arguments", "tool_response"),
    ),
    prompted=(*CONVENTIONS.prompted, "pydantic_ai.all_messages"),
    answered=("final_result", *CONVENTIONS.answered),
    agent=("gen_ai.agent.name", "agent_name", "gen_ai.agent.id"),
    parameters=(*CONVENTIONS.parameters, "tool_arguments"),
    results=(*CONVENTIONS.results, "tool_response"),
    libraries={
        "pydantic-ai": Library(
            title="Pydantic AI",
            scopes=("pydantic-ai",),
            packages="pydantic-ai-slim",
            code="""
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

# Agent(..., capabilities=[INSTRUMENTATION])
INSTRUMENTATION = Instrumentation(settings=InstrumentationSettings(include_content={content}))
""",
            session="agent.run(..., message_history=...) goes on with a session",
            has_session=True,
            unknown="retried requests",
        )
    },
)


def _adk_role(view: SpanView, role: str) -> str:
    if view.attributes.get("gen_ai.tool.name") == "(merged tools)":
        return PART
    by_name = {"call_llm": CALL, "invocation": CHAIN}  # of schema 1
    return role if view.first(CONVENTIONS.kinds) else by_name.get(view.name, role)


def _adk_outcome(view: SpanView, success: bool | None) -> bool | None:  # noqa: FBT001 - three values
    is_open = success and view.attributes.get("gen_ai.tool.call.id") == "<not specified>"
    return None if is_open else success


GOOGLE_ADK = replace(
    CONVENTIONS,
    scopes=("gcp.vertex.agent",),
    session=("gcp.vertex.agent.session_id",),
    content=("gcp.vertex.agent.llm_", "gcp.vertex.agent.tool_"),
    asked=(*CONVENTIONS.asked, "gcp.vertex.agent.llm_request"),
    replied=(*CONVENTIONS.replied, "gcp.vertex.agent.llm_response"),
    parameters=(*CONVENTIONS.parameters, "gcp.vertex.agent.tool_call_args"),
    results=(*CONVENTIONS.results, "gcp.vertex.agent.tool_response"),
    role=_adk_role,
    outcome=_adk_outcome,
    libraries={
        "google-adk": Library(
            title="Google ADK",
            scopes=("gcp.vertex.agent",),
            packages="google-adk",
            texts_on={
                "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
                "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_AND_EVENT",
            },
            texts_off={"ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": "false"},
            session="the ADK session, on every run",
            has_session=True,
            unknown="retried requests, tools that return an error, canceled tools",
        )
    },
)


def _strands_tool(view: SpanView) -> dict[str, Any]:
    """Return parameters and result of a tool, which are span events."""
    found = {
        CONVENTIONS.parameters[0]: view.event("gen_ai.tool.message").get("content"),
        CONVENTIONS.results[0]: view.event("gen_ai.choice").get("message"),
    }
    return {name: value for name, value in found.items() if value is not None}


STRANDS = replace(
    CONVENTIONS,
    scopes=("strands*",),
    needs=CONVENTIONS.kinds[:1],
    outcome=lambda view, success: (
        success if not success or view.has(("gen_ai.tool.status",)) else None
    ),
    completes=_strands_tool,
    libraries={
        "strands": Library(
            title="Strands Agents",
            scopes=("strands.telemetry.tracer",),
            packages="strands-agents",
            texts_off={"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_unredacted_attributes="},
            session='Agent(..., trace_attributes={"session.id": SESSION_ID})',
            unknown="retried requests, reasoning tokens, canceled tools",
        )
    },
)
AGENT_FRAMEWORK = replace(
    CONVENTIONS,
    scopes=("agent_framework",),
    needs=CONVENTIONS.kinds[:1],
    libraries={
        "agent-framework": Library(
            title="Microsoft Agent Framework",
            scopes=("agent_framework",),
            packages="agent-framework-core",
            texts_on={"ENABLE_SENSITIVE_DATA": "true"},
            unknown="sessions: each run is one, retried requests, canceled tools",
        )
    },
)
OPENAI_V2 = replace(
    CONVENTIONS,
    scopes=("opentelemetry.instrumentation.openai_v2",),
    needs=CONVENTIONS.kinds[:1],
    cached=("gen_ai.usage.cache_read.input_tokens",),
)
_USAGE = "langsmith.metadata.usage_metadata"


def _add_tokens(row: Row, rest: dict[str, Any]) -> None:
    """Set the tokens from the metadata."""
    usage = parsed_object(rest.pop(_USAGE, None))
    inputs, outputs = (
        usage[name] if isinstance(usage.get(name), dict) else {}
        for name in ("input_token_details", "output_token_details")
    )
    found = {
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cache_read_tokens": inputs.get("cache_read"),
        "cache_creation_tokens": inputs.get("cache_creation"),
        "reasoning_tokens": outputs.get("reasoning"),
    }
    for name, value in found.items():
        if isinstance(number := tokens(value), int):
            row.setdefault(name, number)


LANGSMITH = SpanSource(
    marks=("langsmith.span.kind",),
    kinds=("langsmith.span.kind",),
    roles={"llm": CALL, "tool": TOOL, "chain": CHAIN},
    columns={**SPAN_ATTRIBUTES, "langsmith.metadata.user_id": ("user_id", text)},
    ran_by=CONVENTIONS.ran_by,
    session=("langsmith.metadata.thread_id", "langsmith.metadata.session_id"),
    content=("langsmith.metadata.LANGSMITH",),
    asked=("gen_ai.prompt",),
    replied=("gen_ai.completion",),
    prompted=("gen_ai.prompt",),
    answered=("gen_ai.completion",),
    agent=("langsmith.metadata.lc_agent_name",),
    parameters=("gen_ai.prompt",),
    results=("gen_ai.completion",),
    # Stopped ones have an exception. Results can be hidden alone.
    outcome=lambda view, _: view.succeeded and (None if view.event("exception") else True),
    refine=_add_tokens,
    failed=lambda view: view.has_failed or bool(view.event("exception")),
)

_OPENLIT_OUTCOMES = ("coding_agent.git.commit", "coding_agent.edit.decision")
OPENLIT = replace(
    CONVENTIONS,
    scopes=("openlit-cli",),
    needs=("coding_agent.session.id",),
    marks=("coding_agent.",),
    role=lambda view, role: OUTCOME if view.name in _OPENLIT_OUTCOMES else role,
    session=("coding_agent.session.id",),
    content=(
        *("coding_agent.llm.thought.", "coding_agent.tool.agent_message", "coding_agent.subagent."),
        *("coding_agent.git.commit.message", "coding_agent.git.pull_request.title"),
        *("coding_agent.tool.command", "coding_agent.llm.turn.attachment.paths"),
        *("code.cwd", "code.file.path"),  # folders name people
    ),
)
"""The command line program of OpenLIT, called by hooks of agent programs.

Its names are in https://github.com/openlit/openlit, ``sdk/go/semconv/coding_agent.go``.
"""

FRAMEWORKS = (PYDANTIC_AI, GOOGLE_ADK, STRANDS, AGENT_FRAMEWORK, OPENAI_V2, OPENLIT)
