"""Rows of sessions for programs: every column of both tables, under its own name, unrounded."""

import csv
import io
import json
from collections.abc import Iterable
from datetime import date, datetime
from math import isfinite

from evaluation_pipelines.cli.csv_form import no_formula
from evaluation_pipelines.cli.terminal import one_line
from evaluation_pipelines.domain.schemas import AGENT_SESSIONS, SESSION_PERFORMANCE
from evaluation_pipelines.stages.score import SessionRow

_NAMES = tuple(dict.fromkeys([*AGENT_SESSIONS.schema, *SESSION_PERFORMANCE.schema]))


def json_text(rows: Iterable[SessionRow]) -> str:
    """An array with one object a session; times are ISO 8601, ``tool_mix`` is an object."""
    return json.dumps([_record(row) for row in rows], indent=2)


def csv_text(rows: Iterable[SessionRow]) -> str:
    """A heading and one line a session; unknown is empty, lists are JSON in their cell.

    A text from telemetry that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(_NAMES)
    lines.writerows([_cell(value) for value in _record(row).values()] for row in rows)
    return written.getvalue()


def _record(row: SessionRow) -> dict[str, object]:
    return {name: _plain(name, row[name]) for name in _NAMES}


def _plain(name: str, value: object) -> object:
    """A value as JSON has it; a sum of absurd claims can be infinite, for which it has no word."""
    match value:
        case date() | datetime():
            return value.isoformat()
        case float() if not isfinite(value):
            return None
        case list() if name == "tool_mix":
            return {each["key"]: each["value"] for each in value}
    return value


def _cell(value: object) -> object:
    match value:
        case str():
            return no_formula(one_line(value))
        case bool() | list() | dict():
            return json.dumps(value)
    return value
