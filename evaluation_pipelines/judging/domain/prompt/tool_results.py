"""Match tool results to their calls where results are logged apart from the calls."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluation_pipelines.judging.domain.prompt.logged_json import (
    LoggedToolResult,
    logged_tool_results,
)

_MAX_CHARACTERS = 20_000_000
"""Limit on the text of requests that is read, latest first: each repeats the ones before it."""


def results_from_requests(rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Find the texts of tool results in later requests to the model.

    A result is matched by the id of its call. If the events of a tool have no id, its results are
    assigned to its calls in order, but only if there are as many results as calls: a wrong result
    would be false evidence.

    Args:
        rows: Rows of ``agent_events`` in their order.

    Returns:
        Text of the result by index of its ``tool_result`` event in ``rows``.
    """
    without_text = {
        index: row
        for index, row in enumerate(rows)
        if row["event_name"] == "tool_result" and row["content"] is None
    }
    if not without_text:
        return {}
    results = _all_results(rows)
    by_id = {result.id: result.text for result in results}
    found = {
        index: by_id[row["tool_use_id"]]
        for index, row in without_text.items()
        if row["tool_use_id"] in by_id
    }
    without_id = {index: row for index, row in without_text.items() if row["tool_use_id"] is None}
    return found | _matched_by_order(without_id, results)


def _all_results(rows: Sequence[Mapping[str, Any]]) -> list[LoggedToolResult]:
    """Return the results in all requests, each once, in their order."""
    collected: list[LoggedToolResult] = []
    seen: set[str] = set()
    characters = 0
    for row in reversed(rows):
        if row["event_name"] != "other" or not row["content"] or characters > _MAX_CHARACTERS:
            continue
        characters += len(row["content"])
        new = {each.id: each for each in logged_tool_results(row["content"]) if each.id not in seen}
        collected = [*new.values(), *collected]
        seen |= new.keys()
    return collected


def _matched_by_order(
    without_id: Mapping[int, Mapping[str, Any]], results: Iterable[LoggedToolResult]
) -> dict[int, str]:
    texts: defaultdict[str | None, list[str]] = defaultdict(list)
    for result in results:
        texts[result.name].append(result.text)
    calls: defaultdict[str | None, list[int]] = defaultdict(list)
    for index, row in without_id.items():
        calls[row["tool_name"]].append(index)
    return {
        index: text
        for name, indexes in calls.items()
        if len(indexes) == len(texts.get(name, ()))
        for index, text in zip(indexes, texts[name], strict=True)
    }
