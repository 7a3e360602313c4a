"""Judging in Dagster: the asset, the sensor, and one session on demand."""

from dataclasses import replace
from datetime import UTC, datetime

import dagster as dg
import pytest

from evaluation_pipelines.judging.domain.score import Score
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.score_requests import SessionQuery, request_score
from evaluation_pipelines.schemas import JUDGE_SCORES
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    day,
    failure_of,
    range_tags,
    repository,
)
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error, says, score_reply
from evaluation_pipelines_tests.judged import fill, fresh, old

FRESH = "fresh_sessions_sensor"


def judge_range(
    location: CodeLocation, first: int, last: int, **config: object
) -> dg.ExecuteInProcessResult:
    """A backfill of the scores, with configuration."""
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
    """What the newest materialization of a day shows."""
    wanted = dg.AssetRecordsFilter(
        dg.AssetKey("judge_scores"), asset_partitions=[day(number).isoformat()]
    )
    (record,) = location.instance.fetch_materializations(wanted, limit=1).records
    assert record.asset_materialization is not None
    return {name: each.value for name, each in record.asset_materialization.metadata.items()}


def scores(location: CodeLocation) -> list[Score]:
    """All scorings."""
    found = ScoreStore(location.workplace.ledger)
    return [each for date in found.dates() for each in found.on_date(date)]


def follow(location: CodeLocation, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
    """Execute the run that somebody asked for."""
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
    location: CodeLocation, judge: JudgeEndpoint
) -> None:
    fill(location.workplace, old("a", 0), old("b", 0), old("c", 2))
    judge.script_turn("score", says(score_reply(64)), says(score_reply(70)), says(score_reply(40)))

    result = judge_range(location, 0, 2)
    assert result.success
    assert location.materialized("judge_scores") == [day(0), day(2)]
    assert all(each.passed for each in result.get_asset_check_evaluations())
    shown = metadata(location)
    assert (shown["dagster/partition_row_count"], shown["completed"]) == (2, 2)
    assert "data:image/svg+xml;base64," in str(shown["totals"])
    assert shown["tokens"]
    assert float(str(shown["cost_usd"])) > 0
    assert "missed" in str(shown["failure_tags"])
    assert str(shown["this_run"]).startswith("3 of 3 sessions scored (mean total 58.0), 6 calls")
    assert {each.score_triggered_by for each in scores(location)} == {result.run_id}


def test_a_backfill_again_judges_nothing_twice_and_force_does(
    location: CodeLocation, judge: JudgeEndpoint
) -> None:
    fill(location.workplace, old("a"))
    judge_range(location, 0, 0)
    before = location.workplace.lake.partition(JUDGE_SCORES, day(0)).read_bytes()

    assert judge_range(location, 0, 0).success
    assert len(judge.requests) == 2
    assert location.workplace.lake.partition(JUDGE_SCORES, day(0)).read_bytes() == before
    assert metadata(location)["this_run"] == "nothing is due"
    judge_range(location, 0, 0, force=True, model="judge-2", samples=3)
    assert [(each.judge_model, each.samples) for each in scores(location)] == [
        ("judge-1", 1),
        ("judge-2", 3),
    ]


@pytest.mark.usefixtures("location", "judge")
def test_a_click_on_materialize_does_the_same(location: CodeLocation) -> None:
    fill(location.workplace, old("a"))

    assert location.materialize(0, "judge_scores").success
    assert len(scores(location)) == 1


@pytest.mark.usefixtures("location", "judge")
def test_limits_of_a_run_are_kept(location: CodeLocation) -> None:
    fill(location.workplace, *(old(name) for name in "abc"))

    judge_range(location, 0, 0, max_sessions=1)
    assert len(scores(location)) == 1
    assert "2 deferred" in str(metadata(location)["this_run"])
    judge_range(location, 0, 0, max_cost_usd=0.0001)
    assert len(scores(location)) == 1


def test_without_an_endpoint_it_says_so_and_is_green(location: CodeLocation) -> None:
    fill(location.workplace, old("a"))

    assert judge_range(location, 0, 0).success
    assert str(metadata(location)["this_run"]).startswith("no judge is configured: set EVAL_JUDGE")
    assert location.tick(FRESH).skip_message == (
        "no judge is configured: set EVAL_JUDGE_MODEL to the name of a model"
    )


def test_new_telemetry_judges_nothing(location: CodeLocation, judge: JudgeEndpoint) -> None:
    location.land(0)

    assert location.follow("touched_dates_sensor").success
    assert judge.requests == []
    assert location.materialized("judge_scores") == []
    (touched,) = RebuildQueue(location.workplace.ledger).all()
    assert touched.is_built


def test_an_endpoint_that_is_down_fails_the_run_and_leaves_the_rest_due(
    location: CodeLocation, judge: JudgeEndpoint
) -> None:
    fill(location.workplace, fresh("a"), fresh("b"))
    judge.always(http_error(401))

    (request,) = location.tick(FRESH).run_requests or []
    failed = follow(location, request)
    assert not failed.success
    assert "the judge stopped early, the rest stays due" in failure_of(failed)
    assert "the endpoint answered 401" in failure_of(failed)
    # Nobody hammers at a door that is shut.
    assert location.tick(FRESH).skip_message == (
        "the last judge run failed less than ten minutes ago"
    )


