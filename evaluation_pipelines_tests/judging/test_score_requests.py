"""Requests for one session: the status table with the real ledger, row by row."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evaluation_pipelines.judging.domain.score_requests import RequestAnswer
from evaluation_pipelines.judging.judge import judge_session
from evaluation_pipelines.judging.ledger.score_records import Lease
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.runner.run_request import RunRequest
from evaluation_pipelines.judging.score_requests import (
    RequestResult,
    SessionQuery,
    look_up,
    request_score,
    retry_once,
)
from evaluation_pipelines.sessions.score import SessionNotFoundError
from evaluation_pipelines.storage.ledger.errors import LedgerError, LedgerLockedError
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import http_error
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, told_session
from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.workplace import NOW

KEY = "s1#baseline-1"
NEW, THERE, UNDER_WAY = (
    RequestAnswer("create", 202),
    RequestAnswer("existing", 200),
    RequestAnswer("existing", 202),
)


def asked(
    judged: Judged, session: str = KEY, *, force: bool = False, organization: str | None = None
) -> RequestResult:
    stores = judged.workplace.stores
    plans, wanted = load_plans(stores, judged.now), SessionQuery(session, organization)
    return request_score(stores, plans, wanted, "reviewer", judged.now, force=force)


def test_nothing_yet_becomes_a_pending_scoring_which_the_next_run_judges(judged: Judged) -> None:
    fill(judged.workplace, told_session("s1"))
    requested = asked(judged)

    assert requested.answer == NEW
    assert requested.score is not None
    assert (requested.score.status, requested.score.score_triggered_by) == ("pending", "reviewer")
    assert len(judged.run().totals) == 1
    score = judged.score(KEY)
    assert (score.score_id, score.status) == (requested.score.score_id, "completed")
    assert score.score_triggered_by == "reviewer"
    assert score.content_level == "full"


def test_what_is_under_way_is_given_and_not_forced(judged: Judged) -> None:
    fill(judged.workplace, told_session("s1"))
    first = asked(judged).score
    assert first is not None

    assert asked(judged) == RequestResult(UNDER_WAY, asked(judged).window, first)
    assert asked(judged, force=True).answer == RequestAnswer("conflict", 409)
    ScoreStore(judged.workplace.ledger).claim(first.score_id, Lease("somebody", 60), judged.now)
    assert asked(judged).answer == UNDER_WAY
    assert asked(judged, force=True).answer == RequestAnswer("conflict", 409)
    assert len(judged.scores(KEY)) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_what_has_ended_is_given_unless_forced(
    judged: Judged, judge: JudgeEndpoint, fails: bool
) -> None:
    fill(judged.workplace, told_session("s1"))
    if fails:
        judge.script(http_error(400))
    judged.run()
    ended = judged.score(KEY)

    assert asked(judged).answer == THERE
    assert asked(judged).score == ended
    again = asked(judged, force=True)
    assert again.answer == NEW
    assert again.score is not None
    assert again.score.score_id != ended.score_id
    assert again.score.attempt == (2 if fails else 1)


def test_a_session_that_goes_on_is_refused_and_an_unknown_one_unknown(judged: Judged) -> None:
    fill(judged.workplace, told_session("s1"))
    judged.now = datetime(2026, 6, 1, 12, 10, tzinfo=UTC)

    assert asked(judged).answer == RequestAnswer("not_terminal", 400)
    assert asked(judged, force=True).answer == RequestAnswer("not_terminal", 400)
    assert asked(judged, "nobody").answer == RequestAnswer("unknown", 404)
    assert judged.scores(KEY) == []


def test_new_content_is_a_new_request(judged: Judged) -> None:
    fill(judged.workplace, told_session("s1"))
    judged.run()
    fill(judged.workplace, line(claude("user_prompt", 600, session__id="s1", prompt="More.")))

    assert asked(judged).answer == NEW


def test_an_open_scoring_of_older_content_counts_as_under_way(judged: Judged) -> None:
    fill(judged.workplace, told_session("s1"))
    asked(judged)
    fill(judged.workplace, line(claude("user_prompt", 600, session__id="s1", prompt="More.")))

    assert asked(judged).answer == UNDER_WAY
    assert asked(judged, force=True).answer == RequestAnswer("conflict", 409)


def test_a_session_without_text_is_judged_when_somebody_asks_for_it(judged: Judged) -> None:
    fill(judged.workplace, line(claude("user_prompt", 0, session__id="s1")))
    assert judged.run().states == {"too_thin": 1}
    asked(judged)

    assert len(judged.run().totals) == 1
    assert judged.score(KEY).content_level == "none"


def test_a_bare_id_is_enough_where_it_is_unambiguous(judged: Judged) -> None:
    fill(
        judged.workplace,
        told_session("s1"),
        told_session("s2"),
        told_session("s2", 60, organization__id="acme"),
        told_session("a#b"),
    )

    assert asked(judged, "s1").answer == NEW
    assert asked(judged, "a#b").answer == NEW
    assert asked(judged, "a#b#baseline-1").answer == UNDER_WAY
    with pytest.raises(SessionNotFoundError, match=r"s2 has several windows.*acme.*default"):
        asked(judged, "s2")
    with pytest.raises(SessionNotFoundError, match="s2#baseline-1 has several"):
        asked(judged, "s2#baseline-1")
    found = asked(judged, "s2", organization="acme")
    assert found.score is not None
    assert found.score.organization_id == "acme"
    assert asked(judged, "s1", organization="acme").answer == RequestAnswer("unknown", 404)


def test_those_who_ask_at_once_get_the_same_scoring(judged: Judged) -> None:
    fill(judged.workplace, told_session("s1"))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: asked(judged), range(8)))

    (score,) = {each.score.score_id for each in answers if each.score}
    assert judged.score(KEY).score_id == score
    assert sorted(each.answer.action for each in answers) == ["create"] + ["existing"] * 7
    assert {each.answer.http_status for each in answers} == {202}


def test_looking_finds_the_newest_scoring_or_nothing(judged: Judged) -> None:
    fill(judged.workplace, told_session("s1"))
    stores = judged.workplace.stores

    assert look_up(stores, SessionQuery("nobody"), judged.now).answer.http_status == 404
    nothing = look_up(stores, SessionQuery("s1"), judged.now)
    assert (nothing.answer.http_status, nothing.window is None) == (404, False)
    judged.run()
    asked(judged, force=True)
    newest = look_up(stores, SessionQuery("s1"), judged.now)
    assert (newest.answer, newest.score) == (THERE, judged.scores(KEY)[-1])


def test_a_ledger_that_fails_is_tried_once_more() -> None:
    tries: list[int] = []

    def step() -> str:
        tries.append(1)
        if len(tries) < wanted:
            raise LedgerLockedError("busy")
        return "done"

    wanted = 2
    assert retry_once(step) == "done"
    tries.clear()
    wanted = 3
    with pytest.raises(LedgerError, match="busy"):
        retry_once(step)
    assert len(tries) == 2


def test_a_session_is_judged_at_once_for_one_who_waits(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    fill(judged.workplace, told_session("s1"), told_session("s2"))
    stores = judged.workplace.stores
    plans = load_plans(stores, judged.now)

    def wait(session: str, *, force: bool = False) -> RequestResult:
        order = RunRequest("reviewer")
        clock = lambda: judged.now  # noqa: E731
        return judge_session(stores, plans, SessionQuery(session), order, force=force, clock=clock)[
            0
        ]

    first = wait("s1")
    assert (first.answer, first.score) == (NEW, judged.score(KEY))
    assert first.score is not None
    assert first.score.status == "completed"
    assert judged.scores("s2#baseline-1") == []
    assert wait("s1").answer == THERE
    again = wait("s1", force=True)
    assert again.answer == NEW
    assert again.score is not None
    assert again.score.score_id != first.score.score_id
    assert wait("nobody").answer == RequestAnswer("unknown", 404)
    assert judge.turns() == ["score", "missing-tools"] * 2


def test_one_who_waits_is_told_when_it_cannot_be_judged_now(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    fill(judged.workplace, told_session("s1"))
    judge.always(http_error(401))
    stores = judged.workplace.stores

    requested, report = judge_session(
        stores,
        load_plans(stores, judged.now),
        SessionQuery("s1"),
        RunRequest("reviewer"),
        force=False,
        clock=lambda: judged.now,
    )
    assert requested.score is not None
    assert requested.score.is_open
    assert report is not None
    assert report.is_endpoint_down


def test_one_who_waits_for_somebody_elses_work_gets_its_result(
    judge: JudgeEndpoint, tmp_path: Path
) -> None:
    with open_judged(tmp_path, judge.base_url) as judged:
        fill(judged.workplace, told_session("s1"))
        stores, started = judged.workplace.stores, asked(judged).score
        assert started is not None
        ScoreStore(stores.ledger).claim(started.score_id, Lease("somebody:1:x", 2), NOW)
        later = iter([NOW, NOW + timedelta(seconds=1)])

        requested, _ = judge_session(
            stores,
            load_plans(stores, judged.now),
            SessionQuery("s1"),
            RunRequest("reviewer"),
            force=False,
            clock=lambda: next(later, NOW + timedelta(seconds=3)),
        )
        # Somebody's lease ran out meanwhile: the work was taken over.
        assert requested.answer == UNDER_WAY
        assert requested.score is not None
        assert (requested.score.status, requested.score.takeovers) == ("completed", 1)
