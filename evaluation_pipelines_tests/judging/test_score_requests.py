"""Requests for one session: each row of the status table with a real ledger."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluation_pipelines.judging.domain.due import RequestAnswer
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.judging.run import RunRequest, judge_session
from evaluation_pipelines.judging.score_requests import (
    RequestResult,
)
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.lock import JUDGE, held
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error
from evaluation_pipelines_tests.judged import Judged, fill, open_judged, session_with_texts
from evaluation_pipelines_tests.service.scoring_service import wait_for
from evaluation_pipelines_tests.world import claude, line

KEY = "s1#baseline-1"
CREATED, IN_PROGRESS = RequestAnswer("create", 202), RequestAnswer("existing", 202)


def test_a_request_creates_a_pending_scoring_which_the_next_run_judges(judged: Judged) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    requested = judged.request()

    assert requested.answer == CREATED
    assert requested.score is not None
    assert (requested.score.status, requested.score.score_triggered_by) == ("pending", "ada")
    assert len(judged.run().totals) == 1
    score = judged.score(KEY)
    assert (score.score_id, score.status) == (requested.score.score_id, "completed")
    assert score.score_triggered_by == "ada"
    assert score.content_level == "full"


def test_an_open_scoring_of_older_content_counts_as_in_progress(judged: Judged) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    judged.request()
    fill(judged.workplace, line(claude("user_prompt", 600, session__id="s1", prompt="More.")))

    assert judged.request().answer == IN_PROGRESS
    assert judged.request(force=True).answer == RequestAnswer("conflict", 409)


def test_a_session_without_text_is_judged_on_request(judged: Judged) -> None:
    fill(judged.workplace, line(claude("user_prompt", 0, session__id="s1")))
    assert judged.run().states == {"too_thin": 1}
    judged.request()

    assert len(judged.run().totals) == 1
    assert judged.score(KEY).content_level == "none"


def test_an_unambiguous_session_id_is_enough(judged: Judged) -> None:
    fill(
        judged.workplace,
        session_with_texts("s1"),
        session_with_texts("s2", organization__id="other"),
        session_with_texts("s2", 60, organization__id="acme"),
        session_with_texts("a#b"),
    )

    assert judged.request("s1").answer == CREATED
    assert judged.request("a#b").answer == CREATED
    assert judged.request("a#b#baseline-1").answer == IN_PROGRESS
    with pytest.raises(SessionNotFoundError, match=r"s2 is in several organizations.*acme, other"):
        judged.request("s2")
    with pytest.raises(SessionNotFoundError, match="s2#baseline-1 is in several"):
        judged.request("s2#baseline-1")
    found = judged.request("s2", organization="acme")
    assert found.score is not None
    assert found.score.organization_id == "acme"
    assert judged.request("s1", organization="acme").answer == RequestAnswer("unknown", 404)


def test_concurrent_requests_get_the_same_scoring(judged: Judged) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: judged.request(), range(8)))

    (score,) = {answer.score.score_id for answer in answers if answer.score}
    assert judged.score(KEY).score_id == score
    assert sorted(answer.answer.action for answer in answers) == ["create"] + ["existing"] * 7
    assert {answer.answer.http_status for answer in answers} == {202}


def test_a_waiting_caller_gets_the_reason_of_an_endpoint_and_a_score_when_it_answers(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    judge.always(http_error(401))
    stores = judged.workplace.stores

    def wait(*, force: bool) -> tuple[RequestResult, JudgeReport | None]:
        plans, run_request = load_plans(stores, judged.now), RunRequest("reviewer")
        query, now = SessionName("s1"), judged.now
        return judge_session(stores, plans, query, run_request, force=force, clock=lambda: now)

    requested, report = wait(force=False)
    assert requested.score is not None
    assert (requested.score.status, requested.score.retriable) == ("failed", True)
    assert "the endpoint answered 401" in (requested.score.error_message or "")
    assert report is not None
    assert report.is_endpoint_down
    judge.always(Scripted())
    requested, _ = wait(force=True)
    assert requested.score is not None
    assert (requested.score.status, requested.score.attempt) == ("completed", 2)


def test_a_waiting_caller_follows_whoever_judges_and_then_judges_itself(
    judge: JudgeEndpoint, tmp_path: Path
) -> None:
    with open_judged(tmp_path, judge.base_url) as judged:
        fill(judged.workplace, session_with_texts("s1"))
        stores, told = judged.workplace.stores, list[str]()
        with ThreadPoolExecutor(1) as pool:
            with held(stores.ledger, JUDGE):
                waiting = pool.submit(
                    judge_session,
                    *(stores, load_plans(stores, judged.now), SessionName("s1")),
                    RunRequest("reviewer"),
                    force=False,
                    clock=lambda: judged.now,
                    on_wait=lambda busy: told.append(busy.holder),
                )
                wait_for(lambda: told)
                assert judged.score(KEY).status == "pending"
            requested, _ = waiting.result(20)
        assert told[0] == f"process {os.getpid()} on {socket.gethostname()}"
        assert requested.score is not None
        assert (requested.score.status, requested.score.crashes) == ("completed", 0)
