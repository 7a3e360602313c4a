"""Two prompts to an agent of Pydantic AI."""

import tracing
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

agent = Agent(
    "openai-chat:gpt-4.1-mini",
    name="guide",
    capabilities=[Instrumentation(settings=InstrumentationSettings(include_content=True))],
)


@agent.tool_plain(retries=2)
def look_up(place: str) -> str:
    """Return the country of a place."""
    try:
        return tracing.look_up(place)
    except KeyError as error:
        raise ModelRetry(f"{place} is unknown") from error


first = agent.run_sync("Where are Oslo and Atlantis?")
agent.run_sync("Are you sure?", message_history=first.all_messages())
tracing.PROVIDER.shutdown()
