"""Anchors from the drawing to the bridge, with an endpoint that answers over HTTP."""

import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import date
from html import unescape
from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa

from evaluation_pipelines.build.build import unpublished_dates
from evaluation_pipelines.judge_changes.anchors import NoBridgeError, read_anchors
from evaluation_pipelines.judge_changes.score_anchors import AnchorRun, estimate_cost
from evaluation_pipelines.judging import run as judge_run
from evaluation_pipelines.judging import score_requests
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.rubric_files import SHIPPED_RUBRICS
from evaluation_pipelines.judging.score_requests import request_score
from evaluation_pipelines.progress import Silent
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.tables.judging import ANCHOR_SCORES, RUBRIC_TEXTS
from evaluation_pipelines.storage.ledger.tables.telemetry import EXPIRED_DATES
from evaluation_pipelines_tests.judge_changes.changed import (
    ChangePages,
    changed_judge,
    judge_changed_by,
    measured,
    only_change,
    run_anchors,
)
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import http_error, says, score_reply
from evaluation_pipelines_tests.judged import Judged, fill, session_with_texts
from evaluation_pipelines_tests.service.scoring_service import wait_for


@pytest.fixture
def judged(tmp_path: Path, judge: JudgeEndpoint) -> Iterator[Judged]:
    """Stores whose judge has changed."""
    with changed_judge(tmp_path, judge) as opened:
        yield opened


