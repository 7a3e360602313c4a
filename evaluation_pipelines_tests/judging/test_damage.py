"""Damaged files and sessions, which must not affect the judging of others."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import polars as pl
import pytest

from evaluation_pipelines.judging import scoring
from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.judging.ledger.score_store import ReceivedReply, ScoreStore
from evaluation_pipelines.judging.session_windows import WindowKey, by_window
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, Table
from evaluation_pipelines.schemas.judge_score import LoggedTurn
from evaluation_pipelines.storage.queries import QueryError
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error
from evaluation_pipelines_tests.judged import JUNE_1, Judged, fill, session_with_texts
from evaluation_pipelines_tests.world import DAY_S


def damage(path: Path) -> None:
    """Truncate a Parquet file."""
    path.write_bytes(path.read_bytes()[:200])


@pytest.mark.parametrize("table", [AGENT_SESSIONS, AGENT_EVENTS], ids=lambda table: table.name)
def test_a_damaged_date_is_reported_and_does_not_affect_others(
    judged: Judged, table: Table
) -> None:
    fill(judged.workplace, session_with_texts("s1"), session_with_texts("s2", DAY_S))
    path = Path(judged.workplace.lake.place(table, date(2026, 6, 2)))
    whole = path.read_bytes()
    damage(path)

    report = judged.run()
    assert len(report.totals) == 1
    assert judged.score("s1#baseline-1").status == "completed"
    assert str(path) in report.unreadable[date(2026, 6, 2)]
    assert str(path) in report.summary()
    path.write_bytes(whole)
    assert len(judged.run().totals) == 1


def test_a_date_that_the_sql_refuses_does_not_affect_others_of_its_query(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(judged.workplace, session_with_texts("s1"), session_with_texts("s2", DAY_S))
    asked: list[int] = []

    def refusing(events: pl.DataFrame, windows: Sequence[Window]) -> dict[WindowKey, pl.DataFrame]:
        asked.append(len(windows))
        if date(2026, 6, 2) in events["session_date"]:
            raise QueryError("query window_events: no room on the disk")
        return by_window(events, windows)

    monkeypatch.setattr(scoring, "by_window", refusing)
    report = judged.run()
    assert asked == [2, 1, 1]
    assert len(report.totals) == 1
    assert judged.score("s1#baseline-1").status == "completed"
    assert report.unreadable == {
        date(2026, 6, 2): "query window_events: no room on the disk",
    }


def test_a_damaged_date_does_not_discard_its_unfinished_scorings(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    fill(judged.workplace, session_with_texts("s1"))
    judge.always(http_error(401))
    judged.run()
    path = Path(judged.workplace.lake.place(AGENT_SESSIONS, JUNE_1))
    whole = path.read_bytes()
    damage(path)

    assert judged.run().discarded.total() == 0
    path.write_bytes(whole)
    judge.always(Scripted())
    assert len(judged.run().totals) == 1


def test_a_session_without_a_prompt_fails_and_the_others_are_judged(
    judged: Judged, judge: JudgeEndpoint
) -> None:
    """The turn log has a reply to no turn of the conversation, as another version may leave it."""
    fill(judged.workplace, session_with_texts("s1"))
    judge.script(http_error(401))
    judged.run()
    fill(judged.workplace, session_with_texts("s2", 60))
    (unfinished,) = ScoreStore(judged.workplace.ledger).open_scores()
    store = ScoreStore(judged.workplace.ledger)
    turn = LoggedTurn("score-9", "?", "stop", 1, 0, 1, 0.0, 1.0, 1, 0)
    store.log_turn(ReceivedReply(unfinished.score_id, turn))

    report = judged.run()
    assert (len(report.totals), report.failed.total()) == (1, 1)
    failed = store.get(unfinished.score_id)
    assert (failed.status, failed.retriable) == ("failed", True)
    assert (failed.error_message or "").startswith(
        "no prompt can be built from the session: ValueError: turn 'score-9' is not open"
    )
