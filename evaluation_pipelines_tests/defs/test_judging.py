"""Judging in Dagster: the asset, the sensor, and one session on demand."""

import logging
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast
from unittest.mock import Mock

import dagster as dg
import pytest

from evaluation_pipelines.defs.judging.event_log import EventLog
from evaluation_pipelines.judging.domain.score import Score
from evaluation_pipelines.judging.ledger.score_queries import ScoringEvent
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.score_requests import SessionQuery, request_score
from evaluation_pipelines.reporting.domain.charts import histogram_svg
from evaluation_pipelines.schemas import JUDGE_SCORES
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    day,
    failure_of,
    range_tags,
    repository,
    svg_of,
)
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error, says, score_reply
from evaluation_pipelines_tests.judged import fill, fresh_session, old_session
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.scoring_service import PATH

FRESH = "fresh_sessions_sensor"


def judge_range(
    location: CodeLocation, first: int, last: int, **config: object
) -> dg.ExecuteInProcessResult:
    """Execute a backfill of the judge scores with configuration."""
    return (
        repository()
        .get_job("judge_due")
        .execute_in_process(
            instance=location.instance,
            tags=range_tags(day(first), day(last)),
            run_config={"ops": {"judge_scores": {"config": config}}},
            raise_on_error=False,
        )
    )


def metadata(location: CodeLocation, number: int = 0) -> dict[str, object]:
    """Return the metadata of the newest materialization of a day."""
    which = dg.AssetRecordsFilter(
        dg.AssetKey("judge_scores"), asset_partitions=[day(number).isoformat()]
    )
    (record,) = location.instance.fetch_materializations(which, limit=1).records
    assert record.asset_materialization is not None
    return {name: each.value for name, each in record.asset_materialization.metadata.items()}


def messages(location: CodeLocation, run_id: str) -> list[str]:
    """Return the lines of a run's log."""
    return [each.user_message for each in location.instance.all_logs(run_id)]


def scores(location: CodeLocation) -> list[Score]:
    """Return all scorings."""
    found = ScoreStore(location.workplace.ledger)
    return [each for date in found.dates() for each in found.on_date(date)]


