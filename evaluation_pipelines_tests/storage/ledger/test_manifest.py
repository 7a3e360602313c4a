from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest

from evaluation_pipelines.storage.ledger.errors import LedgerConflictError, PartsNotCurrentError
from evaluation_pipelines.storage.ledger.ledger import Ledger, ledger_time
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.parts import Part, PartDate, PartOrigin
from evaluation_pipelines_tests.world.ledger import (
    LANDED,
    MARCH_1,
    MARCH_2,
    NOON,
    add_file,
    at,
    batch,
    commit,
    commit_parts,
    new_part,
)


def paths(parts: list[Part]) -> list[str]:
    return [part.path for part in parts]


@pytest.fixture
def times_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have PostgreSQL's clock show what a test says, as the one of a machine with SQLite."""
    monkeypatch.setattr(
        "evaluation_pipelines.storage.ledger.manifest.shared_time", lambda _connection, now: now
    )


def test_a_part_has_its_byte_range_and_partition(ledger: Ledger) -> None:
    (part_id,) = commit_parts(ledger, {"a.parquet": MARCH_1})

    assert Manifest(ledger).current(LANDED, MARCH_1) == [
        Part(
            part_id=part_id,
            table_name=LANDED,
            session_date=MARCH_1,
            path="a.parquet",
            row_count=10,
            size_bytes=1_000,
            sha256="ab" * 32,
            created_at=NOON,
            superseded_at=None,
        )
    ]
    assert Manifest(ledger).origins(part_id) == [PartOrigin("f1", 0, 100, 10, NOON)]


def test_parts_are_in_the_order_they_were_added(ledger: Ledger) -> None:
    commit_parts(ledger, {"z.parquet": MARCH_1, "other.parquet": MARCH_2})
    commit_parts(ledger, {"a.parquet": MARCH_1})

    assert paths(Manifest(ledger).current(LANDED, MARCH_1)) == ["z.parquet", "a.parquet"]


def test_quarantine_has_no_date_and_is_another_table(ledger: Ledger) -> None:
    commit_parts(ledger, {"q.parquet": None}, table_name="quarantine")
    commit_parts(ledger, {"a.parquet": MARCH_1})

    assert paths(Manifest(ledger).current("quarantine", None)) == ["q.parquet"]
    assert Manifest(ledger).current(LANDED, None) == []
    assert Manifest(ledger).dates("quarantine") == []
    assert Manifest(ledger).known_paths(None) == {"q.parquet"}


def test_dates_have_the_totals_of_their_current_parts(ledger: Ledger) -> None:
    merged, _, _ = commit_parts(ledger, {"a": MARCH_2, "b": MARCH_1, "c": MARCH_1})
    Manifest(ledger).replace([merged], new_part("m", MARCH_2, row_count=7, size_bytes=70), NOON)

    assert Manifest(ledger).dates(LANDED) == [
        PartDate(MARCH_1, parts=2, rows=20, size_bytes=2_000),  # 2 parts of 10 rows, 1000 bytes
        PartDate(MARCH_2, parts=1, rows=7, size_bytes=70),
    ]


def test_a_merged_part_replaces_the_old_parts(ledger: Ledger) -> None:
    old = commit_parts(ledger, {"a": MARCH_1, "b": MARCH_1})
    commit_parts(ledger, {"late": MARCH_1})

    part_id = Manifest(ledger).replace(old, new_part("m", row_count=20), at(hours=1))

    late, merged = Manifest(ledger).current(LANDED, MARCH_1)
    assert late.path == "late"
    assert (merged.part_id, merged.path, merged.row_count) == (part_id, "m", 20)
    assert Manifest(ledger).origins(part_id) == [PartOrigin("f1", 0, 100, 20, NOON)]  # of both
    assert merged.created_at >= at(hours=1)  # by the clock of the ledger
    assert Manifest(ledger).known_paths(MARCH_1) == {"a", "b", "late", "m"}


def test_merging_queues_no_rebuild(ledger: Ledger) -> None:
    old = commit_parts(ledger, {"a": MARCH_1})
    before = RebuildQueue(ledger).all()
    Manifest(ledger).replace(old, new_part("m"), at(hours=1))

    assert RebuildQueue(ledger).all() == before


def test_a_part_that_was_merged_already_is_not_merged_again(ledger: Ledger) -> None:
    a, b = commit_parts(ledger, {"a": MARCH_1, "b": MARCH_1})
    Manifest(ledger).replace([a], new_part("m1"), NOON)

    with pytest.raises(PartsNotCurrentError, match=r"1 of 2 parts .* on 2026-03-01"):
        Manifest(ledger).replace([a, b], new_part("m2"), NOON)

    assert paths(Manifest(ledger).current(LANDED, MARCH_1)) == ["b", "m1"]


