"""Two prompts to an agent of the OpenAI Agents SDK, with OpenInference."""

import tracing
from agents import Agent, Runner, function_tool
from openinference.instrumentation import using_session
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

OpenAIAgentsInstrumentor().instrument(tracer_provider=tracing.PROVIDER)
agent = Agent(name="guide", model="gpt-4.1-mini", tools=[function_tool(tracing.look_up)])
with using_session("openai-agents-session"):
    first = Runner.run_sync(agent, "Where are Oslo and Atlantis?")
    Runner.run_sync(agent, [*first.to_input_list(), {"role": "user", "content": "Are you sure?"}])
tracing.PROVIDER.shutdown()
