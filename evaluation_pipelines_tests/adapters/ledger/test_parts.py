import pytest

from evaluation_pipelines.adapters.ledger.errors import LedgerConflictError, PartsNotCurrentError
from evaluation_pipelines.adapters.ledger.ledger import Ledger
from evaluation_pipelines.adapters.ledger.records import Part, PartDate
from evaluation_pipelines_tests.adapters.ledger.ledger_builders import (
    LANDED,
    MARCH_1,
    MARCH_2,
    NOON,
    at,
    batch,
    commit_parts,
    leased,
    new_part,
)


def paths(parts: list[Part]) -> list[str]:
    return [part.path for part in parts]


def test_a_part_names_its_bytes_and_its_place(ledger: Ledger) -> None:
    (part_id,) = commit_parts(ledger, {"a.parquet": MARCH_1})

    assert ledger.parts.current(LANDED, MARCH_1) == [
        Part(
            part_id=part_id,
            table_name=LANDED,
            session_date=MARCH_1,
            path="a.parquet",
            file_id="f1",
            from_offset=0,
            to_offset=100,
            row_count=10,
            size_bytes=1_000,
            created_at=NOON,
            superseded_at=None,
        )
    ]


def test_parts_come_in_the_order_they_entered(ledger: Ledger) -> None:
    commit_parts(ledger, {"z.parquet": MARCH_1, "other.parquet": MARCH_2})
    commit_parts(ledger, {"a.parquet": MARCH_1})

    assert paths(ledger.parts.current(LANDED, MARCH_1)) == ["z.parquet", "a.parquet"]


def test_quarantine_has_no_date_and_is_another_table(ledger: Ledger) -> None:
    commit_parts(ledger, {"q.parquet": None}, table_name="quarantine")
    commit_parts(ledger, {"a.parquet": MARCH_1})

    assert paths(ledger.parts.current("quarantine", None)) == ["q.parquet"]
    assert ledger.parts.current(LANDED, None) == []
    assert ledger.parts.dates("quarantine") == []
    assert ledger.parts.known_paths("quarantine", None) == {"q.parquet"}


def test_dates_say_what_their_current_parts_hold(ledger: Ledger) -> None:
    merged, _, _ = commit_parts(ledger, {"a": MARCH_2, "b": MARCH_1, "c": MARCH_1})
    ledger.parts.replace([merged], new_part("m", MARCH_2, row_count=7, size_bytes=70), NOON)

    assert ledger.parts.dates(LANDED) == [
        PartDate(MARCH_1, parts=2, rows=20, size_bytes=2_000),  # 2 parts of 10 rows, 1000 bytes
        PartDate(MARCH_2, parts=1, rows=7, size_bytes=70),
    ]


def test_a_merged_part_takes_the_place_of_the_old_ones(ledger: Ledger) -> None:
    old = commit_parts(ledger, {"a": MARCH_1, "b": MARCH_1})
    commit_parts(ledger, {"late": MARCH_1})

    part_id = ledger.parts.replace(old, new_part("m", row_count=20), at(hours=1))

    late, merged = ledger.parts.current(LANDED, MARCH_1)
    assert late.path == "late"
    assert (merged.part_id, merged.path, merged.row_count) == (part_id, "m", 20)
    assert (merged.file_id, merged.from_offset, merged.to_offset) == (None, None, None)
    assert merged.created_at == at(hours=1)
    assert ledger.parts.known_paths(LANDED, MARCH_1) == {"a", "b", "late", "m"}


def test_merging_touches_no_date(ledger: Ledger) -> None:
    old = commit_parts(ledger, {"a": MARCH_1})
    before = ledger.touched.all()
    ledger.parts.replace(old, new_part("m"), at(hours=1))

    assert ledger.touched.all() == before


def test_a_part_that_was_merged_already_is_not_merged_again(ledger: Ledger) -> None:
    a, b = commit_parts(ledger, {"a": MARCH_1, "b": MARCH_1})
    ledger.parts.replace([a], new_part("m1"), NOON)

    with pytest.raises(PartsNotCurrentError, match=r"1 of 2 parts .* on 2026-03-01"):
        ledger.parts.replace([a, b], new_part("m2"), NOON)

    assert paths(ledger.parts.current(LANDED, MARCH_1)) == ["b", "m1"]


def test_parts_of_another_date_or_table_are_not_merged(ledger: Ledger) -> None:
    (part,) = commit_parts(ledger, {"a": MARCH_1})

    with pytest.raises(PartsNotCurrentError):
        ledger.parts.replace([part], new_part("m", MARCH_2), NOON)
    with pytest.raises(PartsNotCurrentError):
        ledger.parts.replace([part], new_part("m", table_name="quarantine"), NOON)


def test_a_merge_under_a_path_that_is_taken_changes_nothing(ledger: Ledger) -> None:
    old = commit_parts(ledger, {"a": MARCH_1})

    with pytest.raises(LedgerConflictError, match=r"parts.path"):
        ledger.parts.replace(old, new_part("a"), NOON)

    assert paths(ledger.parts.current(LANDED, MARCH_1)) == ["a"]


def test_a_merged_part_replaces_something(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="at least one"):
        ledger.parts.replace([], new_part("m"), NOON)


def test_superseded_parts_are_kept_for_those_who_still_read_them(ledger: Ledger) -> None:
    old = commit_parts(ledger, {"a": MARCH_1, "b": MARCH_1})
    ledger.parts.replace(old, new_part("m"), NOON)

    assert ledger.parts.superseded_before(NOON) == []
    assert paths(ledger.parts.superseded_before(at(seconds=1))) == ["a", "b"]


def test_forgetting_drops_superseded_parts_only(ledger: Ledger) -> None:
    a, b = commit_parts(ledger, {"a": MARCH_1, "b": MARCH_1})
    ledger.parts.replace([a], new_part("m"), NOON)

    assert ledger.parts.forget([a, b]) == 1  # b is current

    assert ledger.parts.known_paths(LANDED, MARCH_1) == {"b", "m"}
    assert ledger.parts.forget([a, b]) == 0


def test_ids_of_forgotten_parts_are_not_used_again(ledger: Ledger) -> None:
    old = commit_parts(ledger, {"a": MARCH_1})
    merged = ledger.parts.replace(old, new_part("m", session_date=MARCH_1), NOON)
    newest = ledger.parts.replace([merged], new_part("n"), NOON)
    newer = ledger.parts.replace([newest], new_part("o"), NOON)
    ledger.parts.forget([*old, merged, newest])
    ledger.parts.replace([newer], new_part("p"), NOON)

    (current,) = ledger.parts.current(LANDED, MARCH_1)
    assert current.part_id == newer + 1


def test_thousands_of_parts_merge_at_once(ledger: Ledger) -> None:
    epoch = leased(ledger)
    parts = tuple(new_part(f"{number}.parquet") for number in range(12_000))
    ledger.ingest.commit_batch(batch(epoch, parts=parts))
    ids = [part.part_id for part in ledger.parts.current(LANDED, MARCH_1)]

    ledger.parts.replace(ids, new_part("m"), NOON)

    assert paths(ledger.parts.current(LANDED, MARCH_1)) == ["m"]
    assert ledger.parts.forget(ids) == 12_000
