"""Missing tools as an asset: the table, its metadata, and priorities by a model."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import dagster as dg
import pytest

from evaluation_pipelines.schemas import MISSING_TOOLS
from evaluation_pipelines_tests.defs.code_location import CodeLocation, range_tags, repository
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error, says
from evaluation_pipelines_tests.judged import fill, session_with_texts
from evaluation_pipelines_tests.world import DAY_S, NOON_NS

EVIL = "1. <script>alert(1)</script>: [click](x) | \x1b[31m**bold**\n2. make: builds it."


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[JudgeEndpoint]:
    """A judge endpoint, and the settings to use it."""
    with open_judge_endpoint() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("EVAL_JUDGE_MODEL", "judge-1")
        monkeypatch.setenv("EVAL_JUDGE_MAX_COST_PER_DAY_USD", "100")  # else no night judges
        monkeypatch.setenv("EVAL_JUDGE_INPUT_USD_PER_MTOK", "1")
        monkeypatch.setenv("EVAL_JUDGE_OUTPUT_USD_PER_MTOK", "10")
        monkeypatch.setenv("EVAL_JUDGE_ORDERS_MISSING_TOOLS", "true")
        yield endpoint


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
    return {name: str(each.value) for name, each in metadata.items()}


def test_without_a_judge_the_table_is_empty_and_says_so(location: CodeLocation) -> None:
    found = shown(location.execute_asset("missing_tools"))
    assert (found["dagster/row_count"], found["answers"]) == ("0", "* no judge was asked")


def test_missing_tools_are_counted_shown_and_prioritized(
    judged: CodeLocation, judge: JudgeEndpoint
) -> None:
    judge.script(says("1. make: say how to build."))
    found = shown(judged.execute_asset("missing_tools"))
    rows = judged.workplace.lake.read_whole(MISSING_TOOLS)
    assert rows.select("tool", "sessions", "priority").rows() == [
        ("<script>alert(1)</script>", 1, None),
        ("make", 1, 1),
    ]
    assert found["dagster/row_count"] == "2"
    assert "data:image/svg+xml;base64," in found["most missed"]
    assert "<script>" not in found["tools"]
    assert r"\[click\]\(x\) \| \*\*bold" in found["tools"]
    assert r"| 1 | make | default | 1 | say how to build\. |" in found["what to do first"]
    assert found["answers"] == "* named by judge\\-1\n* 1 lists of missing tools"
    assert float(found["cost_usd"]) > 0


def test_the_nightly_run_prioritizes_tools_of_sessions_it_has_just_judged(
    settled_location: CodeLocation, judge: JudgeEndpoint
) -> None:
    """Priorities are requested once a period, so they must come after the judge scores."""
    fill(
        settled_location.workplace,
        session_with_texts("s1", time.time() - 2 * DAY_S - NOON_NS / 1e9),
    )
    judge.script_turn("missing-tools", says("1. cargo: it builds."))
    # The request for priorities is the first turn of a conversation, as that for a score is.
    judge.script_turn("score", Scripted(), says("1. cargo: build first."))
    assert settled_location.run_night("judge_scores", "missing_tools").success
    rows = settled_location.workplace.lake.read_whole(MISSING_TOOLS)
    assert rows.select("tool", "priority").rows() == [("cargo", 1)]


def test_runs_of_an_automation_condition_request_no_priorities(
    judged: CodeLocation, judge: JudgeEndpoint
) -> None:
    """Otherwise the first one after midnight would, before the nightly run has judged."""
    before = len(judge.requests)
    job = repository().get_implicit_global_asset_job_def()
    chosen = job.get_subset(asset_selection={dg.AssetKey("missing_tools")})
    tags = {"dagster/from_automation_condition": "true"}
    found = shown(chosen.execute_in_process(instance=judged.instance, tags=tags))
    assert len(judge.requests) == before
    assert found["dagster/row_count"] == "2"


def test_a_model_that_fails_does_not_affect_the_counts(
    judged: CodeLocation, judge: JudgeEndpoint
) -> None:
    judge.always(http_error(401))
    found = shown(judged.execute_asset("missing_tools"))
    assert found["dagster/row_count"] == "2"
    assert r"the model did not answer: the endpoint answered 401" in found["put in order"]
    assert found.keys().isdisjoint({"what to do first", "cost_usd"})
