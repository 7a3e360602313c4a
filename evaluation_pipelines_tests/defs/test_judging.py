"""Judging in Dagster: the asset, and one session on demand."""

import re
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.reporting.domain.charts import histogram_svg
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore, sessions_that_left
from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    day,
    failure_of,
    range_tags,
    repository,
    svg_of,
)
from evaluation_pipelines_tests.defs.judge_runs import FRESH, ask_and_leave, judge_range, scores
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, says, score_reply
from evaluation_pipelines_tests.judged import fill, fresh_session, old_session
from evaluation_pipelines_tests.workplace import NOW


def test_the_alert_of_a_night_lasts_while_a_date_cannot_be_read(
    location: CodeLocation, judge: JudgeEndpoint
) -> None:
    def night(first: int) -> list[str]:
        result = (
            repository()
            .get_job("nightly_evaluation")
            .execute_in_process(
                instance=location.instance,
                tags=range_tags(day(first), day(2)),
                asset_selection=[dg.AssetKey("judge_scores")],
            )
        )
        assert result.success
        alerts = AlertStore(location.workplace.ledger).all()
        return [alert.alert.title for alert in alerts if alert.ended_at is None]

    fill(location.workplace, old_session("a", 0), old_session("b", 2))
    judge.always(says(score_reply(64)))
    path = Path(location.workplace.lake.place(AGENT_SESSIONS, day(0)))
    whole = path.read_bytes()
    path.write_bytes(whole[:200])
    assert night(0) == ["Nightly judging did not finish"]
    assert night(1) == ["Nightly judging did not finish"]  # it is about later dates
    path.write_bytes(whole)
    assert night(0) == []


def messages(location: CodeLocation, run_id: str) -> list[str]:
    return [log.user_message for log in location.instance.all_logs(run_id)]


