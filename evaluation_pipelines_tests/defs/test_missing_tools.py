"""Missing tools as an asset: the table and its metadata."""

import time
from datetime import UTC, datetime

import dagster as dg
import pytest

from evaluation_pipelines.schemas import MISSING_TOOLS
from evaluation_pipelines_tests.defs.code_location import CodeLocation, range_tags
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import says
from evaluation_pipelines_tests.judged import fill, session_with_texts
from evaluation_pipelines_tests.world import DAY_S, NOON_NS

EVIL = "1. <script>alert(1)</script>: [click](x) | \x1b[31m**bold**\n2. make: builds it."


@pytest.fixture
def judged(location: CodeLocation, judge: JudgeEndpoint) -> CodeLocation:
    """The code location with a session of two days ago and a hostile answer about it."""
    began = time.time() - 2 * DAY_S
    fill(location.workplace, session_with_texts("s1", began - NOON_NS / 1e9))
    judge.script_turn("missing-tools", says(EVIL))
    day = datetime.fromtimestamp(began, UTC).date()
    assert location.execute("judge_due", range_tags(day, day)).success
    return location


def shown(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    """Return the metadata of the materialization as text."""
    (made,) = result.get_asset_materialization_events()
    metadata = made.step_materialization_data.materialization.metadata
    return {name: str(value.value) for name, value in metadata.items()}


def test_without_a_judge_the_table_is_empty_and_says_so(location: CodeLocation) -> None:
    found = shown(location.execute_asset("missing_tools"))
    assert (found["dagster/row_count"], found["answers"]) == ("0", "* no judge was asked")


def test_missing_tools_are_counted_and_shown(judged: CodeLocation) -> None:
    found = shown(judged.execute_asset("missing_tools"))
    rows = judged.workplace.lake.read_whole(MISSING_TOOLS)
    assert rows.select("tool", "sessions").rows() == [("<script>alert(1)</script>", 1), ("make", 1)]
    assert found["dagster/row_count"] == "2"
    assert "<script>" not in found["tools"]
    assert r"\[click\]\(x\) \| \*\*bold" in found["tools"]
    assert found["answers"] == "* named by judge\\-1\n* 1 lists of missing tools"
