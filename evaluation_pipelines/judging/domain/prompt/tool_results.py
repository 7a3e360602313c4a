"""Which result belongs to which call, where a result is logged apart from its call."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation_pipelines.judging.domain.prompt.logged_json import ToolAnswer, tool_answers

_MOST_CHARACTERS = 20_000_000
"""So much of logged requests is looked through, the latest first: each repeats those before."""


def results_from_requests(rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Place of a tool result in ``rows`` -> its text, found in a later request to the model.

    A call is known by its id. Where its event has none, the results of a tool are given to its
    calls in their order, but only when there are as many: a wrong one would be false evidence.

    Args:
        rows: Rows of ``agent_events`` in their order.
    """
    silent = {
        place: row
        for place, row in enumerate(rows)
        if row["event_name"] == "tool_result" and row["content"] is None
    }
    if not silent:
        return {}
    answers = _answers(rows)
    by_id = {answer.id: answer.text for answer in answers}
    found = {
        place: by_id[row["tool_use_id"]]
        for place, row in silent.items()
        if row["tool_use_id"] in by_id
    }
    return found | _by_order(
        {place: row for place, row in silent.items() if row["tool_use_id"] is None}, answers
    )


def _answers(rows: Sequence[Mapping[str, Any]]) -> list[ToolAnswer]:
    """Results in all requests, each once, in their order."""
    collected: list[ToolAnswer] = []
    seen: set[str] = set()
    read = 0
    for row in reversed(rows):
        if row["event_name"] != "other" or not row["content"] or read > _MOST_CHARACTERS:
            continue
        read += len(row["content"])
        new = {each.id: each for each in tool_answers(row["content"]) if each.id not in seen}
        collected = [*new.values(), *collected]
        seen |= new.keys()
    return collected


def _by_order(
    silent: Mapping[int, Mapping[str, Any]], answers: Iterable[ToolAnswer]
) -> dict[int, str]:
    given: defaultdict[str | None, list[str]] = defaultdict(list)
    for answer in answers:
        given[answer.name].append(answer.text)
    calls: defaultdict[str | None, list[int]] = defaultdict(list)
    for place, row in silent.items():
        calls[row["tool_name"]].append(place)
    return {
        place: text
        for name, places in calls.items()
        if len(places) == len(given.get(name, ()))
        for place, text in zip(places, given[name], strict=True)
    }
