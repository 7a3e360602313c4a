"""Lost calls of every session in memory: which are found, and when they are read again."""

from datetime import date, timedelta

import polars as pl

from evaluation_pipelines.views.tool_calls import ToolCalls
from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line

FIRST = date(2026, 6, 1)
SECOND = FIRST + timedelta(days=1)


def work(name: str, organization: str, second: int, tool: str) -> bytes:
    of = {"session__id": name, "organization__id": organization}
    return line(
        claude("user_prompt", second, **of),
        claude("tool_result", second + 10, tool_name=tool, success="false", **of),
        claude("api_request", second + 20, model="m", cost_usd=0.5, input_tokens=10, **of),
    )


def test_rows_are_those_of_the_days_the_organization_and_the_sessions(
    workplace: Workplace,
) -> None:
    fill(
        workplace,
        work("one", "acme", 0, "Bash"),
        work("two", "beta", 100, "Read"),
        work("three", "acme", DAY_S, "Edit"),
    )
    rows = ToolCalls(workplace.stores).rows({FIRST, SECOND})
    assert rows.tools["tool"].to_list() == ["Bash", "Read", "Edit"]
    assert rows.windows.select("lost_calls", "cost_share_usd").rows() == [(1.0, 0.5)] * 3
    assert rows.of_organization("acme").tools["tool"].to_list() == ["Bash", "Edit"]
    of_beta = pl.DataFrame({"organization_id": ["beta"], "session_key": ["two#baseline-1"]})
    assert rows.of_sessions(of_beta).windows["session_key"].to_list() == ["two#baseline-1"]


def test_a_date_is_read_again_when_it_has_new_files(workplace: Workplace) -> None:
    table = ToolCalls(workplace.stores)
    assert table.rows({FIRST}).tools.is_empty()
    fill(workplace, work("one", "acme", 0, "Bash"), work("two", "acme", DAY_S, "Read"))
    assert table.rows({FIRST}).tools.height == 1
    fill(workplace, work("three", "acme", 500, "Edit"))
    assert table.rows({FIRST, SECOND}).tools.height == 3
