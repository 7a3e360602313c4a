"""Expiry of the texts of sessions that a judge has scored, or is about to."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.build import Build
from evaluation_pipelines.erasure.expire import Expire, without_texts
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.score_requests import request_score
from evaluation_pipelines.reporting.books import settled_books
from evaluation_pipelines.reporting.session_view import session_timeline, session_view
from evaluation_pipelines.schemas import JUDGE_SCORES
from evaluation_pipelines.scorecards.audit_review import session_transcript
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judged import (
    JUNE_1,
    Judged,
    fill,
    open_judged,
    session_with_texts,
)
from evaluation_pipelines_tests.workplace import NOW

PROFILE = """
id: general-performance
version: 2
name: Judged
match_labels: ["*"]
method: llm
rubric: agent-methodology
"""


def prepare(folder: Path) -> None:
    """Let the judge score every session."""
    (folder / "profiles").mkdir()
    (folder / "profiles" / "general-performance.yaml").write_text(PROFILE)


def build(judged: Judged) -> None:
    Build(judged.workplace.stores, clock=lambda: judged.now).run([JUNE_1])


def states(judged: Judged) -> dict[str, tuple[str, str]]:
    found = settled_books(judged.workplace.stores, JUNE_1, NOW)
    assert all(equation.is_balanced for equation in found.equations)
    rows = found.sessions.select("session_id", "state", "reason").rows()
    return {session: (state, reason) for session, state, reason in rows}


@pytest.mark.parametrize("kept", [{"keep_texts_days": 30}, {"keep_events_days": 30}])
def test_a_scored_session_stays_scored_and_no_other_is_judged_anymore(
    tmp_path: Path, kept: dict[str, Any]
) -> None:
    (what,) = (name.split("_")[1] for name in kept)
    gone = f"its {what} have expired"
    prepare(tmp_path)
    with open_judge_endpoint() as endpoint, open_judged(tmp_path, endpoint.base_url, **kept) as it:
        stores = it.workplace.stores
        fill(it.workplace, session_with_texts("scored"))
        it.run()
        fill(it.workplace, session_with_texts("late", 60))
        build(it)
        asked = len(endpoint.requests)
        Expire(stores, clock=lambda: NOW).run()

        assert states(it) == {
            "scored": ("scored", f"scored by general-performance; {gone} since"),
            "late": ("too_thin", gone),
        }
        every = ExtraDue(force=True, include_thin=True, obsolete=True, failed=True)
        report = it.run(extra=every)
        assert report.states["too_thin"] == 2
        assert len(endpoint.requests) == asked
        plans = load_plans(stores, NOW)
        for name, is_forced, status in (
            ("late", False, 410),
            ("scored", True, 410),
            ("scored", False, 200),
        ):
            answer = request_score(
                stores, plans, SessionName(name), "root", NOW, force=is_forced
            ).answer
            assert answer.http_status == status

        view = session_view(stores, SessionName("late"), NOW)
        assert view.judge_state is not None
        assert (view.judge_state.state, view.judge_state.reason) == ("too_thin", gone)
        note = f"The {what} of this session have expired."
        timeline = session_timeline(stores, view.session, NOW, None, slice(None))
        assert timeline is not None
        assert (timeline.note, timeline.total > 0) == (note, what == "texts")
        transcript = session_transcript(stores, view.session, 10_000, NOW)
        assert transcript is not None
        assert transcript.text.startswith(note)
        assert (transcript.content_level, "Fix the parser" in transcript.text) == ("none", False)


def test_what_a_judge_wrote_while_the_texts_expired_goes_with_the_next_expiry(
    tmp_path: Path,
) -> None:
    prepare(tmp_path)
    with (
        open_judge_endpoint() as endpoint,
        open_judged(tmp_path, endpoint.base_url, keep_texts_days=30) as judged,
    ):
        stores = judged.workplace.stores
        fill(judged.workplace, session_with_texts("s1"))
        endpoint.latency_s = 1
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(judged.run)
            endpoint.wait_for(1)
            Expire(stores, clock=lambda: NOW - timedelta(minutes=1)).run()
            endpoint.latency_s = 0
            run.result()
        assert judged.score("s1#baseline-1").score_analysis

        Expire(stores, clock=lambda: NOW).run()

        score = judged.score("s1#baseline-1")
        assert (score.status, score.score_analysis) == ("completed", None)
        assert all(not turn.text for turn in score.turn_log)
        scores = stores.lake.read(JUDGE_SCORES, [JUNE_1])
        assert scores["score_analysis"].null_count() == scores.height
        assert Expire(stores, clock=lambda: NOW).run().dates == {}


def test_every_text_of_a_judge_expires() -> None:
    texts = ("score_analysis", "missing_tools_analysis", "failed_reply")
    row = {**dict.fromkeys(JUDGE_SCORES.schema), **dict.fromkeys(texts, "said")}
    rows = pl.DataFrame([row], schema=JUDGE_SCORES.schema, orient="row")
    assert without_texts(rows, JUDGE_SCORES).select(texts).rows() == [(None, None, None)]
