"""Reference implementation of tool reports: plain loops over all pairs of calls of a session.

It is slow and short and follows the documentation; what a call asks it reads with the package. The
benchmark and a property test compare the package with it. Its sessions have one window.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from rapidfuzz import fuzz

from evaluation_pipelines.sessions.domain.tool_reports.parameters import (
    VOLATILE,
    Question,
    question,
)

Row = Mapping[str, Any]
"""A row of ``TOOL_CALLS``, as dictionary."""


def edits(row: Row) -> bool:
    """Return whether a call changes something; shell commands are taken to change nothing."""
    return row["tool_class"] in ("edit", "write")


def report(rows: Sequence[Row], changes: Callable[[Row], bool] = edits) -> dict[str, Any]:
    """Return the findings of one session; calls are numbered from 1."""
    rows = sorted(rows, key=lambda row: row["position"])
    calls = [row for row in rows if row["outcome"] in ("ok", "failed")]
    repeats = _repeats(calls, changes)
    corrected = _corrections(calls)
    loops = _loops(calls)
    wasted = _wasted(rows, calls)
    knows_parameters = any(call["parameters"] is not None for call in calls)
    knows_results = any(call["outcome"] == "ok" and call["has_content"] for call in calls)
    if not knows_parameters:
        repeats, corrected, loops = {}, {}, []
    if not knows_results:
        wasted = set()
    lost = 0.0
    for number, call in enumerate(calls, 1):
        worst = 0.5 if number in repeats else 0.0
        if call["outcome"] == "failed":
            worst = max(worst, 0.5 if number in corrected else 1.0)
        if number in wasted:
            worst = 1.0
        lost += worst
    return {
        "repeats": repeats if knows_parameters else None,
        "corrections": corrected if knows_parameters else None,
        "loops": loops if knows_parameters else None,
        "wasted": wasted if knows_results else None,
        "effectiveness_score": 100 * (1 - lost / len(calls)) if calls else None,
    }


@lru_cache(100_000)
def _question(logged: str) -> Question | None:
    return question(logged)


def similarity(one: str, other: str) -> float:
    """Return the similarity of two logged parameters, both JSON objects."""
    a, b = _question(one), _question(other)
    if a is None or b is None or a.values != b.values:
        return 0.0
    scores = [1.0]
    for text, text_b in zip(a.texts, b.texts, strict=True):
        common = sum((Counter(text) & Counter(text_b)).values())
        scores.append(2 * common / (len(text) + len(text_b)) if text + text_b else 1.0)
    return min(scores)


@lru_cache(100_000)
def _kept(logged: str) -> dict[str, Any]:
    values = json.loads(logged)
    return {name: value for name, value in values.items() if name not in VOLATILE}


def _alike(one: Row, other: Row) -> bool:
    if one["tool"] != other["tool"] or None in (one["parameters"], other["parameters"]):
        return False
    return round(similarity(one["parameters"], other["parameters"]), 9) >= 0.9


def _repeats(calls: Sequence[Row], changes: Callable[[Row], bool]) -> dict[int, tuple[int, float]]:
    """Return the earliest original and the similarity of each repeat."""
    found = {}
    unchanged_since = 0
    for later, call in enumerate(calls):
        before = calls[later - 1] if later else None
        if before and before["outcome"] == "ok" and changes(before):
            unchanged_since = later - 1
        for earlier in range(unchanged_since, later):
            if _alike(call, calls[earlier]):
                score = similarity(call["parameters"], calls[earlier]["parameters"])
                found[later + 1] = (earlier + 1, score)
                break
    return found


def _corrections(calls: Sequence[Row]) -> dict[int, int]:
    """Return the correction of each corrected call."""
    found = {}
    for index, call in enumerate(calls):
        for after in range(index + 1, min(index + 4, len(calls))):
            other = calls[after]
            if (
                call["outcome"] == "failed"
                and other["outcome"] == "ok"
                and call["prompt"] == other["prompt"]
                and call["tool"] != other["tool"]
                and None not in (call["parameters"], other["parameters"])
                and _have_same_goal(call["parameters"], other["parameters"])
            ):
                found[index + 1] = after + 1
                break
    return found


def _have_same_goal(one: str, other: str) -> bool:
    texts, others = (
        [_without_folders(value) for value in _kept(logged).values() if isinstance(value, str)]
        for logged in (one, other)
    )
    return any(
        fuzz.token_set_ratio(a, b) >= 60
        for a in texts
        for b in others
        if len(a) >= 3 and len(b) >= 3
    )


def _without_folders(text: str) -> str:
    return " ".join(word.rstrip("/").rpartition("/")[2] for word in text.split(" "))


def _loops(calls: Sequence[Row]) -> list[tuple[int, int]]:
    """Return the first and last call of each loop."""
    found = []
    start = 0
    while start < len(calls):
        end = start
        while (
            end < len(calls)
            and calls[end]["outcome"] == "failed"
            and all(_alike(calls[end], call) for call in calls[start:end])
        ):
            end += 1
        if end - start >= 3:
            found.append((start + 1, end))
            start = end
        else:
            start += 1
    return found


def _wasted(rows: Sequence[Row], calls: Sequence[Row]) -> set[int]:
    found = set()
    for number, call in enumerate(calls, 1):
        if call["outcome"] != "ok" or not call["has_content"]:
            continue
        if call["tool_class"] in ("edit", "write"):
            continue
        before = set(_tokens(call["parameters"]))
        later: set[str] = set()
        for row in rows:
            if row["position"] < call["position"]:
                before |= _tokens(row["parameters"]) | _tokens(row["said"])
            elif row["position"] > call["position"]:
                later |= _tokens(row["parameters"])
                if row["kind"] == "reply":
                    later |= _tokens(row["said"])
        new = _tokens(call["said"]) - before
        if new and not new & later:
            found.add(number)
    return found


def _tokens(text: str | None) -> set[str]:
    low = (text or "").lower()
    tokens = re.findall(r"\w{6,}", low) + re.findall(r"\w+(?:\.\w+)+", low)
    return {token for token in tokens if len(token) >= 6}
