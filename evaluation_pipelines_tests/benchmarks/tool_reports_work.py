"""Made-up tool calls, reported on by the package and by a plain loop over all pairs."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from random import Random
from time import perf_counter
from typing import Any

import polars as pl
from rapidfuzz.distance import Indel

from evaluation_pipelines.schemas.sessions import ToolCalls
from evaluation_pipelines.sessions.domain.tool_reports.calls import (
    CALL_WINDOWS,
    TOOL_CALLS,
    changes_something,
)
from evaluation_pipelines.sessions.domain.tool_reports.repeats import LOOK_BACK, SIMILAR
from evaluation_pipelines.sessions.domain.tool_reports.report import tool_reports
from evaluation_pipelines_tests.sessions.domain.tool_reports import reference
from evaluation_pipelines_tests.world.rows import session, sessions_frame

_START = datetime(2026, 11, 2, 9, tzinfo=UTC)
_CLASSES = {"Read": "read", "Grep": "search", "Bash": "shell", "Edit": "edit", "Task": "agent"}
_WORDS = "cart checkout stock invoice total rounding search index alert route shipping".split()


def report_with_package(sessions: int, calls: int, edits: int) -> dict[str, Any]:
    """The package; gives seconds and what was found, in numbers."""
    made = ToolCalls(_rows(sessions, calls, edits), _call_windows(sessions))
    windows = _windows(sessions)
    began = perf_counter()
    found = tool_reports(made, windows)
    seconds = perf_counter() - began
    return {
        "seconds": seconds,
        "repeats": int(found["repeated_calls"].sum()),
        "corrections": int(found["corrected_calls"].sum()),
        "loops": int(found["loops"].list.len().sum()),
        "score": round(float(found["effectiveness_score"].sum()), 6),
    }


def report_with_loop(sessions: int, calls: int, edits: int) -> dict[str, Any]:
    """The plain loop, over rows that are in memory already."""
    rows = _rows(sessions, calls, edits).to_dicts()
    by_session = [list(group) for _, group in groupby(rows, key=lambda row: row["session_no"])]
    began = perf_counter()
    found = [reference.report(calls, _changes) for calls in by_session]
    seconds = perf_counter() - began
    return {
        "seconds": seconds,
        "repeats": sum(len(report["repeats"]) for report in found),
        "corrections": sum(len(report["corrections"]) for report in found),
        "loops": sum(len(report["loops"]) for report in found),
        "score": round(sum(report["effectiveness_score"] for report in found), 6),
    }


def prompts_with_package(calls: int) -> dict[str, Any]:
    """The report of one session of sub-agents whose prompts are all long and different."""
    frame = pl.DataFrame(
        [
            _row(0, position, "Task", json.dumps({"prompt": prompt}), "ok")
            for position, prompt in enumerate(_prompts(calls), 1)
        ],
        schema=TOOL_CALLS,
        orient="row",
    )
    made, windows = ToolCalls(frame, _call_windows(1)), _windows(1)
    began = perf_counter()
    found = tool_reports(made, windows)
    return {"seconds": perf_counter() - began, "repeats": int(found["repeated_calls"].sum())}


def prompts_with_rapidfuzz(calls: int) -> dict[str, Any]:
    """All pairs in the window alone, of sorted words: no report."""
    prompts = [sorted(prompt.split()) for prompt in _prompts(calls)]
    began = perf_counter()
    repeated = 0
    for later, words in enumerate(prompts):
        before = prompts[max(0, later - LOOK_BACK) : later]
        repeated += any(
            Indel.normalized_similarity(words, earlier) >= SIMILAR for earlier in before
        )
    return {"seconds": perf_counter() - began, "repeats": repeated}


def _prompts(calls: int) -> list[str]:
    """Prompts of 150 words; every tenth is that of three calls before in another order."""
    random = Random(1)  # noqa: S311 - it has to be repeatable, not secret
    words = ["".join(random.choices("bcdfghjklm", k=6)) for _ in range(400)]
    prompts: list[str] = []
    for number in range(calls):
        if number >= 10 and number % 10 == 0:
            prompts.append(" ".join(reversed(prompts[number - 3].split())))
        else:
            prompts.append(" ".join(random.choices(words, k=150)))
    return prompts


def _changes(row: Mapping[str, Any]) -> bool:
    return changes_something(row["tool_class"], row["tool"], row["parameters"])


def _call_windows(sessions: int) -> pl.DataFrame:
    windows = _windows(sessions).with_columns(window_no=pl.int_range(sessions))
    return windows.select(CALL_WINDOWS.names())


def _windows(sessions: int) -> pl.DataFrame:
    return sessions_frame(
        session(session_id=f"s{number}", session_key=f"s{number}#baseline-1")
        for number in range(sessions)
    )


def _rows(sessions: int, calls: int, edits: int) -> pl.DataFrame:
    """Calls as agents make them: some repeats, a tenth fails; ``edits`` of ``18 + edits`` edit."""
    random = Random(1)  # noqa: S311 - it has to be repeatable, not secret
    rows = []
    for number in range(sessions):
        made: list[tuple[str, str]] = []
        for position in range(1, calls + 1):
            if made and random.random() < 0.15:
                made.append(random.choice(made[-20:]))
            else:
                tool = random.choices(tuple(_CLASSES), (8, 4, 6, edits, 0))[0]
                made.append((tool, json.dumps(_arguments(random, tool))))
            tool, parameters = made[-1]
            outcome = "failed" if random.random() < 0.1 else "ok"
            rows.append(_row(number, position, tool, parameters, outcome))
    return pl.DataFrame(rows, schema=TOOL_CALLS, orient="row")


def _row(number: int, position: int, tool: str, parameters: str, outcome: str) -> dict[str, Any]:
    return {
        "session_no": number,
        "window_no": number,
        "position": position,
        "kind": "call",
        "outcome": outcome,
        "event_time": _START + timedelta(seconds=position),
        "prompt": f"p{position // 8}",
        "tool": tool,
        "tool_class": _CLASSES[tool],
        "duration_ms": 100.0,
        "parameters": parameters,
        "said": None,
        "has_content": False,
        "hides_replies": False,
        "returned_bytes": 400,
    }


def _arguments(random: Random, tool: str) -> dict[str, Any]:
    folder, stem = random.choice(_WORDS), random.choice(_WORDS)
    path = f"/home/dev/shop/src/{folder}/{stem}_{random.randrange(99)}.py"
    match tool:
        case "Read":
            return {"file_path": path}
        case "Grep":
            pattern = f"def {random.choice(_WORDS)}_{random.choice(_WORDS)}"
            return {"pattern": pattern, "path": path, "output_mode": "lines"}
        case "Edit":
            old = " ".join(random.choices(_WORDS, k=30))
            return {"file_path": path, "old_string": old, "new_string": f"{old} and more"}
    command = (
        f"pytest -q {path} -k {random.choice(_WORDS)} && grep -n {random.choice(_WORDS)} {path}"
    )
    return {"command": command, "description": "Check"}