def test_parts_of_another_date_or_table_are_not_merged(ledger: Ledger) -> None:
    (part,) = commit_parts(ledger, {"a": MARCH_1})

    with pytest.raises(PartsNotCurrentError):
        Manifest(ledger).replace([part], new_part("m", MARCH_2), NOON)
    with pytest.raises(PartsNotCurrentError):
        Manifest(ledger).replace([part], new_part("m", table_name="quarantine"), NOON)


def test_a_merge_under_a_path_that_is_taken_changes_nothing(ledger: Ledger) -> None:
    old = commit_parts(ledger, {"a": MARCH_1})

    with pytest.raises(LedgerConflictError, match=r"parts.path"):
        Manifest(ledger).replace(old, new_part("a"), NOON)

    assert paths(Manifest(ledger).current(LANDED, MARCH_1)) == ["a"]


def test_superseded_parts_are_kept_for_current_readers(ledger: Ledger) -> None:
    old = commit_parts(ledger, {"a": MARCH_1, "b": MARCH_1})
    Manifest(ledger).replace(old, new_part("m"), NOON)

    assert Manifest(ledger).sweepable(NOON) == []
    later = ledger_time(ledger, NOON) + timedelta(seconds=1)
    assert paths(Manifest(ledger).sweepable(later)) == ["a", "b"]


def test_only_superseded_parts_are_deleted(ledger: Ledger) -> None:
    a, b = commit_parts(ledger, {"a": MARCH_1, "b": MARCH_1})
    Manifest(ledger).replace([a], new_part("m"), NOON)

    assert Manifest(ledger).delete_superseded([a, b]) == 1  # b is current

    assert Manifest(ledger).known_paths(MARCH_1) == {"b", "m"}
    assert Manifest(ledger).delete_superseded([a, b]) == 0


def test_ids_of_deleted_parts_are_not_reused(ledger: Ledger) -> None:
    old = commit_parts(ledger, {"a": MARCH_1})
    merged = Manifest(ledger).replace(old, new_part("m", session_date=MARCH_1), NOON)
    newest = Manifest(ledger).replace([merged], new_part("n"), NOON)
    newer = Manifest(ledger).replace([newest], new_part("o"), NOON)
    Manifest(ledger).delete_superseded([*old, merged, newest])
    Manifest(ledger).replace([newer], new_part("p"), NOON)

    (current,) = Manifest(ledger).current(LANDED, MARCH_1)
    assert current.part_id == newer + 1


def test_the_version_changes_with_the_current_parts_alone(ledger: Ledger) -> None:
    manifest = Manifest(ledger)
    assert manifest.version() == (0, 0, 0)
    seen = [manifest.version()]
    a, b = commit_parts(ledger, {"a": MARCH_1, "b": MARCH_2})
    seen.append(manifest.version())
    c = manifest.replace([a], new_part("c"), NOON)
    seen.append(manifest.version())
    manifest.withdraw(c, NOON)
    seen.append(manifest.version())
    assert manifest.delete_superseded([a, c]) == 2  # no reader sees that
    assert manifest.version() == seen[-1] == (1, b, b)
    manifest.switch([new_part("d", table_name="cards", slot="d")], NOON)
    manifest.switch([new_part("e", table_name="cards", slot="d")], NOON)
    seen.append(manifest.version())
    assert len(set(seen)) == len(seen)
    ids = [part.part_id for part in manifest.all_tables()]
    assert manifest.version() == (len(ids), sum(ids), max(ids))


def test_thousands_of_parts_are_merged_in_one_call(ledger: Ledger) -> None:
    add_file(ledger)
    # More than are bound in one statement.
    parts = tuple(new_part(f"{number}.parquet") for number in range(5_100))
    commit(ledger, batch(parts=parts))
    ids = [part.part_id for part in Manifest(ledger).current(LANDED, MARCH_1)]

    Manifest(ledger).replace(ids, new_part("m"), NOON)

    assert paths(Manifest(ledger).current(LANDED, MARCH_1)) == ["m"]
    assert Manifest(ledger).delete_superseded(ids) == 5_100


