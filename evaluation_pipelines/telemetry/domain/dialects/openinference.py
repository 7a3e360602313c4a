"""Spans of OpenInference, and the libraries that it instruments."""

from collections.abc import Mapping
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import dollars, text, tokens
from evaluation_pipelines.telemetry.domain.dialects.genai import GENAI, SPAN_ATTRIBUTES
from evaluation_pipelines.telemetry.domain.dialects.libraries import Library
from evaluation_pipelines.telemetry.domain.dialects.messages import parsed
from evaluation_pipelines.telemetry.domain.dialects.span_source import (
    AGENT,
    CALL,
    CHAIN,
    PART,
    TOOL,
    SpanSource,
    SpanView,
)

_CACHED = "llm.token_count.prompt_details.cache_read"


def _role(view: SpanView, role: str) -> str:
    if role == TOOL and view.name.startswith("handoff to "):
        return PART
    # The OpenAI SDK reports its workflow as an agent.
    is_workflow = role == AGENT and view.scope.endswith(".openai_agents")
    return CHAIN if is_workflow and not view.has(("agent.name",)) else role


def _complete(view: SpanView) -> dict[str, Any]:
    """Return the name of an agent from that of its span, and the first task of CrewAI."""
    found = dict[str, Any]()
    name, dot, _ = view.name.rpartition(".run")
    if dot and name and view.attributes.get("openinference.span.kind") == "AGENT":
        found["agent.name"] = name
    tasks = parsed(view.attributes.get("crew_tasks"))
    if isinstance(tasks, list) and tasks and isinstance(tasks[0], dict):
        found["task"] = text(tasks[0].get("description"))
    return found


_HIDES: Mapping[str, str] = {
    "OPENINFERENCE_HIDE_INPUTS": "true",
    "OPENINFERENCE_HIDE_OUTPUTS": "true",
}
_USING = "with openinference.instrumentation.using_session(SESSION_ID): "

LIBRARIES = {
    "openai-agents": Library(
        title="OpenAI Agents SDK (OpenInference)",
        scopes=("openinference.instrumentation.openai_agents",),
        packages="openinference-instrumentation-openai-agents",
        code="""
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

OpenAIAgentsInstrumentor().instrument(tracer_provider=PROVIDER)
""",
        texts_off=_HIDES,
        session=f"{_USING}Runner.run(...)",
        unknown="retried requests, cached tokens of chat completions, canceled runs",
    ),
    "langgraph": Library(
        title="LangGraph, LangChain (OpenInference)",
        scopes=("openinference.instrumentation.langchain",),
        packages="openinference-instrumentation-langchain",
        code="""
from openinference.instrumentation.langchain import LangChainInstrumentor

LangChainInstrumentor().instrument(tracer_provider=PROVIDER)
""",
        texts_off=_HIDES,
        session='agent.invoke(..., {"configurable": {"thread_id": SESSION_ID}})',
        unknown="retried requests",
    ),
    "crewai": Library(
        title="CrewAI (OpenInference)",
        scopes=("openinference.instrumentation.crewai",),
        packages="openinference-instrumentation-crewai openinference-instrumentation-openai",
        code="""
from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor

# The second one sends the requests to the model: without it there are no tokens.
CrewAIInstrumentor().instrument(tracer_provider=PROVIDER)
OpenAIInstrumentor().instrument(tracer_provider=PROVIDER)
""",
        texts_off=_HIDES,
        session=f"{_USING}crew.kickoff(...)",
        unknown="retries by the client, coworkers as agents",
    ),
    "smolagents": Library(
        title="smolagents (OpenInference)",
        scopes=("openinference.instrumentation.smolagents",),
        packages="openinference-instrumentation-smolagents",
        code="""
from openinference.instrumentation.smolagents import SmolagentsInstrumentor

SmolagentsInstrumentor().instrument(tracer_provider=PROVIDER)
""",
        texts_off=_HIDES,
        session=f"{_USING}agent.run(...)",
        unknown="cached and reasoning tokens, retried requests",
    ),
}

OPENINFERENCE = SpanSource(
    marks=("openinference.span.kind",),
    kinds=("openinference.span.kind",),
    roles={"LLM": CALL, "TOOL": TOOL, "AGENT": AGENT, "CHAIN": CHAIN},
    columns={
        **SPAN_ATTRIBUTES,
        "llm.model_name": ("model", text),
        "llm.provider": ("provider", text),
        "llm.system": ("provider", text),
        "llm.token_count.prompt": ("input_tokens", tokens),
        "llm.token_count.completion": ("output_tokens", tokens),
        _CACHED: ("cache_read_tokens", tokens),
        "llm.token_count.prompt_details.cache_write": ("cache_creation_tokens", tokens),
        "llm.token_count.completion_details.reasoning": ("reasoning_tokens", tokens),
        "llm.cost.total": ("cost_usd", dollars),
        "tool.name": ("tool_name", text),
        "tool_call.id": ("tool_use_id", text),
    },
    ran_by=GENAI.ran_by,
    content=(
        *("llm.input_messages", "llm.output_messages", "llm.tools", "llm.invocation_parameters"),
        *("llm.prompts", "llm.completions", "input.value", "output.value", "tool.description"),
        *("tool.parameters", "crew_tasks", "crew_agents", "smolagents.task", "metadata"),
    ),
    asked=("llm.input_messages.", "input.value"),
    replied=("llm.output_messages.", "output.value"),
    prompted=("task", "smolagents.task", "input.value"),
    answered=("output.value",),
    agent=("agent.name", "graph.node.id"),
    parameters=("input.value", "tool.parameters"),
    results=("output.value",),
    # ``tool.parameters`` can be a schema, and shows no call.
    outcome=lambda view, success: success if view.has(("input.value",)) else view.succeeded,
    role=_role,
    completes=_complete,
    cached=(_CACHED,),
    libraries=LIBRARIES,
)