def test_a_backfill_judges_what_is_due_and_shows_it(
    location: CodeLocation, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_JUDGE_CONCURRENCY", "1")  # the script answers in order
    fill(location.workplace, old_session("a", 0), old_session("b", 0), old_session("c", 2))
    judge.script_turn("score", says(score_reply(64)), says(score_reply(70)), says(score_reply(40)))

    result = judge_range(location, 0, 2)
    assert result.success
    assert location.materialized("judge_scores") == [day(0), day(1), day(2)]
    assert all(evaluation.passed for evaluation in result.get_asset_check_evaluations())
    shown = location.metadata("judge_scores", 0)
    assert (shown["dagster/partition_row_count"], shown["completed"]) == (2, 2)
    assert svg_of(str(shown["totals"])) == histogram_svg(
        [64, 70], "total", (0.0, 100.0), {"usual from": 55, "to": 75}
    )
    assert shown["tokens"]
    assert float(str(shown["cost_usd"])) > 0
    assert "missed" in str(shown["failure_tags"])
    assert str(shown["this_run"]).startswith("3 of 3 sessions judged (mean total 58.0), 6 calls")
    assert {score.score_triggered_by for score in scores(location)} == {result.run_id}
    assert shown["judge_models"] == "judge-1"
    # 64 is the sum of the criteria; 70 differs by more than 5.
    assert r"inconsistent\_total | 1 |" in str(shown["flags"])
    logged = messages(location, result.run_id)
    (progress,) = [event for event in logged if event.startswith("judging sessions: 3 of 3 (")]
    assert re.fullmatch(r"judging sessions: 3 of 3 \(\S+/s\), \$0\.\d{4} spent", progress)
    events = [event for event in logged if event.startswith("scoring.")]
    assert events.count("scoring.completed c#baseline-1: 40 of 100") == 1
    assert len(events) == 3 * 4


def test_a_repeated_backfill_judges_again_only_with_force(
    location: CodeLocation, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVAL_JUDGE_MAX_COST_PER_DAY_USD")  # the other model has no price
    fill(location.workplace, old_session("a"))
    judge_range(location, 0, 0)
    before = Path(location.workplace.lake.place(JUDGE_SCORES, day(0))).read_bytes()

    assert judge_range(location, 0, 0).success
    assert len(judge.requests) == 2
    assert Path(location.workplace.lake.place(JUDGE_SCORES, day(0))).read_bytes() == before
    assert location.metadata("judge_scores", 0)["this_run"] == "nothing is due"
    judge_range(location, 0, 0, force=True, model="judge-2", samples=3)
    assert [(score.judge_model, score.samples) for score in scores(location)] == [
        ("judge-1", 1),
        ("judge-2", 3),
    ]


@pytest.mark.usefixtures("location", "judge")
def test_the_limits_of_a_run_apply(location: CodeLocation) -> None:
    fill(location.workplace, *(old_session(name) for name in "abc"))

    judge_range(location, 0, 0, max_sessions=1)
    assert len(scores(location)) == 1
    assert "2 deferred" in str(location.metadata("judge_scores", 0)["this_run"])
    judge_range(location, 0, 0, max_cost_usd=0.0001)
    assert len(scores(location)) == 1


def test_without_an_endpoint_the_run_says_so_and_succeeds(location: CodeLocation) -> None:
    fill(location.workplace, old_session("a"))

    assert judge_range(location, 0, 0).success
    assert str(location.metadata("judge_scores", 0)["this_run"]).startswith(
        "no judge is configured: set EVAL_JUDGE"
    )
    assert location.tick(FRESH).skip_message == (
        "no judge is configured: set EVAL_JUDGE_MODEL to the name of a model"
    )


def ask(location: CodeLocation, session: str, **config: object) -> dg.ExecuteInProcessResult:
    """Execute the job that scores one session."""
    return (
        repository()
        .get_job("judge_session_now")
        .execute_in_process(
            instance=location.instance,
            run_config={"ops": {"score_session": {"config": {"session": session, **config}}}},
            raise_on_error=False,
        )
    )


def answered(result: dg.ExecuteInProcessResult) -> tuple[object, object]:
    """Return answer and HTTP status in the metadata of a run, whether it succeeded or not."""
    for event in result.all_events:
        if event.is_step_failure and event.step_failure_data.user_failure_data:
            shown = event.step_failure_data.user_failure_data.metadata
            return shown["answer"].value, shown["http_status"].value
        if event.is_successful_output:
            shown = event.step_output_data.metadata
            return shown["answer"].value, shown["http_status"].value
    raise AssertionError("the run shows nothing")


@pytest.mark.usefixtures("location", "judge")
def test_one_session_is_scored_on_demand_by_the_status_table(location: CodeLocation) -> None:
    fill(location.workplace, old_session("a"), fresh_session("going on", 0))

    (window,) = location.workplace.lake.select(
        AGENT_SESSIONS, pl.col("session_id") == "a"
    ).to_dicts()
    key = window["organization_id"], window["session_key"]
    waiting = AuditSample(window["session_date"], *key, "calls", "hash", NOW)
    OverrideStore(location.workplace.ledger).add_samples([waiting])
    first = ask(location, "a", by="reviewer")
    # Who asks sees the score: nothing but chance no longer selects it.
    assert sessions_that_left(location.workplace.ledger) == {key}
    assert (first.success, answered(first)) == (True, ("create", 202))
    (score,) = scores(location)
    assert (score.status, score.score_triggered_by) == ("completed", "reviewer")
    assert location.materialized("judge_scores") == [day(0)]
    assert answered(ask(location, "a")) == ("existing", 200)
    again = ask(location, "a", force=True)
    assert answered(again) == ("create", 202)
    assert scores(location)[-1].score_triggered_by == again.run_id
    unknown, early = ask(location, "unknown"), ask(location, "going on")
    assert (unknown.success, answered(unknown)) == (False, ("unknown", 404))
    assert (early.success, answered(early)) == (False, ("not_terminal", 400))
    assert failure_of(early) == "going on: it has not ended yet (HTTP 400)"


def test_an_unfinished_scoring_is_not_forced(location: CodeLocation, judge: JudgeEndpoint) -> None:
    fill(location.workplace, old_session("a"))
    judge.always(Scripted())
    ask_and_leave(location, "a")

    refused = ask(location, "a", force=True)
    assert (refused.success, answered(refused)) == (False, ("conflict", 409))
    done = ask(location, "a")  # it is finished, not begun again
    assert (done.success, answered(done)) == (True, ("existing", 202))
    assert [score.status for score in scores(location)] == ["completed"]


@pytest.mark.usefixtures("location", "judge")
def test_a_new_score_makes_its_date_due(location: CodeLocation) -> None:
    location.workplace.land("logs.jsonl", old_session("a"))
    location.workplace.ingest()
    assert location.run_requested("touched_dates_sensor").success
    assert location.request_count("touched_dates_sensor") == 0

    judge_range(location, 0, 0)
    assert location.requested_ranges("touched_dates_sensor") == [(day(0), day(0))]