def test_both_judges_score_the_same_sessions_and_the_shift_is_the_judges(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    before = len(judge.requests)
    _, change = only_change(judged)
    assert (change.former.model, change.new.model) == ("judge-1", "judge-2")
    assert change.changed_on == date(2026, 6, 4)
    assert measured(judged).row["state"] == "not drawn"

    report = run_anchors(judged)
    # 18 sessions of three days, two judges, three samples; missing tools are not asked for.
    assert (report.anchors, report.finished, report.judged.calls) == (18, 18, 108)
    asked = judge.requests[before:]
    assert Counter((received.body["model"], received.turn) for received in asked) == {
        ("judge-1", "score"): 54,
        ("judge-2", "score"): 54,
    }
    found = measured(judged)
    assert read_anchors(judged.workplace.ledger, change)["new_cost_usd"].sum() > 0
    # They are no scores of their sessions.
    assert len(judged.scores("s0-0#baseline-1")) == 1
    assert unpublished_dates(judged.workplace.stores) == set()
    assert judged.run().states == {"scored": 30}
    pages = ChangePages(judged)
    shown = pages.of("/operations/judge")
    trends = pages.of("/trends?from=2026-06-01&to=2026-06-05")
    without_days_before = pages.of("/trends?from=2026-06-04&to=2026-06-05")
    of_one_organization = pages.of("/operations/judge", "default")

    assert "Mean score +10.0: +10.0 (" in shown
    assert "previous judge</text>" in shown
    # Scores that count are of the profile "default", which measures, too: they cannot be shifted.
    said = "The judge of profile default changed on 2026-06-04 from judge-1 to judge-2: earlier "
    assert f"{said}scores are not comparable." in unescape(trends)
    assert 'href="/operations/judge">Judge changes</a>' in trends
    assert "The judge" not in without_days_before
    assert "Judge change" not in of_one_organization  # it is one of all organizations
    expected = {
        "state": "measured",
        "trend": "bridged",
        "reason": None,
        "people": 6,
        "clustered_by": "person",
        "anchors": 18,
        "anchors_scored": 18,
        "anchors_replaced": 0,
        "frame_sessions": 18,
        "before_sessions": 18,
        "after_sessions": 12,
        "cost_usd": None,  # judge-1 has no list price
    }
    assert {name: found.row[name] for name in expected} == expected
    # 60 and 70 points from every judgment: all of the shift is the judge's, without any error.
    figures = {
        "former_anchor_score": 60,
        "new_anchor_score": 70,
        "judges_part": 10,
        "half_width": 0,
        "before_score": 60,
        "after_score": 70,
        "shift": 10,
        "agents_part": 0,
    }
    assert {name: found.row[name] for name in figures} == pytest.approx(figures, abs=1e-9)
    anchors = found.anchors.select("former_score", "new_score", "difference", "probability")
    assert set(anchors.rows()) == {(60, 70, 10, 1)}


def test_a_run_continues_where_the_budget_ended_the_last_one(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    history, change = only_change(judged)
    stores = judged.workplace.stores
    # judge-1 has no list price: its cost, and with it the sum, is unknown.
    assert estimate_cost(stores, history, change, judged.now) == (18, 108, None)

    first = run_anchors(judged, max_cost_usd=0.0)
    assert (first.judged.calls, first.finished) == (0, 0)
    assert "the price of the model is unknown" in first.problems[0]
    of_day = stores.settings.model_copy(update={"judge_max_cost_per_day_usd": 0.0})
    limited = replace(stores, settings=of_day)
    refused = AnchorRun(limited, history, change, "tests", clock=lambda: judged.now).run()
    assert (refused.judged.calls, refused.problems[0]) == (0, first.problems[0])
    assert measured(judged).row["state"] == "incomplete"
    assert run_anchors(judged).is_finished
    requests = len(judge.requests)
    assert run_anchors(judged).is_finished
    assert len(judge.requests) == requests
    assert estimate_cost(stores, history, change, judged.now)[1] == 0


def test_a_run_goes_on_if_all_calls_of_a_step_are_in_flight_when_a_person_asks(
    tmp_path: Path, judge: JudgeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_run, "LET_GO_S", 0.2)
    with changed_judge(tmp_path, judge) as judged, ThreadPoolExecutor(1) as pool:
        stores, before = judged.workplace.stores, len(judge.requests)
        run = AnchorRun(stores, *only_change(judged), "tests", clock=lambda: judged.now)
        judge.may_answer.clear()
        try:
            report = pool.submit(run.run)
            judge.wait_for(before + 3)  # the former judge is tried on three anchors
            plans, query = load_plans(stores, judged.now), SessionName("s4-5")
            with monkeypatch.context() as patched:
                patched.setattr(score_requests, "endpoint_of", lambda _: "http://another")
                request_score(stores, plans, query, "ada", judged.now, force=True)
            wait_for(lambda: run._let_go_for)
        finally:
            judge.may_answer.set()
        assert (report.result(60).is_finished, report.result().problems) == (True, [])


class Interrupted(Silent):
    """Progress that interrupts the run after some anchors, as a user would."""

    def __init__(self, after: int) -> None:
        self.left = after

    def advance(self, units: int) -> None:
        """Count down."""
        self.left -= units
        if not self.left:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("interrupt")
def test_a_run_continues_where_a_user_stopped_the_last_one(
    tmp_path: Path, judge: JudgeEndpoint
) -> None:
    with changed_judge(tmp_path, judge, judge_concurrency=2) as judged:
        before = len(judge.requests)
        with pytest.raises(KeyboardInterrupt):
            run_anchors(judged, progress=Interrupted(after=8))
        scores = ScoreStore(judged.workplace.ledger, ANCHOR_SCORES)
        # None is left as if a judge worked on it; whether one was begun is chance.
        assert {score.status for score in scores.open_scores()} <= {"pending"}
        assert measured(judged).row["state"] == "incomplete"

        assert run_anchors(judged).is_finished
        # Replies that had arrived are not asked for again: at most the calls in flight are.
        assert 108 <= len(judge.requests) - before <= 108 + 2


def test_a_former_model_that_the_endpoint_refuses_cuts_the_trend(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    judge.always_as("judge-1", http_error(404, "no such model"))
    report = run_anchors(judged)
    assert report.refusal is not None
    assert report.refusal.startswith("the former judge, judge-1, was refused: ")
    row = measured(judged).row
    assert (row["state"], row["trend"], row["reason"]) == ("impossible", "cut", report.refusal)

    judge.always_as("judge-1", says(score_reply(60)))
    again = run_anchors(judged)
    assert (again.refusal, again.is_finished) == (None, True)
    assert measured(judged).row["trend"] == "bridged"


def test_a_judge_that_has_scored_before_fails_because_of_the_sessions(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    run_anchors(judged)
    scorings, is_new = ANCHOR_SCORES.c, ANCHOR_SCORES.c.judge_model == "judge-2"
    with writing(judged.workplace.ledger.engine) as connection:
        # What is left of the new judge is one scoring, of an anchor of another change.
        one = sa.select(sa.func.min(scorings.score_id)).where(is_new).scalar_subquery()
        connection.execute(sa.delete(ANCHOR_SCORES).where(is_new, scorings.score_id != one))
        connection.execute(sa.update(ANCHOR_SCORES).where(is_new).values(session_key="else"))
    judge.always_as("judge-2", http_error(400, "content_filter"))

    report = run_anchors(judged)
    assert (report.refusal, report.anchors) == (None, 0)
    assert measured(judged).anchors["replaced_because"].null_count() == 0


def test_an_endpoint_that_is_down_refuses_no_judge(judged: Judged, judge: JudgeEndpoint) -> None:
    for model in ("judge-1", "judge-2"):
        judge.always_as(model, http_error(401, "bad key"))
    report = run_anchors(judged)
    assert report.refusal is None
    assert "bad key" in report.problems[0]
    assert measured(judged).row["state"] == "incomplete"


def test_a_session_that_cannot_be_scored_is_replaced_or_left_out(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    # The first judgment of all is refused by the content filter, for good.
    assert run_anchors(judged, max_cost_usd=0.0).judged.calls == 0
    judge.script(http_error(400, "content_filter"))
    report = run_anchors(judged)

    # All 18 sessions are anchors: there is none to take its place.
    assert (report.anchors, report.finished) == (17, 17)
    found = measured(judged)
    (reason,) = found.anchors["replaced_because"].drop_nulls()
    assert "content_filter" in reason
    assert (found.row["trend"], found.row["anchors_replaced"]) == ("bridged", 1)


def test_sessions_whose_texts_have_expired_are_no_anchors(judged: Judged) -> None:
    run_anchors(judged, max_cost_usd=0.0)
    _expire_texts(judged, date(2026, 6, 1))
    report = run_anchors(judged)

    # Six of 18 sessions are of June 1.
    assert (report.anchors, report.finished) == (12, 12)
    gone = measured(judged).anchors.drop_nulls("replaced_because")
    assert set(gone.select("session_date", "replaced_because").rows()) == {
        (date(2026, 6, 1), "its texts have expired")
    }
    # What both judges have scored counts, whatever becomes of the texts.
    _expire_texts(judged, date(2026, 6, 2))
    assert run_anchors(judged).anchors == 12


def test_a_session_that_has_continued_is_no_anchor(judged: Judged) -> None:
    run_anchors(judged, max_cost_usd=0.0)
    longer = (session_with_texts(f"s0-{index}", 600 * index + 60) for index in range(6))
    fill(judged.workplace, *longer)
    history, change = only_change(judged)
    # No score of June 1 counts any longer.
    later = replace(history, scores=history.scores.filter(pl.col("session_date").dt.day() > 1))
    report = AnchorRun(judged.workplace.stores, later, change, "tests").run()

    assert (report.anchors, report.finished) == (12, 12)
    gone = measured(judged).anchors.drop_nulls("replaced_because")
    assert set(gone["replaced_because"]) == {"the session has continued"}


def _expire_texts(judged: Judged, day: date) -> None:
    row = {"session_date": day, "what": "texts", "expired_at": judged.now}
    with writing(judged.workplace.ledger.engine) as connection:
        connection.execute(sa.insert(EXPIRED_DATES).values(row))


STRICTER = "Be stricter than strict. "


@pytest.fixture
def rubrics(tmp_path: Path) -> Path:
    """A folder with one rubric."""
    folder = tmp_path / "rubrics" / "mine"
    folder.mkdir(parents=True)
    for path in (SHIPPED_RUBRICS / "agent-methodology").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def reworded(
    folder: Path, judge: JudgeEndpoint, rubric: Path, file: str = "score.md", after: str = ""
) -> AbstractContextManager[Judged]:
    """Open stores whose rubric got another sentence between June 3 and 4."""

    def reword() -> None:
        text = (rubric / file).read_text("utf-8")
        at = text.index(after) + len(after)
        (rubric / file).write_text(f"{text[:at]}{STRICTER}{text[at:]}", "utf-8")

    settings = {
        "judge_model": "judge-1",
        "judge_rubric": rubric.name,
        "judge_rubrics_dir": rubric.parent,
    }
    return judge_changed_by(folder, judge, settings, reword, **settings)


@pytest.mark.parametrize(("file", "after"), [("score.md", ""), ("criteria.yaml", "description: ")])
def test_other_words_or_criteria_are_another_judge_and_the_former_ones_are_asked_again(
    tmp_path: Path, judge: JudgeEndpoint, rubrics: Path, file: str, after: str
) -> None:
    with reworded(tmp_path, judge, rubrics, file, after) as judged:
        _, change = only_change(judged)
        assert change.former.differences(change.new) == ["wording of the rubric"]
        begun = len(judge.requests)
        assert run_anchors(judged).is_finished

        prompts = [request.body["messages"][0]["content"] for request in judge.requests[begun:]]
        is_strict = [STRICTER.strip() in prompt for prompt in prompts]
        # 18 anchors, three samples, once with each wording.
        assert (is_strict.count(False), is_strict.count(True)) == (54, 54)
        assert measured(judged).row["trend"] == "bridged"


def test_a_wording_that_is_lost_cuts_the_trend(
    tmp_path: Path, judge: JudgeEndpoint, rubrics: Path
) -> None:
    with reworded(tmp_path, judge, rubrics) as judged:
        with writing(judged.workplace.ledger.engine) as connection:
            connection.execute(sa.delete(RUBRIC_TEXTS))
        with pytest.raises(NoBridgeError, match="wording of the rubric mine"):
            run_anchors(judged)
        row = measured(judged).row

        assert (row["state"], row["trend"]) == ("impossible", "cut")
        assert "the former judge cannot be asked again" in row["reason"]
