"""Whose word decides whether a call succeeded."""

from typing import Any

import pytest

from evaluation_pipelines.telemetry.domain.tool_calls import settle_outcome


@pytest.mark.parametrize(
    ("reported", "source"), [(True, "reported"), (False, "reported"), (None, None)]
)
def test_without_an_exit_code_the_report_stands(reported: bool | None, source: str | None) -> None:
    row: dict[str, Any] = {"success": reported}
    settle_outcome(row, None, "make")
    assert row == {"success": reported, "success_source": source}


@pytest.mark.parametrize(
    ("reported", "code", "command", "success", "source"),
    [
        (True, 2, "make", False, "exit_code"),
        (False, 2, "make", False, "reported"),
        (None, 2, "make", False, "exit_code"),
        (True, -9, "make", False, "exit_code"),
        # An error beside exit code 0 is another error.
        (False, 0, "make", False, "reported"),
        (True, 0, "make", True, "reported"),
        # 1 is an answer of grep.
        (False, 1, "grep x f", True, "exit_code"),
        (True, 1, "grep x f", True, "reported"),
        (True, 1, None, False, "exit_code"),
        (True, 2, "grep x f", False, "exit_code"),
    ],
)
def test_an_exit_code_decides(
    reported: bool | None, code: int, command: str | None, success: bool, source: str
) -> None:
    row: dict[str, Any] = {"success": reported}
    settle_outcome(row, code, command)
    assert row == {"success": success, "success_source": source, "exit_code": code}
