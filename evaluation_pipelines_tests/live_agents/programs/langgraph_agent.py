"""Two prompts to an agent of LangGraph, with OpenInference."""

from collections.abc import Callable

import tracing
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain.messages import ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt.tool_node import ToolCallRequest
from openinference.instrumentation.langchain import LangChainInstrumentor

LangChainInstrumentor().instrument(tracer_provider=tracing.PROVIDER)


@wrap_tool_call
def told_to_the_model(
    request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage]
) -> ToolMessage:
    """Return the failure of a tool to the model, which would end the run otherwise."""
    try:
        return handler(request)
    except KeyError as error:
        return ToolMessage(
            f"unknown: {error}", tool_call_id=request.tool_call["id"], status="error"
        )


agent = create_agent(
    ChatOpenAI(model="gpt-4.1-mini"),
    [tracing.look_up],
    middleware=[told_to_the_model],
    checkpointer=InMemorySaver(),
    name="guide",
)
thread = {"configurable": {"thread_id": "langgraph-session"}}
for prompt in ("Where are Oslo and Atlantis?", "Are you sure?"):
    agent.invoke({"messages": [("user", prompt)]}, thread)
tracing.PROVIDER.shutdown()