def test_a_part_replaces_the_one_of_its_table_date_and_slot(ledger: Ledger) -> None:
    manifest = Manifest(ledger)
    same: dict[str, Any] = {"table_name": "cards", "slot": "a"}
    others = [
        new_part("other slot", table_name="cards", slot="b"),
        new_part("other date", MARCH_2, **same),
        new_part("no date", None, **same),
        new_part("other table", table_name="sessions", slot="a"),
        new_part("no slot", table_name="cards"),
    ]
    manifest.switch([new_part("old", **same), *others], NOON)
    manifest.switch([new_part("new", **same)], at(seconds=1))

    assert sorted(paths(manifest.current("cards", MARCH_1))) == ["new", "no slot", "other slot"]
    assert paths(manifest.current("cards", MARCH_2)) == ["other date"]
    assert paths(manifest.current("cards", None)) == ["no date"]
    assert paths(manifest.current("sessions", MARCH_1)) == ["other table"]
    assert paths(manifest.sweepable(ledger_time(ledger, at(seconds=2)))) == ["old"]


def test_a_part_replaces_those_that_share_a_bucket_with_it(ledger: Ledger) -> None:
    manifest = Manifest(ledger)

    def switch(name: str, first: int, last: int) -> None:
        part = new_part(name, table_name="cards", slot="a", first_bucket=first, last_bucket=last)
        manifest.switch([part], NOON)

    switch("below", 0, 9)
    switch("lowest", 10, 10)
    switch("highest", 20, 20)
    switch("above", 21, 30)
    switch("new", 10, 20)
    assert sorted(paths(manifest.current("cards", MARCH_1))) == ["above", "below", "new"]


@pytest.mark.usefixtures("times_as_given")
def test_parts_that_a_published_database_names_are_not_swept(ledger: Ledger) -> None:
    manifest = Manifest(ledger)
    for index, name in enumerate("abcd"):
        manifest.switch([new_part(name, table_name="cards", slot="x")], at(hours=2 * index))

    # a is replaced at 2 h, b at 4 h, c at 6 h; the databases name b and c.
    manifest.note_published("first", at(hours=3, minutes=30), [])
    manifest.note_published("second", at(hours=5, minutes=30), ["first"])
    assert paths(manifest.sweepable(at(hours=8))) == ["a"]
    manifest.note_published("third", at(hours=7, minutes=30), ["second"])
    assert paths(manifest.sweepable(at(hours=8))) == ["a", "b"]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_machine_whose_clock_is_hours_late_replaces_parts_now(ledger: Ledger) -> None:
    manifest, now = Manifest(ledger), datetime.now(UTC)
    manifest.switch([new_part("a", table_name="cards", slot="x")], now)
    (part,) = manifest.all_tables()
    manifest.replace([part.part_id], new_part("b", table_name="cards"), now - timedelta(hours=3))
    (part,) = manifest.all_tables()
    manifest.withdraw(part.part_id, now - timedelta(hours=3))
    assert manifest.sweepable(now - timedelta(hours=1)) == []
    assert paths(manifest.sweepable(now + timedelta(hours=1))) == ["a", "b"]


@pytest.mark.usefixtures("times_as_given")
def test_a_database_of_another_machine_keeps_its_parts_for_a_week(ledger: Ledger) -> None:
    manifest = Manifest(ledger)
    for index, name in enumerate("abc"):
        manifest.switch([new_part(name, table_name="cards", slot="x")], at(hours=2 * index))
    manifest.note_published("before places", at(hours=2, minutes=30), [])
    manifest.note_published("1", at(hours=3, minutes=30), [], place="one:/data/")
    manifest.note_published("1", at(hours=8), [], place="two:/data/")
    assert paths(manifest.sweepable(at(hours=9))) == ["a"]
    manifest.note_published("2", at(hours=9), ["1"], place="two:/data/")
    assert paths(manifest.sweepable(at(hours=9))) == ["a"]
    manifest.note_published("3", at(days=7, hours=4), ["2"], place="two:/data/")
    assert paths(manifest.sweepable(at(days=8))) == ["a", "b"]


def test_parts_replaced_within_an_hour_before_a_publish_are_kept_for_it(ledger: Ledger) -> None:
    """Their writer may have looked at the clock, and waited while the database was made."""
    manifest = Manifest(ledger)
    for hour, name in enumerate("ab"):
        manifest.switch([new_part(name, table_name="cards", slot="x")], at(hours=hour))
    manifest.note_published("first", at(hours=1, minutes=59), [])
    assert paths(manifest.sweepable(at(hours=8))) == []


def test_writers_that_replace_the_same_part_at_once_leave_one(ledger: Ledger) -> None:
    """Two current parts of a slot would count its rows twice."""
    manifest, start = Manifest(ledger), Barrier(4)

    def switch_at_once(path: str) -> None:
        start.wait()
        manifest.switch([new_part(path, table_name="cards", slot="a")], NOON)

    with ThreadPoolExecutor(4) as pool:
        for number in range(10):
            list(pool.map(switch_at_once, [f"{number}-{writer}" for writer in range(4)]))
            assert len(manifest.current("cards", MARCH_1)) == 1
