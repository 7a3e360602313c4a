"""Comparison of tool reports with the reference implementation on random sessions."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation_pipelines_tests.sessions.domain.tool_reports import reference
from evaluation_pipelines_tests.sessions.domain.tool_reports.tool_rows import (
    call,
    calls_of,
    reports,
    said,
)
from evaluation_pipelines_tests.world.rows import Row

WORDS = "greeting invoice_total checkout cart.py search_index test_cart.py stock now it a".split()
MANY = "p q r s t u v w x"
TOOLS = ("Read", "Grep", "Edit", "Write", "Bash", "mcp__tracker__find_issue")


def parameters_of(random: Random) -> str | None:
    """Return parameters with similar texts, other values or missing names, or no parameters."""
    if random.random() < 0.1:
        return None
    values: dict[str, Any] = {"path": f"src/{random.choice(WORDS)}/{random.choice('abc')}.py"}
    if random.random() < 0.5:
        values["query"] = " ".join([*random.choices(WORDS, k=random.randint(0, 4)), MANY])
    if random.random() < 0.3:
        values["lines"] = random.choice([1, 2, [1, 2], None, True, "2"])
    if random.random() < 0.3:
        values["description"] = random.choice(WORDS)
    if random.random() < 0.1:
        values = {}
    return json.dumps(values)


def session_of(random: Random, session_id: str) -> list[Row]:
    """Return up to 25 calls, about half like the previous one; some sessions log texts."""
    logs, rows = random.random() < 0.6, list[Row]()
    tool, parameters = "Read", parameters_of(random)
    for number in range(random.randint(1, 25)):
        if random.random() < 0.6:
            tool, parameters = random.choice(TOOLS), parameters_of(random)
        text = " ".join(random.choices(WORDS, k=random.randint(0, 3))) if logs else None
        outcome = random.choices(("ok", "failed", "denied"), (5, 5, 1))[0]
        rows.append(
            call(
                tool,
                outcome,
                session_id=session_id,
                parameters=parameters,
                said=text,
                prompt=f"p{number // 6}",
            )
        )
        if logs and random.random() < 0.2:
            rows.append(said(random.choice(("prompt", "reply")), random.choice(WORDS), session_id))
    return rows


def as_reference(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report in the form of the reference."""

    def listed(name: str) -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] | None = report[name]
        return found

    repeats, corrected = listed("repeats"), listed("corrections")
    loops, wasted = listed("loops"), listed("wasted")
    return {
        "repeats": repeats
        if repeats is None
        else {repeat["call"]: (repeat["original"], repeat["similarity"]) for repeat in repeats},
        "corrections": corrected
        if corrected is None
        else {correction["call"]: correction["corrected_by"] for correction in corrected},
        "loops": loops
        if loops is None
        else [(loop["first_call"], loop["last_call"]) for loop in loops],
        "wasted": wasted if wasted is None else {call["call"] for call in wasted},
        "effectiveness_score": report["effectiveness_score"],
    }


@settings(max_examples=24)
@given(st.integers(0, 2**32))
def test_both_find_the_same_in_every_session(seed: int) -> None:
    compare(seed)


def compare(seed: int) -> None:
    """Compare the reports of eight random sessions."""
    random = Random(seed)  # noqa: S311 - it has to be repeatable, not secret
    rows = [row for number in range(8) for row in session_of(random, f"s{number}")]
    calls = calls_of(rows)
    numbered = calls.rows.join(calls.windows, on="window_no").to_dicts()
    found = {report["session_id"]: as_reference(report) for report in reports(rows)}

    for session_id, report in found.items():
        expected = reference.report([row for row in numbered if row["session_id"] == session_id])
        score = expected.pop("effectiveness_score")
        assert report.pop("effectiveness_score") == pytest.approx(score, abs=1e-9)
        found_repeats, repeats = report.pop("repeats"), expected.pop("repeats")
        assert (found_repeats is None) == (repeats is None)
        assert {number: pytest.approx(pair) for number, pair in (repeats or {}).items()} == (
            found_repeats or {}
        )
        assert report == expected
