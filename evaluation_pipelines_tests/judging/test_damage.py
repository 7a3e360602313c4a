"""One thing that is broken, and everything else judged all the same."""

from datetime import date
from pathlib import Path

import pytest

from evaluation_pipelines.judging.domain.score import LoggedTurn
from evaluation_pipelines.judging.ledger.score_records import Lease
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, Table
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error
from evaluation_pipelines_tests.judged import JUNE_1, Judged, fill, told_session
from evaluation_pipelines_tests.otlp_builders import DAY_S


def damaged(path: Path) -> None:
    """Half of a Parquet file."""
    path.write_bytes(path.read_bytes()[:200])


@pytest.mark.parametrize("table", [AGENT_SESSIONS, AGENT_EVENTS], ids=lambda each: each.name)
def test_a_damaged_date_leaves_the_others_alone_and_is_named(judged: Judged, table: Table) -> None:
    fill(judged.workplace, told_session("s1"), told_session("s2", DAY_S))
    path = judged.workplace.lake.partition(table, date(2026, 6, 2))
    whole = path.read_bytes()
    damaged(path)

    report = judged.run()
    assert len(report.totals) == 1
    assert judged.score("s1#baseline-1").status == "completed"
    assert str(path) in report.unreadable[date(2026, 6, 2)]
    assert str(path) in report.summary()
    path.write_bytes(whole)
    assert len(judged.run().totals) == 1


def test_a_damaged_date_does_not_end_what_is_unfinished_on_it(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    fill(judged.workplace, told_session("s1"))
    judge.always(http_error(401))
    judged.run()
    path = judged.workplace.lake.partition(AGENT_SESSIONS, JUNE_1)
    whole = path.read_bytes()
    damaged(path)

    assert judged.run().lost.total() == 0
    path.write_bytes(whole)
    judge.always(Scripted())
    assert len(judged.run().totals) == 1


def test_a_session_that_cannot_be_shown_fails_and_the_others_are_judged(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    """Replies in a turn log that no conversation asks for, as another version may leave them."""
    fill(judged.workplace, told_session("s1"))
    judge.script(http_error(401))
    judged.run()
    fill(judged.workplace, told_session("s2", 60))
    (odd,) = ScoreStore(judged.workplace.ledger).open_scores()
    store = ScoreStore(judged.workplace.ledger)
    store.claim(odd.score_id, Lease("other", 60), judged.now)
    turn = LoggedTurn("score-9", "?", "stop", 1, 0, 1, 0.0, 1.0, 1, 0)
    store.log_turn(odd.score_id, "other", turn)
    store.release("other")

    report = judged.run()
    assert (len(report.totals), report.failed.total()) == (1, 1)
    failed = store.get(odd.score_id)
    assert (failed.status, failed.retriable) == ("failed", True)
    assert (failed.error_message or "").startswith(
        "the session cannot be shown to the judge: ValueError: turn 'score-9' is not open"
    )