def execute_request(location: CodeLocation, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
    """Execute a requested run."""
    return (
        repository()
        .get_job("judge_due")
        .execute_in_process(
            instance=location.instance,
            tags=request.tags,
            run_config=request.run_config,
            raise_on_error=False,
        )
    )


def test_a_backfill_judges_what_is_due_and_shows_it(
    location: CodeLocation, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_JUDGE_CONCURRENCY", "1")  # the script answers in order
    fill(location.workplace, old_session("a", 0), old_session("b", 0), old_session("c", 2))
    judge.script_turn("score", says(score_reply(64)), says(score_reply(70)), says(score_reply(40)))

    result = judge_range(location, 0, 2)
    assert result.success
    assert location.materialized("judge_scores") == [day(0), day(2)]
    assert all(each.passed for each in result.get_asset_check_evaluations())
    shown = metadata(location)
    assert (shown["dagster/partition_row_count"], shown["completed"]) == (2, 2)
    assert svg_of(str(shown["totals"])) == histogram_svg(
        [64, 70], "total", (0.0, 100.0), {"usual from": 55, "to": 75}
    )
    assert shown["tokens"]
    assert float(str(shown["cost_usd"])) > 0
    assert "missed" in str(shown["failure_tags"])
    assert str(shown["this_run"]).startswith("3 of 3 sessions scored (mean total 58.0), 6 calls")
    assert {each.score_triggered_by for each in scores(location)} == {result.run_id}
    assert shown["judge_models"] == "judge-1"
    # 64 is the sum of the criteria; 70 differs by more than 5.
    assert r"inconsistent\_total | 1 |" in str(shown["flags"])
    logged = messages(location, result.run_id)
    (progress,) = [each for each in logged if each.startswith("judging sessions: 3 of 3 (")]
    assert re.fullmatch(r"judging sessions: 3 of 3 \(\S+/s\), \$0\.\d{4} spent", progress)
    events = [each for each in logged if each.startswith("scoring.")]
    assert events.count("scoring.completed c#baseline-1: 40 of 100") == 1
    assert len(events) == 3 * 4


class _Lines:
    """A log that keeps its lines by level."""

    def __init__(self) -> None:
        self.infos: list[str] = []
        self.debugs: list[str] = []

    def info(self, form: str, *values: object) -> None:
        self.infos.append(form % values)

    def debug(self, form: str, *values: object) -> None:
        self.debugs.append(form % values)


def test_events_of_scorings_do_not_flood_the_log_and_failures_come_first() -> None:
    done, failed = "scoring.completed", "scoring.failed"
    events = [
        ScoringEvent(n, done if n % 10 else failed, "", "", f"s{n}", 0, None, None, None)
        for n in range(1, 101)
    ]
    lines, store = _Lines(), Mock()
    store.newest_events.return_value = []
    store.events_after.side_effect = [events, []]
    log = EventLog(cast("logging.Logger", lines), store)
    log()
    log()

    assert lines.infos == [f"scoring.failed s{n}" for n in range(10, 101, 10)]
    assert lines.debugs == [
        *(f"scoring.completed s{n}" for n in (*range(1, 10), 11)),
        "80 more events of scorings: evaluation-pipelines judge events",
    ]
    assert [each.args for each in store.events_after.call_args_list] == [(0,), (100,)]


def test_an_event_is_one_printable_line_of_the_log() -> None:
    key, detail = "s1\nscoring.completed s2", "503\r\n\x1b[2Kall is well\u202e"
    lines, store = _Lines(), Mock()
    store.newest_events.return_value = []
    event = ScoringEvent(1, "scoring.failed", "", "", key, 0, None, None, detail)
    store.events_after.return_value = [event]

    EventLog(cast("logging.Logger", lines), store)()

    assert lines.infos == ["scoring.failed s1 scoring.completed s2: 503 [2Kall is well"]


def test_a_repeated_backfill_judges_again_only_with_force(
    location: CodeLocation, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVAL_JUDGE_MAX_COST_PER_DAY_USD")  # the other model has no price
    fill(location.workplace, old_session("a"))
    judge_range(location, 0, 0)
    before = location.workplace.lake.place(JUDGE_SCORES, day(0)).read_bytes()

    assert judge_range(location, 0, 0).success
    assert len(judge.requests) == 2
    assert location.workplace.lake.place(JUDGE_SCORES, day(0)).read_bytes() == before
    assert metadata(location)["this_run"] == "nothing is due"
    judge_range(location, 0, 0, force=True, model="judge-2", samples=3)
    assert [(each.judge_model, each.samples) for each in scores(location)] == [
        ("judge-1", 1),
        ("judge-2", 3),
    ]


@pytest.mark.usefixtures("location", "judge")
def test_materialize_judges_what_is_due(location: CodeLocation) -> None:
    fill(location.workplace, old_session("a"))

    assert location.materialize(0, "judge_scores").success
    assert len(scores(location)) == 1


@pytest.mark.usefixtures("location", "judge")
def test_the_limits_of_a_run_apply(location: CodeLocation) -> None:
    fill(location.workplace, *(old_session(name) for name in "abc"))

    judge_range(location, 0, 0, max_sessions=1)
    assert len(scores(location)) == 1
    assert "2 deferred" in str(metadata(location)["this_run"])
    judge_range(location, 0, 0, max_cost_usd=0.0001)
    assert len(scores(location)) == 1


def test_without_an_endpoint_the_run_says_so_and_succeeds(location: CodeLocation) -> None:
    fill(location.workplace, old_session("a"))

    assert judge_range(location, 0, 0).success
    assert str(metadata(location)["this_run"]).startswith("no judge is configured: set EVAL_JUDGE")
    assert location.tick(FRESH).skip_message == (
        "no judge is configured: set EVAL_JUDGE_MODEL to the name of a model"
    )


def test_new_telemetry_judges_nothing(location: CodeLocation, judge: JudgeEndpoint) -> None:
    location.land(0)

    assert location.run_requested("touched_dates_sensor").success
    assert judge.requests == []
    assert location.materialized("judge_scores") == []
    (queued,) = RebuildQueue(location.workplace.ledger).all()
    assert queued.is_built


def test_an_endpoint_that_is_down_fails_the_run_and_leaves_the_rest_due(
    location: CodeLocation, judge: JudgeEndpoint
) -> None:
    fill(location.workplace, fresh_session("a"), fresh_session("b"))
    judge.always(http_error(401))

    (request,) = location.tick(FRESH).run_requests or []
    failed = execute_request(location, request)
    assert not failed.success
    assert "the judge stopped early, the rest stays due" in failure_of(failed)
    assert "the endpoint answered 401" in failure_of(failed)
    # The endpoint is not called again immediately.
    assert location.tick(FRESH).skip_message == (
        "the last judge run failed less than ten minutes ago"
    )


@pytest.mark.usefixtures("location", "judge")
def test_fresh_sessions_are_judged_a_few_at_a_time(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_JUDGE_FRESH_SESSIONS", "2")
    fill(
        location.workplace,
        fresh_session("a"),
        fresh_session("b", 3),
        fresh_session("c", 4),
        old_session("old"),
    )
    fill(location.workplace, fresh_session("going on", 0))

    (request,) = location.tick(FRESH).run_requests or []
    assert execute_request(location, request).success
    # The oldest of the fresh sessions; the old session waits for the nightly run.
    assert {each.session_id for each in scores(location)} == {"b", "c"}
    assert {each.score_triggered_by for each in scores(location)} == {"sensor"}
    (request,) = location.tick(FRESH).run_requests or []
    assert execute_request(location, request).success
    assert {each.session_id for each in scores(location)} == {"a", "b", "c"}
    assert location.request_count(FRESH) == 0


def test_sessions_that_could_not_be_judged_are_not_requested_at_every_tick(
    location: CodeLocation, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_JUDGE_MAX_COST_PER_DAY_USD", "0.00001")
    fill(location.workplace, fresh_session("a"))

    (request,) = location.tick(FRESH).run_requests or []
    assert execute_request(location, request).success
    assert judge.requests == []
    ticked = location.tick(FRESH)
    assert ticked.run_requests == []
    assert "1 sessions wait that the last run did not judge" in (ticked.skip_message or "")
    fill(location.workplace, fresh_session("b"))
    assert location.request_count(FRESH) == 1


@pytest.mark.parametrize("job", ["judge_due", "nightly_evaluation"])
@pytest.mark.parametrize("reached", ["RUN_ENQUEUED", "RUN_START"])
@pytest.mark.usefixtures("location", "judge")
def test_no_second_judge_run_is_requested_while_one_is_unfinished(
    location: CodeLocation, reached: str, job: str
) -> None:
    fill(location.workplace, fresh_session("a"))
    location.start(job, range_tags(day(0), day(0)), reached)

    assert location.request_count(FRESH) == 0


@pytest.mark.usefixtures("location", "judge")
def test_without_a_limit_on_cost_only_requests_are_judged_automatically(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVAL_JUDGE_MAX_COST_PER_DAY_USD")
    fill(location.workplace, fresh_session("a"), fresh_session("b"))

    assert location.tick(FRESH).skip_message == (
        "automatic judging is off, since its cost has no limit: set "
        "EVAL_JUDGE_MAX_COST_PER_DAY_USD to switch it on"
    )
    ask_and_leave(location, "a")
    (request,) = location.tick(FRESH).run_requests or []
    execute_request(location, request)
    assert [(each.session_id, each.status) for each in scores(location)] == [("a", "completed")]


@pytest.mark.usefixtures("location", "judge")
def test_an_open_request_is_served_however_old_its_session(location: CodeLocation) -> None:
    fill(location.workplace, old_session("a"))
    assert location.request_count(FRESH) == 0
    ask_and_leave(location, "a")

    (request,) = location.tick(FRESH).run_requests or []
    assert execute_request(location, request).success
    assert [each.status for each in scores(location)] == ["completed"]


@pytest.mark.usefixtures("location", "judge")
def test_a_request_over_http_ends_in_a_run_that_scores(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_SERVICE_SCORING", "dagster")
    fill(location.workplace, old_session("a"))
    service = Service(replace(location.workplace, settings=load_settings()))
    with service.client() as client:
        accepted = client.post(PATH.format("a"))
        assert accepted.status_code == 202, accepted.text
        (request,) = location.tick(FRESH).run_requests or []
        assert execute_request(location, request).success
        record = client.get(PATH.format("a")).json()
    assert (record["score_id"], record["status"]) == (accepted.json()["score_id"], "completed")
    assert record["total_score"] == scores(location)[0].total_score
    assert record["score_triggered_by"] == "local"


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


def ask_and_leave(location: CodeLocation, session: str) -> None:
    """Request the score of a session without waiting for it."""
    stores = replace(location.workplace.stores, settings=load_settings())
    now = datetime.now(UTC)
    plans = load_plans(stores, now)
    request_score(stores, plans, SessionQuery(session), "reviewer", now, force=False)


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

    first = ask(location, "a", by="reviewer")
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

    # No process works on it: it is finished, not begun again.
    done = ask(location, "a", force=True)
    assert (done.success, answered(done)) == (True, ("existing", 202))
    assert [each.status for each in scores(location)] == ["completed"]


@pytest.mark.usefixtures("location", "judge")
def test_a_new_score_makes_its_date_due(location: CodeLocation) -> None:
    location.workplace.land("logs.jsonl", old_session("a"))
    location.workplace.ingest()
    assert location.run_requested("touched_dates_sensor").success
    assert location.request_count("touched_dates_sensor") == 0

    judge_range(location, 0, 0)
    assert location.requested_ranges("touched_dates_sensor") == [(day(0), day(0))]
