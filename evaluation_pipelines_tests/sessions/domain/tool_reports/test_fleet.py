"""Losses of several sessions by tool and by model, worked out by hand."""

from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.sessions.domain.tool_reports.fleet import lost_by_model, lost_by_tool
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
    "counted",
    "sessions",
    "calls",
    "failed",
    "corrected",
    "repeated",
    "wasted",
    "lost_calls",
    "lost_pct",
)
MONEY = ("lost_tokens", "lost_usd", "cost_share_usd", "known_sessions")


FAILED = "failed"
REPEATED = "failed, corrected, repeated"


def test_tools_are_summed_over_sessions_of_which_the_same_is_known() -> None:
    bash_2, bash, read_2, read = lost_by_tool(*frames(ROWS)).to_dicts()

    # Session 2, without parameters: what it repeated is unknown.
    assert picked(bash_2, "tool", *COUNTS) == [
        *("Bash", FAILED, 1, 1, 1, None, None, None, 1.0, 100.0)
    ]
    assert picked(bash_2, *MONEY) == [100.0, None, None, 1]
    # Session 1: one of one; session 4: none of one.
    assert picked(bash, "tool", *COUNTS) == ["Bash", REPEATED, 2, 2, 1, 0, 0, None, 1.0, 50.0]
    # Session 1: 400 / 4 tokens, of 0.00009 USD each, and 1 of 3 calls of 0.09 USD.
    assert picked(bash, *MONEY) == [100.0, pytest.approx(0.009), pytest.approx(0.03), 2]
    assert picked(read_2, "tool", *COUNTS) == [
        *("Read", FAILED, 1, 1, 1, None, None, None, 1.0, 100.0)
    ]
    assert picked(read_2, *MONEY) == [None, None, None, 0]
    # A repeat, 0.5 of 2 calls.
    assert picked(read, "tool", *COUNTS) == ["Read", REPEATED, 1, 2, 0, 0, 1, None, 0.5, 25.0]
    # 400 * 0.5 / 4, where the size is known; 0.5 of 3 calls of 0.09 USD.
    assert picked(read, *MONEY) == [50.0, pytest.approx(0.0045), pytest.approx(0.015), 1]


def test_models_are_summed_over_sessions_of_which_the_same_is_known() -> None:
    b_failed, a, b = lost_by_model(*frames(ROWS)).to_dicts()

    # Session 3 has no call with a known outcome.
    assert picked(b_failed, "model", *COUNTS) == [
        *("b", FAILED, 1, 2, 2, None, None, None, 2.0, 100.0)
    ]
    assert picked(b_failed, *MONEY) == [None, None, None, 0]
    assert picked(a, "model", *COUNTS) == ["a", REPEATED, 1, 3, 1, 0, 1, None, 1.5, 50.0]
    # 50 + 100 tokens; 1.5 of 3 calls of 0.09 USD.
    assert picked(a, *MONEY) == [150.0, pytest.approx(0.0135), pytest.approx(0.045), 1]
    assert picked(b, "model", *COUNTS) == ["b", REPEATED, 1, 1, 0, 0, 0, None, 0.0, 0.0]


def test_no_reports_are_no_rows() -> None:
    reports, sessions = frames(ROWS)

    assert lost_by_tool(reports.clear(), sessions).is_empty()
    assert lost_by_model(reports.clear(), sessions).is_empty()
