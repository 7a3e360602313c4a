"""The worked examples of a document, worked out by the real code.

A block ``events`` tells what a session sent, one event a line: time, name, columns. A block
``values`` after it says what becomes of that: ``column = formula = figures = result``, with ``≈``
before a rounded result and ``[session key]`` above the lines of one window of several. Keys of
the genuine sample can be named too.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from math import isclose
from typing import Any

import polars as pl

from evaluation_pipelines.schemas import (
    EVENTS_WITH_TEXTS,
)
from evaluation_pipelines.sessions.domain.find_session import session_rows
from evaluation_pipelines.sessions.domain.performance import score_sessions
from evaluation_pipelines.sessions.domain.tool_reports.report import tool_reports
from evaluation_pipelines.sessions.score import score_files
from evaluation_pipelines.sessions.session_queries import (
    query_events,
    query_sessions,
    query_tool_calls,
)
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.telemetry.session_dates import assign_session_dates
from evaluation_pipelines_tests.docs.documents import blocks
from evaluation_pipelines_tests.docs.telemetry import GENUINE
from evaluation_pipelines_tests.world.rows import Row, don, event, events_frame

_DAY = date(2026, 11, 2)
_STEP = re.compile(r" ([=≈]) ")
_ATTRIBUTIONS = ("masque_don", "masque_doff")


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of a ``values`` block: a column, what the document says of it, and the real row."""

    where: str
    column: str
    steps: tuple[str, ...]
    is_rounded: bool
    row: Mapping[str, Any]

    def faults(self) -> list[str]:
        """What is wrong with the line; empty when all of it is right."""
        actual = self.row[self.column]
        wrong = [step for step in self.steps if not self._holds(step, actual)]
        return [f"{self.where}: {self.column} is {_shown(actual)}, not {claim}" for claim in wrong]

    def _holds(self, step: str, actual: object) -> bool:
        if isinstance(actual, int | float) and not isinstance(actual, bool):
            return self._is_equal(step, float(actual))
        return step == _shown(actual)

    def _is_equal(self, step: str, actual: float) -> bool:
        try:
            said = worked_out(step, self.row)
        except ValueError:
            return False
        if self.is_rounded and step == self.steps[-1]:
            return abs(said - actual) <= _half_last_place(step)
        return isclose(said, actual, rel_tol=1e-9, abs_tol=1e-9)


def worked_out(expression: str, values: Mapping[str, Any]) -> float:
    """The value of a sum of numbers and names of our own page.

    Raises:
        ValueError: it is no such sum; names that are not numbers in ``values`` are not either.
    """
    numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
    known: dict[str, Any] = {"__builtins__": {}, "min": min, "max": max, **numbers}
    try:
        found = eval(expression, known)  # noqa: S307 - a line of our own documents
        return float(found)
    except (SyntaxError, NameError, TypeError) as error:
        raise ValueError(f"{expression!r} is no sum") from error


def _half_last_place(number: str) -> float:
    places = len(number.partition(".")[2])
    return float(f"0.5000001e-{places}")


def claims(text: str) -> Iterator[Claim]:
    """Every line of every ``values`` block, with the row that the real code makes."""
    windows: dict[str, Mapping[str, Any]] = {}
    for block in blocks(text):
        if block.language == "events":
            windows = windows_of([_event(line) for line in block.body.split("\n") if line])
        elif block.language == "values":
            yield from _claims(block.body, block.first + 2, windows)


def windows_of(events: list[Row]) -> dict[str, Mapping[str, Any]]:
    """Session windows of some events with their scores and tool reports, by key."""
    settings = Settings()
    filed = query_events(
        assign_session_dates(events_frame(events), None, settings.start_date).events
    )
    sessions = query_sessions(filed, settings)
    reports = tool_reports(query_tool_calls(filed, filed), sessions)
    told = {row["session_key"]: row for row in reports.iter_rows(named=True)}
    return {
        row["session_key"]: {**row, **told.get(row["session_key"], {})}
        for row in session_rows(sessions, score_sessions(sessions))
    }


@cache
def genuine_windows() -> dict[str, Mapping[str, Any]]:
    """The windows of the genuine sample, by key."""
    with GENUINE.open("rb") as handle:
        scored = score_files([(GENUINE.name, handle)], Settings())
    return {row["session_key"]: row for row in scored.sessions}


def _event(line: str) -> Row:
    clock, name, *pairs = line.split()
    given = dict(pair.split("=", 1) for pair in pairs)
    columns: dict[str, Any] = {
        key: _value(text, EVENTS_WITH_TEXTS[key]) for key, text in given.items()
    }
    columns["event_time"] = _time(clock)
    columns.setdefault("event_id", hashlib.sha256(line.encode()).digest()[:16])
    if name in _ATTRIBUTIONS:
        return don(None, 0) | columns | {"event_name": name}
    return event(name, **columns)


def _time(clock: str) -> datetime:
    """``HH:MM:SS`` of the day of the examples, or a time with its date."""
    text = clock if "T" in clock else f"{_DAY}T{clock}"
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _value(text: str, dtype: pl.DataType) -> object:
    if text == "null":
        return None
    if dtype == pl.Boolean:
        return {"true": True, "false": False}[text]
    if dtype == pl.Binary:
        return bytes.fromhex(text)
    if dtype.is_numeric():
        return float(text) if dtype.is_float() else int(text)
    return text


def _claims(
    body: str, line_number: int, windows: Mapping[str, Mapping[str, Any]]
) -> Iterator[Claim]:
    row = next(iter(windows.values())) if len(windows) == 1 else None
    for number, line in enumerate(body.split("\n"), line_number):
        if header := re.fullmatch(r"\[(.+)\]", line):
            row = {**genuine_windows(), **windows}[header[1]]
        elif line.strip():
            assert row is not None, f"line {number}: say which window, as [session key]"
            column, *steps = _STEP.split(line)
            yield Claim(
                f"line {number}",
                column.strip(),
                tuple(step.strip() for step in steps[1::2]),
                "≈" in steps,
                row,
            )


def _shown(value: object) -> str:
    """A value as documents write it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case datetime():
            day = "" if value.date() == _DAY else f"{value.date()} "
            return f"{day}{value:%H:%M:%S}"
        case list():
            return ", ".join(map(_shown, value)) or "none"
        case dict():
            return _entry(value)
    return str(value)


def _entry(entry: Mapping[str, Any]) -> str:
    """An entry of a list as documents write it."""
    match entry:
        case {"key": key, "value": count}:
            return f"{key} {count}"
        case {"call": call, "original": original}:
            return f"{call} like {original}"
        case {"call": call, "corrected_by": other}:
            return f"{call} by {other}"
        case {"call": call, "new_tokens": tokens}:
            return f"{call} with {tokens} new"
        case {"call": call, "error": None}:
            return str(call)
        case {"kind": kind, "name": name, "uses": uses, "total_tokens": tokens, "cost_usd": cost}:
            return f"{kind} {name} {_shown(uses)} times for {tokens} tokens and {cost} USD"
        case {"first_call": first, "last_call": last}:
            return f"{first} to {last}"
    return f"{entry['tool']} {entry['calls']}"
