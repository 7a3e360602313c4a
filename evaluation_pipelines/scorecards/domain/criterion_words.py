"""Criteria in words for people."""

from collections.abc import Mapping

COMPUTED: Mapping[str, str] = {
    "response_time": "how little active time each prompt takes",
    "token_efficiency": "how few tokens are written for each one that is read",
    "tool_count": "how few tool calls each prompt takes",
    "performance.quality": "share of tool calls that succeeded",
    "performance.autonomy": "tool calls for each prompt: how far it comes by itself",
    "performance.productivity": "successful tool calls for each active minute",
    "performance.token_efficiency": "share of all tokens that came from the cache",
    "performance.cost_efficiency": "how little each successful tool call costs",
    "performance.composite": "quality, autonomy, productivity, token efficiency and cost "
    "efficiency of the whole session together, from its figures",
    "tool_effectiveness": "share of tool calls that neither failed nor were wasted or repeated",
}
"""Computed criterion -> what it measures."""


def criterion_name(criterion_id: str) -> str:
    """Return the id of a criterion as words: ``performance.cost_efficiency`` is Cost efficiency."""
    return criterion_id.rpartition(".")[2].replace("_", " ").capitalize()
