"""Reputation in ClickHouse, embedded and over HTTP, compared with an independent computation."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from evaluation_pipelines.reputation.domain.signals import Retraction
from evaluation_pipelines.reputation.store import ReputationStore, UpsertCounts
from evaluation_pipelines.reputation.updates import scored_agents
from evaluation_pipelines.schemas import AGENT_EVALUATIONS, REPUTATION_EVENTS, REPUTATION_SCORES
from evaluation_pipelines.storage.clickhouse import ClickHouseError, open_clickhouse
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten
from evaluation_pipelines_tests.reputation.dropped import drop_as_a_kill_does, dropped
from evaluation_pipelines_tests.reputation.reputation_signals import (
    at,
    evaluations_frame,
    expected_scores,
    random_signals,
    signal,
    signals_frame,
    uuid,
)

NOW = at("2026-11-20T12:00:00")


@pytest.fixture
def store(clickhouse_dsn: str) -> Iterator[ReputationStore]:
    """Every test runs within this process and over HTTP."""
    with open_clickhouse(clickhouse_dsn, patience_s=0) as clickhouse:
        store = ReputationStore(clickhouse)
        store.migrate(NOW)
        yield store


def test_migrations_are_applied_once(store: ReputationStore) -> None:
    applied = store.applied()["name"].to_list()
    assert applied[0] == "0001_create_reputation_events"
    assert [int(name[:4]) for name in applied] == list(range(1, len(applied) + 1))
    assert store.migrate(NOW) == []
    assert store.applied()["name"].to_list() == applied


def test_scores_equal_the_definition_at_five_times_whatever_the_order_of_loading(
    store: ReputationStore,
) -> None:
    signals = random_signals(10_000, identities=40, days=200, end=NOW)
    for revision, part in enumerate((signals[5_000:], signals[:6_000], signals[2_000:3_000])):
        store.upsert(REPUTATION_EVENTS, part.sample(fraction=1, shuffle=True, seed=1), revision)

    for days in (0, 1.5, 29, 100, 210):
        now = NOW - timedelta(days=days) if days <= 100 else NOW + timedelta(days=90)
        found = {row["identity_id"]: row for row in store.scores_as_of(now).to_dicts()}
        expected = expected_scores(signals, now)
        assert len(expected) == 40
        assert found.keys() == expected.keys()
        for identity, scores in expected.items():
            row = {name: found[identity][name] for name in scores}
            assert row == pytest.approx(scores, abs=1e-6), (now, identity)


def test_the_stored_scores_equal_the_definition_before_and_after_signals_have_grown_old(
    reputation_store: ReputationStore,
) -> None:
    signals = random_signals(10_000, identities=40, days=200, end=datetime.now(UTC))
    reputation_store.upsert(REPUTATION_EVENTS, signals, 1)
    assert_stored(reputation_store, signals)
    # The clock of the engine cannot go on so far: instead the signals go back, those of eight
    # identities by as many days, so that of the last eight none counts any more.
    ages = {uuid(n): timedelta(days=(0, 1.5, 29, 100, 150)[n // 8]) for n in range(40)}
    older = signals.with_columns(
        pl.col("timestamp") - pl.col("identity_id").replace_strict(ages, return_dtype=pl.Duration)
    )
    reputation_store.upsert(REPUTATION_EVENTS, older, 2)
    assert_stored(reputation_store, older)
    gone = reputation_store.scores().filter(pl.col("score_30d_ago").is_null())
    assert gone.select("total_events", "overall_score").rows() == [(0, 0.0)] * 8


def assert_stored(store: ReputationStore, signals: pl.DataFrame) -> None:
    """After a refresh the scores are those of the definition, of every identity."""
    store.refresh()
    rows = {row["identity_id"]: row for row in store.scores().to_dicts()}
    newest = max(row["computed_at"] for row in rows.values())
    expected = expected_scores(signals, newest)
    assert rows.keys() == expected.keys()
    for identity, scores in expected.items():
        row = {name: rows[identity][name] for name in scores}
        assert row == pytest.approx(scores, abs=1e-6), identity


def test_the_edges_of_the_window_belong_to_the_newer_side(
    store: ReputationStore,
) -> None:
    millisecond = timedelta(milliseconds=1)
    rows = [
        signal(1, 1, NOW, score_delta=1.0),
        signal(2, 1, NOW + millisecond, score_delta=-1.0),
        signal(3, 1, NOW - timedelta(days=90) + millisecond, score_delta=0.0),
        signal(4, 1, NOW - timedelta(days=90), score_delta=-1.0),
    ]
    store.upsert(REPUTATION_EVENTS, signals_frame(rows), 1)
    row = store.scores_as_of(NOW).to_dicts()[0]
    # Of the four, the first and the third count: (1 + 0) / 2 = 0.5, and 0.40 * 0.5 = 0.2.
    assert row["total_events"] == 2
    assert row["positive_events"] == 1
    assert row["negative_events"] == 0
    assert row["overall_score"] == pytest.approx(0.2)
    assert row["overall_observed"] == pytest.approx(0.5)
    assert row["categories_observed"] == ["task_quality"]
    # 30 days ago the window began 120 days ago: the third and the fourth, (0 - 1) / 2 * 0.40.
    assert row["score_30d_ago"] == pytest.approx(-0.2)


def test_identities_whose_signals_have_all_aged_out_keep_a_row_of_zeros(
    store: ReputationStore,
) -> None:
    signals = random_signals(50, identities=1, days=10, end=NOW)
    store.upsert(REPUTATION_EVENTS, signals, 1)
    # After 100 days none lies in the window, but all lie in that of 30 days before.
    late = store.scores_as_of(NOW + timedelta(days=100)).to_dicts()[0]
    expected = expected_scores(signals, NOW + timedelta(days=100))[uuid(0)]
    assert {name: late[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert (late["total_events"], late["overall_score"]) == (0, 0.0)
    for row in (
        store.scores_as_of(NOW + timedelta(days=130)).to_dicts()[0],
        store.score_as_of(uuid(0), NOW + timedelta(days=130)),
    ):
        assert row is not None
        assert (row["identity_id"], row["total_events"], row["overall_score"]) == (uuid(0), 0, 0.0)
        nothing = ("score_7d_ago", "score_30d_ago", "overall_observed")
        assert [row[name] for name in nothing] == [None, None, None]
    assert store.score_as_of(uuid(0), NOW - timedelta(days=11)) is None


def test_a_store_that_is_filled_anew_has_the_identities_whose_signals_are_old(
    store: ReputationStore,
) -> None:
    now = datetime.now(UTC)
    store.upsert(REPUTATION_EVENTS, signals_frame([signal(1, 1, now - timedelta(days=200))]), 1)
    store.refresh()
    (row,) = store.scores().to_dicts()
    assert (row["identity_id"], row["total_events"], row["confidence"]) == (uuid(1), 0, 0.0)


def test_ids_of_other_systems_name_a_row_of_one_agent_or_identity(store: ReputationStore) -> None:
    """Every integration may count from 1: none must erase what another one has said."""
    one = evaluations_frame(["0", "1"])
    others = [
        one.with_columns(organization_id=pl.lit("orchard"), passed=pl.lit(value=False)),
        one.with_columns(agent_id=pl.lit("ranger")),
    ]
    for revision, rows in enumerate([one, *others, one], 1):
        store.upsert(AGENT_EVALUATIONS, rows, revision)
    found = store.evaluations(NOW)
    assert found.height == 6
    assert found.filter(pl.col("organization_id") == "orchard")["passed"].to_list() == [False] * 2

    signals = [signal(1, number, NOW, attributes=[]) for number in (1, 2)]
    store.upsert(REPUTATION_EVENTS, signals_frame(signals), 1)
    assert store.scores_as_of(NOW)["total_events"].to_list() == [1, 1]
    corrected = signal(1, 2, NOW - timedelta(days=1), attributes=[], score_delta=0.5)
    store.upsert(REPUTATION_EVENTS, signals_frame([corrected]), 2)
    assert store.scores_as_of(NOW)["task_quality_score"].to_list() == [1.0, 0.5]


def test_what_other_systems_said_is_retracted_by_its_key_and_sessions_are_not(
    store: ReputationStore,
) -> None:
    rows = [
        *(signal(1, number, NOW, attributes=[]) for number in (1, 2)),
        signal(2, 1, NOW),
    ]
    store.upsert(REPUTATION_EVENTS, signals_frame(rows), 1)
    retractions = [Retraction(uuid(1), (uuid(2),)), Retraction(uuid(2), None)]
    assert store.retract(REPUTATION_EVENTS, retractions, 2) == 1
    assert store.live(REPUTATION_EVENTS, [uuid(1)])["identity_id"].to_list() == [uuid(1)]
    assert store.retract(REPUTATION_EVENTS, [Retraction(uuid(1), None)], 3) == 1
    assert store.live(REPUTATION_EVENTS, [uuid(1), uuid(2)])["event_id"].to_list() == [uuid(2)]


def test_loading_the_same_again_changes_nothing(store: ReputationStore) -> None:
    signals = random_signals(300, identities=5, days=60, end=NOW)
    assert store.upsert(REPUTATION_EVENTS, signals, 1) == UpsertCounts(300, 0, 0)
    before = store.scores_as_of(NOW)
    assert store.upsert(REPUTATION_EVENTS, signals, 2) == UpsertCounts(0, 300, 0)
    # Sums of many numbers differ in the last digits from one query to the next.
    assert_frame_equal(store.scores_as_of(NOW), before, abs_tol=1e-12)


def test_a_signal_that_moves_in_time_or_to_another_identity_is_there_once(
    store: ReputationStore,
) -> None:
    store.upsert(REPUTATION_EVENTS, signals_frame([signal(1, 1, NOW)]), 1)
    earlier = signals_frame([signal(1, 1, NOW - timedelta(days=40), score_delta=0.5)])
    assert store.upsert(REPUTATION_EVENTS, earlier, 2) == UpsertCounts(1, 0, 1)
    row = store.scores_as_of(NOW).to_dicts()[0]
    assert (row["total_events"], row["task_quality_score"]) == (1, 0.5)

    other = signals_frame([signal(1, 2, NOW - timedelta(days=40), score_delta=0.5)])
    store.upsert(REPUTATION_EVENTS, other, 3)
    assert store.scores_as_of(NOW)["identity_id"].to_list() == [uuid(2)]


def test_the_maintained_scores_follow_new_and_retired_signals(
    store: ReputationStore,
) -> None:
    now = datetime.now(UTC)
    rows = signals_frame([signal(1, 1, now, score_delta=-0.5), signal(2, 2, now)])
    store.upsert(REPUTATION_EVENTS, rows, 1)
    store.refresh()
    scores = {row["identity_id"]: row["task_quality_score"] for row in store.scores().to_dicts()}
    assert scores == {uuid(1): -0.5, uuid(2): 1.0}

    assert store.retire(REPUTATION_EVENTS, [uuid(1)], 2) == 1
    store.refresh()
    left = {row["identity_id"]: row for row in store.scores().to_dicts()}
    assert left[uuid(1)]["total_events"] == 0
    assert left[uuid(1)]["overall_score"] == 0.0
    assert left[uuid(1)]["overall_observed"] is None
    assert left[uuid(2)]["task_quality_score"] == 1.0


def test_of_two_writers_that_move_a_signal_the_newer_revision_stays_whoever_comes_last(
    store: ReputationStore,
) -> None:
    older = signals_frame([signal(1, 1, NOW, score_delta=-1.0)])
    newer = signals_frame([signal(1, 1, NOW - timedelta(days=1), score_delta=1.0)])
    store.upsert(REPUTATION_EVENTS, newer, 5)
    # A slower writer, with what it had read before.
    assert store.upsert(REPUTATION_EVENTS, older, 4) == UpsertCounts(1, 0, 1)
    row = store.scores_as_of(NOW).to_dicts()[0]
    assert (row["total_events"], row["task_quality_score"]) == (1, 1.0)
    assert store.upsert(REPUTATION_EVENTS, newer, 6) == UpsertCounts(0, 1, 0)


def test_a_move_that_was_cut_off_between_its_two_writes_is_completed_by_the_next_one(
    store: ReputationStore, clickhouse_dsn: str
) -> None:
    moved = signals_frame([signal(1, 1, NOW - timedelta(days=1), score_delta=0.5)])
    store.upsert(REPUTATION_EVENTS, signals_frame([signal(1, 1, NOW)]), 1)
    half = moved.with_columns(
        revision=pl.lit(2, dtype=pl.UInt64), is_deleted=pl.lit(0, dtype=pl.UInt8)
    )
    with open_clickhouse(clickhouse_dsn, patience_s=0) as clickhouse:
        clickhouse.insert("reputation_events", half)
    assert store.scores_as_of(NOW)["total_events"].to_list() == [2]

    assert store.upsert(REPUTATION_EVENTS, moved, 3) == UpsertCounts(1, 0, 1)
    row = store.scores_as_of(NOW).to_dicts()[0]
    assert (row["total_events"], row["task_quality_score"]) == (1, 0.5)


def test_a_signal_that_was_taken_back_can_come_again_and_a_newer_one_is_not_taken_back(
    store: ReputationStore,
) -> None:
    one = signals_frame([signal(1, 1, NOW)])
    store.upsert(REPUTATION_EVENTS, one, 2)
    assert store.retire(REPUTATION_EVENTS, [uuid(1)], 1) == 0
    assert store.retire(REPUTATION_EVENTS, [uuid(1)], 3) == 1
    assert store.live(REPUTATION_EVENTS, [uuid(1)]).is_empty()
    assert store.retire(REPUTATION_EVENTS, [uuid(1)], 4) == 0
    # Slower than the one that took it back.
    store.upsert(REPUTATION_EVENTS, one, 2)
    assert store.live(REPUTATION_EVENTS, [uuid(1)]).is_empty()
    store.upsert(REPUTATION_EVENTS, one, 5)
    assert store.live(REPUTATION_EVENTS, [uuid(1)])["revision"].to_list() == [5]


def test_signals_with_attributes_and_odd_letters_are_the_same_when_they_come_again(
    store: ReputationStore,
) -> None:
    odd = "tab\t new\nline nul\0 'quotes\" back\\slash {x:y} $1 ☃"
    pairs = [{"key": odd, "value": odd}, {"key": "z", "value": ""}]
    rows = signals_frame([signal(1, 1, NOW, reference_id=odd, attributes=pairs)])
    assert store.upsert(REPUTATION_EVENTS, rows, 1) == UpsertCounts(1, 0, 0)
    assert store.upsert(REPUTATION_EVENTS, rows, 2) == UpsertCounts(0, 1, 0)
    stored = store.live(REPUTATION_EVENTS, [uuid(1)])
    assert stored.drop("revision").equals(rows)

    evaluations = evaluations_frame([odd, f"{odd}2"])
    assert store.upsert(AGENT_EVALUATIONS, evaluations, 1) == UpsertCounts(2, 0, 0)
    assert store.upsert(AGENT_EVALUATIONS, evaluations, 2) == UpsertCounts(0, 2, 0)
    assert store.retract(AGENT_EVALUATIONS, [Retraction(odd, ("default", "scout"))], 3) == 1
    assert store.evaluations(NOW)["evaluation_id"].to_list() == [f"{odd}2"]


@pytest.mark.slow
def test_ids_that_do_not_fit_into_one_parameter_and_months_beyond_a_hundred_are_no_limit(
    store: ReputationStore,
) -> None:
    # Letters that are escaped twice on their way: 300 * 500 of them are more than a field takes.
    long = evaluations_frame([f"{number:04}" + "\\'" * 250 for number in range(300)])
    assert store.upsert(AGENT_EVALUATIONS, long, 1) == UpsertCounts(300, 0, 0)
    assert store.upsert(AGENT_EVALUATIONS, long, 2) == UpsertCounts(0, 300, 0)

    years = [signal(n, 1, NOW - timedelta(days=9 * n)) for n in range(120)]
    far = [signal(200 + n, 1, NOW + timedelta(days=31 * n)) for n in range(110)]
    rows = signals_frame(years + far)
    assert store.upsert(REPUTATION_EVENTS, rows, 1) == UpsertCounts(230, 0, 0)


def test_the_window_of_an_agent_is_its_newest_500_evaluations_up_to_a_time(
    store: ReputationStore,
) -> None:
    # A minute apart, the last one now.
    ids = [f"e{number:03}" for number in range(502)]
    rows = evaluations_frame(ids, start=NOW - timedelta(minutes=501), every=timedelta(minutes=1))
    other = rows.head(2).with_columns(
        agent_id=pl.lit("other"), evaluation_id=pl.concat_str(pl.lit("o"), "evaluation_id")
    )
    for part in (rows.tail(2), other, rows.head(500)):
        store.upsert(AGENT_EVALUATIONS, part, 1)

    window = store.evaluations(NOW, ["scout"])
    assert window["evaluation_id"].to_list() == ids[:1:-1]
    assert window["evaluations_in_all"].unique().to_list() == [502]
    before = store.evaluations(NOW - timedelta(minutes=1), ["scout"])
    assert before["evaluation_id"].to_list() == ids[500:0:-1]
    agents = store.evaluations(NOW)["agent_id"].unique()
    assert agents.sort().to_list() == ["other", "scout"]


def test_the_501st_evaluation_pushes_the_oldest_out_of_the_score(
    reputation_store: ReputationStore,
) -> None:
    # A minute apart; the oldest one failed, and no latency is known.
    ids, start = [f"e{number:03}" for number in range(501)], NOW - timedelta(days=1)
    rows = evaluations_frame(ids, start, timedelta(minutes=1)).with_columns(
        passed=pl.col("evaluation_id") != "e000"
    )
    reputation_store.upsert(AGENT_EVALUATIONS, rows.head(500), 1)
    # 400 * 499 / 500 + 0 + 200 + 150 = 749.2
    row = scored_agents(reputation_store, NOW).to_dicts()[0]
    assert (row["score"], row["eval_count"], row["streak"]) == (749, 500, 499)
    reputation_store.upsert(AGENT_EVALUATIONS, rows.tail(1), 1)
    # 400 * 500 / 500 + 0 + 200 + 150
    row = scored_agents(reputation_store, NOW).to_dicts()[0]
    assert (row["score"], row["eval_count"], row["evaluations_in_all"]) == (750, 500, 501)
    # As of the microsecond before the last one it is still the first 500 that count.
    before = start + timedelta(minutes=500) - timedelta(microseconds=1)
    assert scored_agents(reputation_store, before)["score"].to_list() == [749]


def test_tables_that_are_not_there_or_not_all_are_named_with_what_to_do(
    clickhouse_dsn: str,
) -> None:
    with open_clickhouse(clickhouse_dsn, patience_s=0) as clickhouse:
        store = ReputationStore(clickhouse)
        with pytest.raises(
            ClickHouseError, match=r"lacks 0001_.*, 0006_.*reputation update --tables"
        ):
            store.expect_migrated()
        names = store.migrate(NOW)
        store.expect_migrated()
        clickhouse.run("truncate table schema_migrations")
        clickhouse.run("insert into schema_migrations select {name:String}, now64()", name=names[0])
        with pytest.raises(ClickHouseError, match="lacks 0002_"):
            store.expect_migrated()
        # What is there but not recorded, after a kill between the two, is no obstacle.
        assert store.migrate(NOW) == names[1:]
        store.expect_migrated()


def test_signals_that_grow_old_leave_the_maintained_scores_without_anything_new(
    store: ReputationStore,
) -> None:
    # It is 90 days old within a moment: the first refresh may see it, the second must not.
    ages = datetime.now(UTC) - timedelta(days=90) + timedelta(seconds=1.5)
    store.upsert(REPUTATION_EVENTS, signals_frame([signal(1, 1, ages)]), 1)
    store.refresh()
    assert store.scores()["total_events"].to_list() == [1]
    time.sleep(max(0.0, (ages + timedelta(days=90) - datetime.now(UTC)).total_seconds()) + 0.001)
    store.refresh()
    row = store.scores().to_dicts()[0]
    assert (row["total_events"], row["overall_score"], row["confidence"]) == (0, 0.0, 0.0)
    assert row["score_7d_ago"] == pytest.approx(0.40)


def test_an_erasure_deletes_the_files_of_one_that_was_killed(clickhouse_dsn: str) -> None:
    with open_clickhouse(clickhouse_dsn, patience_s=0) as clickhouse:
        store = ReputationStore(clickhouse)
        store.migrate(NOW)
        drop_as_a_kill_does(clickhouse, "agent_evaluations_kept")
        assert store.forget(Forgotten()) == {}
        assert dropped(clickhouse) == ([] if clickhouse.is_embedded else ["agent_evaluations_kept"])


def test_a_statement_that_is_refused_says_what_and_why(clickhouse_dsn: str) -> None:
    with open_clickhouse(clickhouse_dsn, patience_s=0) as clickhouse:
        with pytest.raises(ClickHouseError, match=r"^drop table nothing: .*nothing"):
            clickhouse.run("drop table nothing")
        with pytest.raises(ClickHouseError, match=r"^select_schema_migrations: .*UNKNOWN_TABLE"):
            clickhouse.select("select_schema_migrations", REPUTATION_SCORES.schema)
