"""Sessions in ClickHouse: one signal each, as they are scored now."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.reputation.domain.signals import identity_id, session_event_id
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.reputation.updates import (
    BridgeResult,
    bridge_sessions,
    read_reputation,
    scored_agents,
    signals_without_session,
    weekly_scores,
)
from evaluation_pipelines.schemas import (
    AGENT_EVALUATIONS,
    REPUTATION_EVENTS,
    SESSION_OUTCOMES,
)
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.clickhouse import (
    ClickHouse,
    ClickHouseError,
    ClickHouseUnavailableError,
    open_clickhouse,
)
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten
from evaluation_pipelines_tests.servers.clickhouse_databases import database
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world.rows import START, Row
from evaluation_pipelines_tests.world.scorecards import evaluated_session
from evaluation_pipelines_tests.world.stored import DAY, evaluated_row, put_sessions
from evaluation_pipelines_tests.world.stored import put as put_rows

NEXT = date(2026, 11, 3)
NOW = START + timedelta(hours=5)


def evaluated(key: str, score: float | None, **columns: Any) -> Row:
    """An evaluation by the composite: agent ``scout``, ended five minutes after the start."""
    row: Row = {
        "session_key": key,
        "session_id": key,
        "agent_id": "scout",
        "source_cli": "codex",
        "status": "completed",
        "passed": None if score is None else score >= 50,
        "effective_source": "none" if score is None else "composite",
    }
    return evaluated_session(score, **(row | columns))


def put(workplace: Workplace, day: date, *rows: Row, explicit_end: bool | None = True) -> None:
    """Let the lake hold these sessions of a date."""
    ended = {"mean_api_ms": 1200.0, "explicit_end": explicit_end}
    sessions = [evaluated_row(row, **ended) for row in rows]
    put_sessions(workplace.lake, rows, day, sessions)


def scout(reputation_store: ReputationStore) -> dict[str, Any] | None:
    return reputation_store.score_as_of(str(identity_id("default", "scout")), NOW)


def test_a_score_that_changes_or_goes_changes_the_one_signal_and_the_evaluation_of_its_session(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    put(workplace, DAY, evaluated("a", 100.0), evaluated("b", 70.0))
    assert bridge_sessions(workplace.stores, reputation_store, [DAY], NOW) == BridgeResult(2, 2, 0)
    row = scout(reputation_store)
    assert row is not None
    # ((100 - 50) / 50 + (70 - 50) / 50) / 2 = (1 + 0.4) / 2
    assert (row["total_events"], row["task_quality_score"]) == (2, pytest.approx(0.7))
    assert bridge_sessions(workplace.stores, reputation_store, [DAY], NOW) == BridgeResult(2, 0, 0)

    # A person says 20 of the second one.
    override = evaluated("b", 20.0, effective_source="override", confidence=1.0)
    put(workplace, DAY, evaluated("a", 100.0), override)
    later = NOW + timedelta(minutes=1)
    assert bridge_sessions(workplace.stores, reputation_store, [DAY], later) == BridgeResult(
        2, 1, 0
    )
    row = scout(reputation_store)
    assert row is not None
    # (1 + (20 - 50) / 50) / 2 = (1 - 0.6) / 2; by confidence (1 * 0.5 - 0.6 * 1) / 1.5 * 0.40
    assert (row["total_events"], row["task_quality_score"]) == (2, pytest.approx(0.2))
    assert row["weighted_overall"] == pytest.approx(-0.1 / 1.5 * 0.40)
    assert reputation_store.evaluations(NOW)["passed"].to_list() == [False, True]

    # The second one loses its score, the first one is deleted.
    put(workplace, DAY, evaluated("b", None))
    later = NOW + timedelta(minutes=2)
    assert bridge_sessions(workplace.stores, reputation_store, [DAY], later) == BridgeResult(
        0, 0, 2
    )
    assert scout(reputation_store) is None
    assert reputation_store.evaluations(NOW).is_empty()
    assert signals_without_session(workplace.stores, reputation_store, [DAY]) == []

    # And gets one again.
    put(workplace, DAY, evaluated("b", 60.0))
    later = NOW + timedelta(minutes=3)
    assert bridge_sessions(workplace.stores, reputation_store, [DAY], later) == BridgeResult(
        1, 1, 0
    )
    row = scout(reputation_store)
    assert row is not None
    assert (row["total_events"], row["task_quality_score"]) == (1, pytest.approx(0.2))


def test_a_session_that_begins_on_another_day_is_not_taken_back_by_the_one_it_left(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    # As after telemetry was ingested anew, in another order: the later part was read first.
    put(workplace, NEXT, evaluated("a", 100.0), evaluated("b", 50.0))
    bridge_sessions(workplace.stores, reputation_store, [NEXT], NOW)
    put(workplace, DAY, evaluated("a", 100.0))
    put(workplace, NEXT)
    bridge_sessions(workplace.stores, reputation_store, [DAY], NOW + timedelta(minutes=1))
    left = [str(session_event_id("default", "b"))]
    assert signals_without_session(workplace.stores, reputation_store, [NEXT]) == left
    later = NOW + timedelta(minutes=2)
    assert bridge_sessions(workplace.stores, reputation_store, [NEXT], later) == BridgeResult(
        0, 0, 1
    )
    assert signals_without_session(workplace.stores, reputation_store, [DAY, NEXT]) == []
    row = scout(reputation_store)
    assert row is not None
    assert (row["total_events"], row["task_quality_score"]) == (1, 1.0)
    assert reputation_store.evaluations(NOW)["evaluations_in_all"].to_list() == [1]


def test_dates_are_worked_on_by_themselves(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    put(workplace, DAY, evaluated("a", 100.0))
    put(workplace, NEXT, evaluated("b", 100.0))
    assert bridge_sessions(workplace.stores, reputation_store, [DAY, NEXT], NOW) == BridgeResult(
        2, 2, 0
    )
    put(workplace, NEXT)
    assert bridge_sessions(workplace.stores, reputation_store, [DAY], NOW) == BridgeResult(1, 0, 0)
    assert signals_without_session(workplace.stores, reputation_store, [DAY, NEXT]) == [
        str(session_event_id("default", "b"))
    ]
    assert bridge_sessions(workplace.stores, reputation_store, [], NOW) == BridgeResult(0, 0, 0)
    assert signals_without_session(workplace.stores, reputation_store, []) == []


def test_a_session_that_runs_is_evaluated_when_it_has_been_silent_for_long_enough(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    running = evaluated("a", 60.0, effective_source="override")
    put(workplace, DAY, running, explicit_end=None)
    soon = START + timedelta(minutes=20)
    bridge_sessions(workplace.stores, reputation_store, [DAY], soon)
    assert scout(reputation_store) is not None
    assert reputation_store.evaluations(NOW).is_empty()
    # It ended at minute 5, and 30 minutes of silence are an end.
    bridge_sessions(workplace.stores, reputation_store, [DAY], START + timedelta(minutes=36))
    assert reputation_store.evaluations(NOW)["latency_ms"].to_list() == [1200.0]


def put_outcomes(workplace: Workplace, *rows: tuple[str, str, str | None, str, float]) -> None:
    """Let the lake hold these: session, kind, reference, source, value.

    A merge came after four hours, a reopening (impossible) after it was read.
    """
    read, hours = START + timedelta(days=2), {"merged": 4, "task_reopened": 49}
    outcomes = [
        {"organization_id": "default", "session_id": row[0]}
        | dict(zip(("session_key", "kind", "reference", "source", "value"), row, strict=True))
        | {"inferred": row[2] == "c2", "read_at": read}
        | {"happened_at": START + timedelta(hours=hours[row[1]]) if row[1] in hours else None}
        for row in rows
    ]
    put_rows(workplace.lake, SESSION_OUTCOMES, outcomes)


def test_outcomes_are_signals_by_a_setting_and_each_counts_once_as_it_is_known_now(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    put(workplace, DAY, evaluated("a", 100.0), evaluated("b", None, agent_id=None))
    same = [
        ("a", "merged", "c1", "git", 1.0),
        ("a", "merged", "c1", "outside", 1.0),  # the same by another source
        ("a", "merged", "c2", "git", 1.0),  # inferred
        ("a", "merged", "c3", "git", 1.0),
        ("a", "merged", "c3", "outside", 0.0),  # contradicts
        ("a", "reverted", "c1", "git", 0.0),
        ("a", "survival_7d", "c1", "git", 1.0),
        ("b", "accepted", "e1", "telemetry", 1.0),
        ("b", "accepted", "e2", "telemetry", 0.0),
    ]
    put_outcomes(workplace, *same, ("a", "task_reopened", None, "outside", 1.0))
    off, store = workplace.stores, reputation_store
    changed = {"outcome_signals": True, "signal_deltas": {"review_positive": 0.25}}
    on = workplace.with_settings(**changed).stores
    assert bridge_sessions(off, store, [DAY], NOW) == BridgeResult(1, 1, 0)

    bridged = bridge_sessions(on, store, [DAY], NOW)
    assert bridged == BridgeResult(1, 5, 0)
    ids = store.known_sessions([DAY])["event_id"].to_list()
    columns = ("reference_id", "event_type", "score_delta", "confidence", "timestamp")
    merged, ended = START + timedelta(hours=4), START + timedelta(minutes=5)
    assert sorted(store.live(REPUTATION_EVENTS, ids).select(columns).rows()) == [
        ("a", "task_completed", 0.5, 0.5, merged),  # c2
        ("a", "task_completed", 0.5, 1.0, merged),  # c1
        ("a", "task_completed", 1.0, 0.5, ended),
        ("a", "task_failed", -0.5, 1.0, ended),
        ("b", "review_negative", pytest.approx(-0.8), 1.0, ended),
        ("b", "review_positive", 0.25, 1.0, ended),
    ]
    row = scout(store)
    assert row is not None
    # (1 + 0.5 + 0.5 - 0.5) / 4; the two of b are about its program
    assert (row["total_events"], row["task_quality_score"]) == (4, 0.375)
    assert bridge_sessions(on, store, [DAY], NOW) == BridgeResult(1, 0, 0)

    # It was not reopened after all, and the second commit is gone.
    put_outcomes(workplace, *same[:2], *same[3:], ("a", "task_reopened", None, "outside", 0.0))
    assert len(signals_without_session(on, store, [DAY])) == 2
    later = NOW + timedelta(minutes=1)
    assert bridge_sessions(on, store, [DAY], later) == BridgeResult(1, 0, 2)
    assert signals_without_session(on, store, [DAY]) == []

    # Session b is forgotten with its outcomes. Switched off, that of a goes, too.
    store.forget(Forgotten(hashes={Forgotten().session_hash("default", "b"): None}))
    assert store.live(REPUTATION_EVENTS, ids)["reference_id"].to_list() == ["a", "a"]
    later = NOW + timedelta(minutes=2)
    assert bridge_sessions(off, store, [DAY], later) == BridgeResult(1, 0, 1)


class CutOff(ClickHouse):
    """Loses its connection in the middle of one insert; counts those that came through."""

    inserts_left = 1_000

    def insert(self, table: str, frame: pl.DataFrame) -> None:
        """Write the rows, or half of them."""
        if not frame.is_empty():
            self.inserts_left -= 1
        if self.inserts_left == 0:
            super().insert(table, frame.head(frame.height // 2))
            raise ClickHouseUnavailableError("connection lost")
        super().insert(table, frame)


def everything(store: ReputationStore, sessions: list[str]) -> list[pl.DataFrame]:
    """What counts of these sessions, and what follows from it."""
    ids = [str(session_event_id("default", session)) for session in sessions]
    tables = (REPUTATION_EVENTS, AGENT_EVALUATIONS)
    live = [store.live(table, ids).drop("revision").sort(table.order) for table in tables]
    totals = store.scores_as_of(NOW).select("identity_id", "total_events")
    return [*live, totals, scored_agents(store, NOW)]


@pytest.mark.slow
def test_a_load_that_is_cut_off_in_any_of_its_inserts_is_completed_by_the_next_one(
    workplace: Workplace, embedded_engine: str
) -> None:
    keys = [f"s{number}" for number in range(8)]
    found, cut_off = [], 0
    for inserts in range(1, 9):
        with database(embedded_engine) as dsn, open_clickhouse(dsn) as clickhouse:
            broken = CutOff(clickhouse._client, is_embedded=False)
            store = ReputationStore(broken)
            store.migrate(NOW)
            put(workplace, DAY, *(evaluated(key, 100.0) for key in keys[:6]))
            bridge_sessions(workplace.stores, store, [DAY], NOW)
            # Two are as they were, two move, two lose their score, two are new.
            longer = {"ended_at": START + timedelta(minutes=9), "agent_id": "other"}
            moved = [evaluated(key, 80.0, **longer) for key in keys[2:4]]
            lost = [evaluated(key, None) for key in keys[4:6]]
            new = [evaluated(key, 20.0) for key in keys[6:]]
            put(workplace, DAY, *(evaluated(key, 100.0) for key in keys[:2]), *moved, *lost, *new)
            broken.inserts_left = inserts
            try:
                bridge_sessions(workplace.stores, store, [DAY], NOW + timedelta(minutes=1))
            except ClickHouseUnavailableError:
                cut_off += 1
            broken.inserts_left = 1_000
            bridge_sessions(workplace.stores, store, [DAY], NOW + timedelta(minutes=2))
            found.append(everything(store, keys))
    # Which sessions there are; then new rows, old places and lost scores, of two tables.
    assert cut_off == 1 + 2 * 3
    assert all(
        mine.equals(clean)
        for tables in found
        for mine, clean in zip(tables, found[-1], strict=True)
    )
    events, evaluations, _, agents = found[-1]
    assert (events.height, evaluations.height) == (6, 6)
    assert agents.select("agent_id", "eval_count").rows() == [("other", 2), ("scout", 4)]


def test_weeks_are_those_up_to_now(workplace: Workplace, reputation_store: ReputationStore) -> None:
    put(workplace, DAY, evaluated("a", 100.0))
    bridge_sessions(workplace.stores, reputation_store, [DAY], NOW)
    weeks = weekly_scores(
        reputation_store, str(identity_id("default", "scout")), START + timedelta(days=14, hours=1)
    )
    known = [week["overall_score"] if week else None for week in weeks]
    assert known == [None] * 10 + [pytest.approx(0.4)] * 3


def test_who_only_looks_makes_nothing(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    with (
        pytest.raises(ClickHouseError, match=r"holds no reputation yet. Run .* reputation update"),
        read_reputation(settings),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
