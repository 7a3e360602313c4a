"""Losses of several sessions by tool and by model, worked out by hand."""

from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.sessions.domain.tool_reports.fleet import (
    calls_by_tool,
    calls_of_windows,
    commonest_errors,
    failures_of_windows,
    lost_by,
)
from evaluation_pipelines.sessions.domain.tool_reports.report import tool_reports
from evaluation_pipelines_tests.builders import Row
from evaluation_pipelines_tests.sessions.domain.tool_reports.tool_rows import (
    call,
    calls_of,
    sessions_of,
)

ROWS = [
    # Session 1, model a, 0.09 USD for 1000 tokens: two reads, one a repeat, and a failed Bash.
    call("Read"),
    call("Read"),
    call("Bash", "failed", parameters={"command": "make"}),
    # Session 2, model b, cost unknown: two failed calls, one of unknown size.
    call("Bash", "failed", session_id="s2", parameters=None),
    call("Read", "failed", session_id="s2", parameters=None, returned_bytes=None),
    # Session 3, model b: only a denied call.
    call("Read", "denied", session_id="s3"),
    # Session 4, model b: a call that succeeds.
    call("Bash", session_id="s4", parameters={"command": "make"}),
]


def frames(rows: list[Row]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return reports and sessions."""
    sessions = sessions_of(rows).with_columns(
        model=pl.when(session_id="s1").then(pl.lit("a")).otherwise(pl.lit("b")),
        cost_usd=pl.when(session_id="s1").then("cost_usd"),
    )
    return tool_reports(calls_of(rows), sessions), sessions


def picked(row: dict[str, Any], *names: str) -> list[Any]:
    return [row[name] for name in names]


COUNTS = (
    *("sessions", "calls", "failed", "corrected", "repeated", "only_repeated", "wasted"),
    *("lost_calls", "lost_pct", "repeats_known", "waste_known"),
)
MONEY = ("lost_tokens", "lost_usd", "cost_share_usd", "known_sessions")


def test_tools_are_summed_over_sessions() -> None:
    bash, read = lost_by("tool", calls_by_tool(*frames(ROWS))).to_dicts()

    # Sessions 1 (one of one) and 2 (one of one, no parameters) failed; session 4 did not.
    assert picked(bash, "tool", *COUNTS) == [
        *("Bash", 3, 3, 2, 0, 0, 0, None, 2.0, pytest.approx(200 / 3), 2, 0)
    ]
    # Twice 400 / 4 tokens; session 1: 0.00009 USD each, and 1 of 3 calls of 0.09 USD.
    assert picked(bash, *MONEY) == [200.0, pytest.approx(0.009), pytest.approx(0.03), 3]
    # A repeat, 0.5 of 2 calls, in session 1; a failure in session 2, without parameters.
    assert picked(read, "tool", *COUNTS) == ["Read", 2, 3, 1, 0, 1, 1, None, 1.5, 50.0, 2, 0]
    # 400 * 0.5 / 4, where the size is known; 0.5 of 3 calls of 0.09 USD.
    assert picked(read, *MONEY) == [50.0, pytest.approx(0.0045), pytest.approx(0.015), 1]


def test_models_are_summed_over_sessions() -> None:
    b, a = lost_by("model", calls_of_windows(*frames(ROWS))).to_dicts()

    # Session 3 has no call with a known outcome; session 4 has one that succeeded.
    assert picked(b, "model", *COUNTS) == [
        *("b", 2, 3, 2, 0, 0, 0, None, 2.0, pytest.approx(200 / 3), 1, 0)
    ]
    assert picked(b, *MONEY) == [0.0, None, None, 1]
    assert picked(a, "model", *COUNTS) == ["a", 1, 3, 1, 0, 1, 1, None, 1.5, 50.0, 3, 0]
    # 50 + 100 tokens; 1.5 of 3 calls of 0.09 USD.
    assert picked(a, *MONEY) == [150.0, pytest.approx(0.0135), pytest.approx(0.045), 1]


def test_lost_calls_follow_from_the_columns() -> None:
    rows = [
        # Failed twice: the second is a repeat as well, and counts once, as failed.
        call("Bash", "failed", parameters={"command": "make"}),
        call("Bash", "failed", parameters={"command": "make"}),
        # A repeat that succeeds counts a half.
        call("Bash", parameters={"command": "ls"}),
        call("Bash", parameters={"command": "ls"}),
    ]
    (bash,) = lost_by("tool", calls_by_tool(*frames(rows))).to_dicts()

    assert picked(bash, "failed", "corrected", "repeated", "only_repeated", "wasted") == [
        *(2, 0, 2, 1, None)
    ]
    assert bash["lost_calls"] == 2.5 == 2 - 0 / 2 + 1 / 2


def test_no_reports_are_no_rows() -> None:
    reports, sessions = frames(ROWS)

    assert lost_by("tool", calls_by_tool(reports.clear(), sessions)).is_empty()
    assert lost_by("model", calls_of_windows(reports.clear(), sessions)).is_empty()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Exit code 2\nAn error occurred.", "exit code 2"),
        ("Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 137", "exit code 137"),
        ('{"output":"","metadata":{"exit_code":3,"duration_seconds":0.0}}', "exit code 3"),
        ("\n  File does not exist.\nLook again.", "File does not exist."),
        ("x" * 200, "x" * 120),
        ("", None),
    ],
)
def test_an_error_is_its_exit_code_or_its_first_line(text: str, error: str | None) -> None:
    reports, _ = frames([call("Bash", "failed", error=text)])

    assert failures_of_windows(reports)["error"].to_list() == [error]


def test_the_most_frequent_error_of_a_tool_names_a_session_that_may_be_named() -> None:
    rows = [
        *(call("Read", "failed", error="File does not exist.") for _ in range(2)),
        call("Read", "failed", session_id="s2", error="File does not exist."),
        *(call("Read", "failed", session_id="s3", error="Timeout") for _ in range(2)),
        *(call("Bash", "failed", session_id="s1", error=None) for _ in range(9)),
    ]
    failures = failures_of_windows(frames(rows)[0])

    (every,) = commonest_errors(failures, pl.lit(value=True)).to_dicts()
    (other,) = commonest_errors(failures, pl.col("session_key") != every["session_key"]).to_dicts()
    (none,) = commonest_errors(failures, pl.lit(value=False)).to_dicts()

    # Twice in session 1 and once in session 2, against twice in session 3.
    assert [picked(each, "tool", "error", "calls") for each in (every, other, none)] == [
        ["Read", "File does not exist.", 3]
    ] * 3
    assert every["session_key"].startswith("s1#")
    assert other["session_key"].startswith("s2#")
    assert none["session_key"] is None
