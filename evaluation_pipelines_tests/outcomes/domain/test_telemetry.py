"""Tests after the last edit, and answers of people, worked out by hand."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.outcomes.domain.telemetry import telemetry_outcomes
from evaluation_pipelines_tests.sessions.domain.tool_reports.tool_rows import call, calls_of
from evaluation_pipelines_tests.world.rows import at

_EDIT = call("Edit", tool_class="edit")


def _bash(command: str, outcome: str = "ok") -> dict[str, Any]:
    return call("Bash", outcome, parameters={"command": command})


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([_EDIT, _bash("pytest")], (1.0, 2)),
        ([_EDIT, _bash("pytest"), _bash("pytest", "failed")], (0.0, 3)),
        ([_EDIT, _bash("pytest", "failed"), _EDIT, _bash("pytest")], (1.0, 4)),
        # None ran after the last edit.
        ([_bash("pytest"), _EDIT], (None, None)),
        ([_EDIT], (None, None)),
        ([_EDIT, _bash("pytest"), _bash("sed -i s/a/b/ a.py")], (None, None)),
        ([_EDIT, _bash("pytest", "denied")], (None, None)),
        # A failed edit changes nothing.
        ([_EDIT, _bash("pytest"), {**_EDIT, "outcome": "failed"}], (1.0, 2)),
        # Edits by commands alone.
        ([_bash("sed -i s/a/b/ a.py"), _bash("pytest")], (1.0, 2)),
        # Unknown: another exit code, no exit code, or nothing to test.
        ([_EDIT, _bash("pytest | tail")], None),
        ([_EDIT, _bash("pytest", "unknown")], None),
        ([_bash("pytest")], None),
        ([call()], None),
    ],
)
def test_tests_after_the_last_edit(
    calls: list[dict[str, Any]], expected: tuple[float | None, int | None] | None
) -> None:
    rows = telemetry_outcomes(calls_of(calls)).filter(kind="tests_after_last_edit")
    found = [(value, when) for value, when in rows.select("value", "happened_at").iter_rows()]
    if expected is None:
        assert found == []
    else:
        value, position = expected
        assert found == [(value, None if position is None else at(position))]
        assert rows["read_at"].to_list() == [at(len(calls))]


def test_only_edits_that_a_person_decided_are_answers() -> None:
    sent = {"rejected": "human", "accepted": "agent"}
    calls = calls_of([call(f"task.ai_output.{word}") for word in sent])
    attributes = pl.Series([f'{{"source": "{who}"}}' for who in sent.values()])
    rows = calls.rows.with_columns(kind=pl.lit("outcome"), attributes=attributes)
    found = telemetry_outcomes(replace(calls, rows=rows))
    assert found.select("kind", "value").rows() == [("accepted", 0.0)]