@pytest.mark.usefixtures("location", "judge")
def test_fresh_sessions_are_judged_some_at_a_time(
    location: CodeLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_JUDGE_FRESH_SESSIONS", "2")
    fill(location.workplace, fresh("a"), fresh("b", 3), fresh("c", 4), old("old"))
    fill(location.workplace, fresh("going on", 0))

    (request,) = location.tick(FRESH).run_requests or []
    assert follow(location, request).success
    # The oldest of the fresh ones; the old one waits for the night.
    assert {each.session_id for each in scores(location)} == {"b", "c"}
    assert {each.score_triggered_by for each in scores(location)} == {"sensor"}
    (request,) = location.tick(FRESH).run_requests or []
    assert follow(location, request).success
    assert {each.session_id for each in scores(location)} == {"a", "b", "c"}
    assert location.asks(FRESH) == 0


def test_what_could_not_be_judged_is_not_asked_for_at_every_tick(
    location: CodeLocation, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_JUDGE_MAX_COST_PER_DAY_USD", "0.00001")
    fill(location.workplace, fresh("a"))

    (request,) = location.tick(FRESH).run_requests or []
    assert follow(location, request).success
    assert judge.requests == []
    ticked = location.tick(FRESH)
    assert ticked.run_requests == []
    assert "1 sessions wait that the last run did not judge" in (ticked.skip_message or "")
    fill(location.workplace, fresh("b"))
    assert location.asks(FRESH) == 1


@pytest.mark.parametrize("job", ["judge_due", "nightly_evaluation"])
@pytest.mark.parametrize("reached", ["RUN_ENQUEUED", "RUN_START"])
@pytest.mark.usefixtures("location", "judge")
def test_no_second_judge_run_is_asked_for_while_one_is_under_way(
    location: CodeLocation, reached: str, job: str
) -> None:
    fill(location.workplace, fresh("a"))
    location.start(job, range_tags(day(0), day(0)), reached)

    assert location.asks(FRESH) == 0


@pytest.mark.usefixtures("location", "judge")
def test_a_request_that_waits_is_picked_up_however_old_its_session(location: CodeLocation) -> None:
    fill(location.workplace, old("a"))
    assert location.asks(FRESH) == 0
    ask_and_leave(location, "a")

    (request,) = location.tick(FRESH).run_requests or []
    assert follow(location, request).success
    assert [each.status for each in scores(location)] == ["completed"]


def ask(location: CodeLocation, session: str, **config: object) -> dg.ExecuteInProcessResult:
    """The job that scores one session."""
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
    """A request that nobody waits for."""
    stores = replace(location.workplace.stores, settings=load_settings())
    now = datetime.now(UTC)
    plans = load_plans(stores, now)
    request_score(stores, plans, SessionQuery(session), "reviewer", now, force=False)


def answered(result: dg.ExecuteInProcessResult) -> tuple[object, object]:
    """Answer and HTTP status that a run shows, whether it succeeded or not."""
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
    fill(location.workplace, old("a"), fresh("going on", 0))

    first = ask(location, "a", by="reviewer")
    assert (first.success, answered(first)) == (True, ("create", 202))
    (score,) = scores(location)
    assert (score.status, score.score_triggered_by) == ("completed", "reviewer")
    assert location.materialized("judge_scores") == [day(0)]
    assert answered(ask(location, "a")) == ("existing", 200)
    again = ask(location, "a", force=True)
    assert answered(again) == ("create", 202)
    assert scores(location)[-1].score_triggered_by == again.run_id
    unknown, early = ask(location, "nobody"), ask(location, "going on")
    assert (unknown.success, answered(unknown)) == (False, ("unknown", 404))
    assert (early.success, answered(early)) == (False, ("not_terminal", 400))
    assert failure_of(early) == "going on: it has not ended yet (HTTP 400)"


def test_what_is_under_way_is_not_forced(location: CodeLocation, judge: JudgeEndpoint) -> None:
    fill(location.workplace, old("a"))
    judge.always(Scripted())
    ask_and_leave(location, "a")

    refused = ask(location, "a", force=True)
    assert (refused.success, answered(refused)) == (False, ("conflict", 409))
    done = ask(location, "a")
    assert (done.success, answered(done)) == (True, ("existing", 202))
    assert [each.status for each in scores(location)] == ["completed"]


@pytest.mark.usefixtures("location", "judge")
def test_a_new_score_makes_what_hangs_on_it_due(location: CodeLocation) -> None:
    location.workplace.land("logs.jsonl", old("a"))
    location.workplace.ingest()
    assert location.follow("touched_dates_sensor").success
    assert location.asks("touched_dates_sensor") == 0

    judge_range(location, 0, 0)
    assert location.requested("touched_dates_sensor") == [(day(0), day(0))]
