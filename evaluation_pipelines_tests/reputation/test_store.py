"""Reputation in ClickHouse, embedded and over HTTP, compared with an independent computation."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from evaluation_pipelines.reputation import store
from evaluation_pipelines.reputation.domain.signals import Retraction
from evaluation_pipelines.reputation.store import (
    ReputationStore,
    delete_dropped_files,
)
from evaluation_pipelines.schemas import AGENT_EVALUATIONS, REPUTATION_EVENTS, REPUTATION_SCORES
from evaluation_pipelines.storage.clickhouse import ClickHouse, ClickHouseError, open_clickhouse
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


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], []),
        # A letter counts 1, another character 4, each id 3 more; a parameter holds 10.
        (["aa", "bb", "cc", "dd"], [["aa", "bb"], ["cc", "dd"]]),
        (["aa", "-", "c"], [["aa"], ["-"], ["c"]]),
    ],
)
def test_as_many_ids_are_sent_at_a_time_as_fit(
    monkeypatch: pytest.MonkeyPatch, ids: list[str], expected: list[list[str]]
) -> None:
    monkeypatch.setattr(store, "_PARAMETER_BYTES", 10)
    assert [*store._chunks(ids)] == expected


@pytest.fixture
def both(clickhouse_dsn: str) -> Iterator[ReputationStore]:
    """A store within this process, and one over HTTP: what its queries send and get may differ."""
    with open_clickhouse(clickhouse_dsn, patience_s=0) as clickhouse:
        store = ReputationStore(clickhouse)
        store.migrate(NOW)
        yield store


def test_migrations_are_applied_once(both: ReputationStore) -> None:
    applied = both.applied()["name"].to_list()
    assert applied[0] == "0001_create_reputation_events"
    assert [int(name[:4]) for name in applied] == list(range(1, len(applied) + 1))
    assert both.migrate(NOW) == []
    assert both.applied()["name"].to_list() == applied


def test_scores_equal_the_definition_at_five_times_whatever_the_order_of_loading(
    both: ReputationStore,
) -> None:
    signals = random_signals(1_200, identities=16, days=200, end=NOW)
    for revision, part in enumerate((signals[600:], signals[:720], signals[240:360])):
        both.upsert(REPUTATION_EVENTS, part.sample(fraction=1, shuffle=True, seed=1), revision)

    for days in (0, 1.5, 29, 100, 210):
        now = NOW - timedelta(days=days) if days <= 100 else NOW + timedelta(days=90)
        found = {row["identity_id"]: row for row in both.scores_as_of(now).to_dicts()}
        expected = expected_scores(signals, now)
        assert len(expected) == 16
        assert found.keys() == expected.keys()
        for identity, scores in expected.items():
            row = {name: found[identity][name] for name in scores}
            assert row == pytest.approx(scores, abs=1e-6), (now, identity)


def test_the_stored_scores_equal_the_definition_before_and_after_signals_have_grown_old(
    reputation_store: ReputationStore,
) -> None:
    signals = random_signals(750, identities=10, days=200, end=datetime.now(UTC))
    reputation_store.upsert(REPUTATION_EVENTS, signals, 1)
    assert_stored(reputation_store, signals)
    # The clock of the engine cannot go on so far: instead the signals go back, those of two
    # identities by as many days, so that of the last two none counts any more.
    ages = {uuid(n): timedelta(days=(0, 1.5, 29, 100, 150)[n // 2]) for n in range(10)}
    older = signals.with_columns(
        pl.col("timestamp") - pl.col("identity_id").replace_strict(ages, return_dtype=pl.Duration)
    )
    reputation_store.upsert(REPUTATION_EVENTS, older, 2)
    assert_stored(reputation_store, older)
    gone = reputation_store.scores().filter(pl.col("score_30d_ago").is_null())
    assert gone.select("total_events", "overall_score").rows() == [(0, 0.0)] * 2


def assert_stored(reputation_store: ReputationStore, signals: pl.DataFrame) -> None:
    """After a refresh the scores are those of the definition, of every identity."""
    reputation_store.refresh()
    rows = {row["identity_id"]: row for row in reputation_store.scores().to_dicts()}
    newest = max(row["computed_at"] for row in rows.values())
    expected = expected_scores(signals, newest)
    assert rows.keys() == expected.keys()
    for identity, scores in expected.items():
        row = {name: rows[identity][name] for name in scores}
        assert row == pytest.approx(scores, abs=1e-6), identity


def test_the_edges_of_the_window_belong_to_the_newer_side(
    reputation_store: ReputationStore,
) -> None:
    millisecond = timedelta(milliseconds=1)
    rows = [
        signal(1, 1, NOW, score_delta=1.0),
        signal(2, 1, NOW + millisecond, score_delta=-1.0),
        signal(3, 1, NOW - timedelta(days=90) + millisecond, score_delta=0.0),
        signal(4, 1, NOW - timedelta(days=90), score_delta=-1.0),
    ]
    reputation_store.upsert(REPUTATION_EVENTS, signals_frame(rows), 1)
    row = reputation_store.scores_as_of(NOW).to_dicts()[0]
    # Of the four, the first and the third count: (1 + 0) / 2 = 0.5, and 0.40 * 0.5 = 0.2.
    assert row["total_events"] == 2
    assert row["positive_events"] == 1
    assert row["negative_events"] == 0
    assert row["overall_score"] == pytest.approx(0.2)
    assert row["overall_observed"] == pytest.approx(0.5)
    assert row["categories_observed"] == ["task_quality"]
    # 30 days ago the window began 120 days ago: the third and the fourth, (0 - 1) / 2 * 0.40.
    assert row["score_30d_ago"] == pytest.approx(-0.2)


def test_a_signal_of_a_week_or_a_month_ago_to_the_millisecond_counted_then(
    reputation_store: ReputationStore,
) -> None:
    rows = [
        signal(1, 1, NOW - timedelta(days=7), score_delta=1.0),
        signal(2, 1, NOW - timedelta(days=30), score_delta=0.5),
    ]
    reputation_store.upsert(REPUTATION_EVENTS, signals_frame(rows), 1)
    (row,) = reputation_store.scores_as_of(NOW).to_dicts()
    # (1 + 0.5) / 2 * 0.40, and 0.5 * 0.40.
    assert row["score_7d_ago"] == pytest.approx(0.3)
    assert row["score_30d_ago"] == pytest.approx(0.2)


def test_identities_whose_signals_have_all_aged_out_keep_a_row_of_zeros(
    reputation_store: ReputationStore,
) -> None:
    signals = random_signals(50, identities=1, days=10, end=NOW)
    reputation_store.upsert(REPUTATION_EVENTS, signals, 1)
    # After 100 days none lies in the window, but all lie in that of 30 days before.
    late = reputation_store.scores_as_of(NOW + timedelta(days=100)).to_dicts()[0]
    expected = expected_scores(signals, NOW + timedelta(days=100))[uuid(0)]
    assert {name: late[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert (late["total_events"], late["overall_score"]) == (0, 0.0)
    for row in (
        reputation_store.scores_as_of(NOW + timedelta(days=130)).to_dicts()[0],
        reputation_store.score_as_of(uuid(0), NOW + timedelta(days=130)),
    ):
        assert row is not None
        assert (row["identity_id"], row["total_events"], row["overall_score"]) == (uuid(0), 0, 0.0)
        nothing = ("score_7d_ago", "score_30d_ago", "overall_observed")
        assert [row[name] for name in nothing] == [None, None, None]
    assert reputation_store.score_as_of(uuid(0), NOW - timedelta(days=11)) is None


def test_a_store_that_is_filled_anew_has_the_identities_whose_signals_are_old(
    reputation_store: ReputationStore,
) -> None:
    now = datetime.now(UTC)
    reputation_store.upsert(
        REPUTATION_EVENTS, signals_frame([signal(1, 1, now - timedelta(days=200))]), 1
    )
    reputation_store.refresh()
    (row,) = reputation_store.scores().to_dicts()
    assert (row["identity_id"], row["total_events"], row["confidence"]) == (uuid(1), 0, 0.0)


def test_ids_of_other_systems_name_a_row_of_one_agent_or_identity(
    reputation_store: ReputationStore,
) -> None:
    """Every integration may count from 1: none must erase what another one has said."""
    one = evaluations_frame(["0", "1"])
    others = [
        one.with_columns(organization_id=pl.lit("orchard"), passed=pl.lit(value=False)),
        one.with_columns(agent_id=pl.lit("ranger")),
    ]
    for revision, rows in enumerate([one, *others, one], 1):
        reputation_store.upsert(AGENT_EVALUATIONS, rows, revision)
    found = reputation_store.evaluations(NOW)
    assert found.height == 6
    assert found.filter(pl.col("organization_id") == "orchard")["passed"].to_list() == [False] * 2

    signals = [signal(1, number, NOW, attributes=[]) for number in (1, 2)]
    reputation_store.upsert(REPUTATION_EVENTS, signals_frame(signals), 1)
    assert reputation_store.scores_as_of(NOW)["total_events"].to_list() == [1, 1]
    corrected = signal(1, 2, NOW - timedelta(days=1), attributes=[], score_delta=0.5)
    reputation_store.upsert(REPUTATION_EVENTS, signals_frame([corrected]), 2)
    assert reputation_store.scores_as_of(NOW)["task_quality_score"].to_list() == [1.0, 0.5]


def test_what_other_systems_said_is_retracted_by_its_key_and_sessions_are_not(
    both: ReputationStore,
) -> None:
    rows = [
        *(signal(1, number, NOW, attributes=[]) for number in (1, 2)),
        signal(2, 1, NOW),
    ]
    both.upsert(REPUTATION_EVENTS, signals_frame(rows), 1)
    retractions = [Retraction(uuid(1), (uuid(2),)), Retraction(uuid(2), None)]
    assert both.retract(REPUTATION_EVENTS, retractions, 2) == 1
    assert both.live(REPUTATION_EVENTS, [uuid(1)])["identity_id"].to_list() == [uuid(1)]
    assert both.retract(REPUTATION_EVENTS, [Retraction(uuid(1), None)], 3) == 1
    assert both.live(REPUTATION_EVENTS, [uuid(1), uuid(2)])["event_id"].to_list() == [uuid(2)]


def test_a_signal_that_moves_in_time_or_to_another_identity_is_there_once(
    reputation_store: ReputationStore,
) -> None:
    reputation_store.upsert(REPUTATION_EVENTS, signals_frame([signal(1, 1, NOW)]), 1)
    earlier = signals_frame([signal(1, 1, NOW - timedelta(days=40), score_delta=0.5)])
    assert reputation_store.upsert(REPUTATION_EVENTS, earlier, 2) == 1
    row = reputation_store.scores_as_of(NOW).to_dicts()[0]
    assert (row["total_events"], row["task_quality_score"]) == (1, 0.5)

    other = signals_frame([signal(1, 2, NOW - timedelta(days=40), score_delta=0.5)])
    reputation_store.upsert(REPUTATION_EVENTS, other, 3)
    assert reputation_store.scores_as_of(NOW)["identity_id"].to_list() == [uuid(2)]


def test_of_two_writers_that_move_a_signal_the_newer_revision_stays_whoever_comes_last(
    reputation_store: ReputationStore,
) -> None:
    older = signals_frame([signal(1, 1, NOW, score_delta=-1.0)])
    newer = signals_frame([signal(1, 1, NOW - timedelta(days=1), score_delta=1.0)])
    reputation_store.upsert(REPUTATION_EVENTS, newer, 5)
    # A slower writer, with what it had read before.
    assert reputation_store.upsert(REPUTATION_EVENTS, older, 4) == 1
    row = reputation_store.scores_as_of(NOW).to_dicts()[0]
    assert (row["total_events"], row["task_quality_score"]) == (1, 1.0)
    assert reputation_store.upsert(REPUTATION_EVENTS, newer, 6) == 0


def test_a_move_that_was_cut_off_between_its_two_writes_is_completed_by_the_next_one(
    reputation_store: ReputationStore, one_clickhouse_dsn: str
) -> None:
    moved = signals_frame([signal(1, 1, NOW - timedelta(days=1), score_delta=0.5)])
    reputation_store.upsert(REPUTATION_EVENTS, signals_frame([signal(1, 1, NOW)]), 1)
    half = moved.with_columns(
        revision=pl.lit(2, dtype=pl.UInt64), is_deleted=pl.lit(0, dtype=pl.UInt8)
    )
    with open_clickhouse(one_clickhouse_dsn, patience_s=0) as clickhouse:
        clickhouse.insert("reputation_events", half)
    assert reputation_store.scores_as_of(NOW)["total_events"].to_list() == [2]

    assert reputation_store.upsert(REPUTATION_EVENTS, moved, 3) == 1
    row = reputation_store.scores_as_of(NOW).to_dicts()[0]
    assert (row["total_events"], row["task_quality_score"]) == (1, 0.5)


def test_a_signal_that_was_taken_back_can_come_again_and_a_newer_one_is_not_taken_back(
    reputation_store: ReputationStore,
) -> None:
    one = signals_frame([signal(1, 1, NOW)])
    reputation_store.upsert(REPUTATION_EVENTS, one, 2)
    assert reputation_store.retire(REPUTATION_EVENTS, [uuid(1)], 1) == 0
    assert reputation_store.retire(REPUTATION_EVENTS, [uuid(1)], 3) == 1
    assert reputation_store.live(REPUTATION_EVENTS, [uuid(1)]).is_empty()
    assert reputation_store.retire(REPUTATION_EVENTS, [uuid(1)], 4) == 0
    # Slower than the one that took it back.
    reputation_store.upsert(REPUTATION_EVENTS, one, 2)
    assert reputation_store.live(REPUTATION_EVENTS, [uuid(1)]).is_empty()
    reputation_store.upsert(REPUTATION_EVENTS, one, 5)
    assert reputation_store.live(REPUTATION_EVENTS, [uuid(1)])["revision"].to_list() == [5]


def test_signals_with_attributes_and_odd_letters_are_the_same_when_they_come_again(
    both: ReputationStore,
) -> None:
    odd = "tab\t new\nline nul\0 'quotes\" back\\slash {x:y} $1 ☃"
    pairs = [{"key": odd, "value": odd}, {"key": "z", "value": ""}]
    rows = signals_frame([signal(1, 1, NOW, reference_id=odd, attributes=pairs)])
    assert both.upsert(REPUTATION_EVENTS, rows, 1) == 1
    assert both.upsert(REPUTATION_EVENTS, rows, 2) == 0
    stored = both.live(REPUTATION_EVENTS, [uuid(1)])
    assert stored.drop("revision").equals(rows)

    evaluations = evaluations_frame([odd, f"{odd}2"])
    assert both.upsert(AGENT_EVALUATIONS, evaluations, 1) == 2
    assert both.upsert(AGENT_EVALUATIONS, evaluations, 2) == 0
    assert both.retract(AGENT_EVALUATIONS, [Retraction(odd, ("default", "scout"))], 3) == 1
    assert both.evaluations(NOW)["evaluation_id"].to_list() == [f"{odd}2"]


@pytest.mark.slow
def test_ids_that_do_not_fit_into_one_parameter_and_months_beyond_a_hundred_are_no_limit(
    both: ReputationStore,
) -> None:
    # Letters that are escaped twice on their way: 300 * 500 of them are more than a field takes.
    long = evaluations_frame([f"{number:04}" + "\\'" * 250 for number in range(300)])
    assert both.upsert(AGENT_EVALUATIONS, long, 1) == 300
    assert both.upsert(AGENT_EVALUATIONS, long, 2) == 0

    years = [signal(n, 1, NOW - timedelta(days=9 * n)) for n in range(120)]
    far = [signal(200 + n, 1, NOW + timedelta(days=31 * n)) for n in range(110)]
    rows = signals_frame(years + far)
    assert both.upsert(REPUTATION_EVENTS, rows, 1) == 230


def test_the_window_of_an_agent_is_its_newest_500_evaluations_up_to_a_time(
    both: ReputationStore,
) -> None:
    # A minute apart, the last one now.
    ids = [f"e{number:03}" for number in range(502)]
    rows = evaluations_frame(ids, start=NOW - timedelta(minutes=501), every=timedelta(minutes=1))
    other = rows.head(2).with_columns(
        agent_id=pl.lit("other"), evaluation_id=pl.concat_str(pl.lit("o"), "evaluation_id")
    )
    for part in (rows.tail(2), other, rows.head(500)):
        both.upsert(AGENT_EVALUATIONS, part, 1)

    found = both.evaluations(NOW)
    assert found["agent_id"].unique().sort().to_list() == ["other", "scout"]
    window = found.filter(agent_id="scout")
    assert window["evaluation_id"].to_list() == ids[:1:-1]
    assert window["evaluations_in_all"].unique().to_list() == [502]
    before = both.evaluations(NOW - timedelta(minutes=1)).filter(agent_id="scout")
    assert before["evaluation_id"].to_list() == ids[500:0:-1]


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


def test_files_of_dropped_tables_are_deleted_of_the_embedded_engine(clickhouse_dsn: str) -> None:
    with open_clickhouse(clickhouse_dsn, patience_s=0) as clickhouse:
        for table in ("signals_kept", "signals_kept", "others_kept"):
            drop_as_a_kill_does(clickhouse, table)
        delete_dropped_files(clickhouse, ["signals_kept"])
        # A server needs no rights for it: it deletes them itself after some minutes.
        kept = ["others_kept"] if clickhouse.is_embedded else ["others_kept", *["signals_kept"] * 2]
        assert dropped(clickhouse) == kept


def test_one_that_is_being_deleted_is_waited_for(
    one_clickhouse_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_clickhouse(one_clickhouse_dsn, patience_s=0) as clickhouse:
        if not clickhouse.is_embedded:
            pytest.skip("a server deletes dropped tables itself")
        drop_as_a_kill_does(clickhouse, "signals_kept")
        refused = _Refusing(clickhouse)
        monkeypatch.setattr(store, "_PATIENCE_S", 0.2)
        with pytest.raises(ClickHouseError, match="a dropped table signals_kept are not deleted"):
            delete_dropped_files(refused, ["signals_kept"])
        delete_dropped_files(clickhouse, ["signals_kept"])
        delete_dropped_files(refused, ["signals_kept"])  # it is gone


class _Refusing(ClickHouse):
    """Says of each dropped table that it is being deleted."""

    def __init__(self, clickhouse: ClickHouse) -> None:
        self._of = clickhouse
        super().__init__(clickhouse._client, is_embedded=True)

    def run(self, statement: str, **values: object) -> None:
        if statement.startswith("undrop"):
            raise ClickHouseError("The drop task of table signals_kept is in progress")
        self._of.run(statement, **values)
