"""The lake: whole files or none, of exactly the columns that their table has."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from evaluation_pipelines.schemas import UTC_TIME, Column, Table
from evaluation_pipelines.storage.lake import DamagedPartError, Lake, LakeError
from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.storage.store import LocalStore
from evaluation_pipelines_tests.world.lake_files import folder_of, paths_of, put_file, root_of

NUMBERS = Table(
    name="numbers",
    grain="one row per number",
    key=("n",),
    columns=(
        Column("n", pl.Int64(), "a number"),
        Column("word", pl.String(), "its name"),
        Column("at", UTC_TIME, "when it was counted"),
    ),
)
PILES = replace(NUMBERS, name="piles", several_files=True)
DAY = date(2026, 6, 1)
NEXT_DAY = date(2026, 6, 2)
NOW = datetime.now(UTC)


def rows(*numbers: int) -> pl.DataFrame:
    return pl.DataFrame([(n, f"{n}", NOW) for n in numbers], schema=NUMBERS.schema, orient="row")


def flipped(content: bytes, position: int) -> bytes:
    """Return the content with one bit of the byte at ``position`` flipped."""
    changed = bytearray(content)
    changed[position] ^= 1 << position % 8
    return bytes(changed)


@contextmanager
def opened(folder: Path) -> Iterator[Lake]:
    """Open an empty lake with a ledger."""
    with closing(open_ledger(f"sqlite:///{folder}/ledger.db")) as ledger:
        yield Lake(LocalStore(folder / "lake"), Manifest(ledger))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with opened(tmp_path) as empty:
        yield empty


def staged(lake: Lake) -> list[Path]:
    return list((root_of(lake) / "_tmp").iterdir())


def test_a_partition_that_was_written_is_read_back_and_replaced_whole(lake: Lake) -> None:
    path = Path(lake.write(rows(1, 2, 3), NUMBERS, DAY))
    assert path.parent == root_of(lake) / "numbers" / "session_date=2026-06-01"
    assert lake.read(NUMBERS, [DAY]).equals(rows(1, 2, 3))
    newer = Path(lake.write(rows(4), NUMBERS, DAY))
    assert lake.read(NUMBERS, [DAY]).equals(rows(4))
    assert paths_of(lake, NUMBERS) == paths_of(lake, NUMBERS, [DAY]) == [newer]
    assert Path(lake.place(NUMBERS, DAY)) == newer
    assert staged(lake) == []


def test_a_staged_file_counts_from_the_switch_and_all_of_them_at_once(lake: Lake) -> None:
    lake.write(rows(1), NUMBERS, DAY)
    lake.write(rows(2), NUMBERS, NEXT_DAY)
    new = [lake.stage(rows(n), NUMBERS, day, "numbers") for n, day in ((3, DAY), (4, NEXT_DAY))]
    assert lake.read(NUMBERS, [DAY, NEXT_DAY])["n"].to_list() == [1, 2]
    lake.switch(new)
    assert lake.read(NUMBERS, [DAY, NEXT_DAY])["n"].to_list() == [3, 4]


def test_a_file_that_nothing_names_is_not_read(lake: Lake) -> None:
    path = Path(lake.write(rows(1), NUMBERS, DAY))
    shutil.copy(path, path.with_name("copy.parquet"))
    assert lake.read(NUMBERS, [DAY]).equals(rows(1))
    assert lake.select(NUMBERS).equals(rows(1))


def test_a_deleted_file_is_an_error_until_it_is_written_again(lake: Lake) -> None:
    """Left out in silence, its rows would be missing from every sum."""
    lake.write(rows(1), NUMBERS, DAY)
    Path(lake.write(rows(2), NUMBERS, NEXT_DAY)).unlink()
    assert lake.read(NUMBERS, [DAY]).equals(rows(1))
    for read in (lambda: lake.select(NUMBERS), lambda: paths_of(lake, NUMBERS)):
        with pytest.raises(
            DamagedPartError, match=r"is missing\. Build its date again: .*--damaged"
        ):
            read()
    lake.write(rows(3), NUMBERS, NEXT_DAY)
    assert lake.select(NUMBERS).equals(rows(1, 3))


def test_a_snapshot_keeps_the_parts_of_its_time_of_all_tables(lake: Lake) -> None:
    lake.write(rows(1), NUMBERS, DAY)
    lake.write(rows(1), PILES, DAY)
    snapshot = lake.snapshot()
    lake.write(rows(2), NUMBERS, DAY)
    lake.write(rows(2), PILES, DAY)
    assert snapshot.read(NUMBERS, [DAY]).equals(rows(1))
    assert snapshot.select(PILES).equals(rows(1))
    assert lake.read(NUMBERS, [DAY]).equals(rows(2))
    with pytest.raises(LakeError, match="opened for reading only"):
        snapshot.write(rows(3), NUMBERS, DAY)


def test_a_lake_without_a_ledger_is_empty_and_read_only(tmp_path: Path) -> None:
    lake = Lake(LocalStore(tmp_path), None)
    assert lake.partitions(NUMBERS) == []
    assert lake.read_whole(NUMBERS).is_empty()
    with pytest.raises(LakeError, match="opened for reading only"):
        lake.write(rows(1), NUMBERS, DAY)


def test_a_part_is_synced_before_it_is_named_and_its_folders_after(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power cut may leave an empty file under the name, or no file at all."""
    lake.write_part(rows(1), PILES, DAY, "part")  # creates the folders of the lake
    path = root_of(lake) / "numbers" / "session_date=2026-06-01" / "part.parquet"
    sync = os.fsync
    synced = []

    def record_and_sync(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, path.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record_and_sync)
    lake.write_part(rows(1), NUMBERS, DAY, "part")

    assert synced == [
        (root_of(lake).stat().st_ino, False),
        (path.parent.parent.stat().st_ino, False),
        (path.stat().st_ino, False),
        (path.parent.stat().st_ino, True),
    ]


def test_dates_are_read_in_the_order_asked_and_those_that_are_missing_are_empty(
    lake: Lake,
) -> None:
    assert lake.partitions(NUMBERS) == []
    lake.write(rows(2), NUMBERS, NEXT_DAY)
    lake.write(rows(1), NUMBERS, DAY)
    assert lake.partitions(NUMBERS) == [DAY, NEXT_DAY]
    three = [NEXT_DAY, date(2026, 6, 3), DAY]
    assert lake.read(NUMBERS, three)["n"].to_list() == [2, 1]
    assert lake.read(NUMBERS, three, ["word"]).to_dict(as_series=False) == {"word": ["2", "1"]}
    nothing = lake.read(NUMBERS, [])
    assert (nothing.height, nothing.schema) == (0, NUMBERS.schema)


def test_the_name_of_a_folder_may_hold_what_others_take_for_a_pattern(tmp_path: Path) -> None:
    with opened(tmp_path / "a[1]*?") as lake:
        lake.write(rows(1), NUMBERS, DAY)
        assert lake.read(NUMBERS, lake.partitions(NUMBERS)).equals(rows(1))


def test_a_file_of_an_older_version_is_read_by_the_names_of_its_columns(lake: Lake) -> None:
    put_file(lake, rows(1).select("at", "n"), NUMBERS, DAY)
    assert lake.read(NUMBERS, [DAY]).rows() == [(1, None, NOW)]


@pytest.mark.parametrize(
    ("frame", "difference"),
    [
        (rows(1).drop("word"), "word is missing, not String"),
        (rows(1).with_columns(extra=1), "extra is Int32, not a column"),
        (rows(1).cast({"n": pl.Int32}), "n is Int32, not Int64"),
        (rows(1).select("word", "n", "at"), "the columns are in another order"),
    ],
)
def test_a_frame_that_is_not_the_tables_is_refused_and_nothing_changes(
    lake: Lake, frame: pl.DataFrame, difference: str
) -> None:
    lake.write(rows(7), NUMBERS, DAY)
    with pytest.raises(LakeError, match=f"numbers: {difference}"):
        lake.write(frame, NUMBERS, DAY)
    assert lake.read(NUMBERS, [DAY]).equals(rows(7))


def test_parts_lie_beside_each_other_and_in_a_table_without_dates_too(lake: Lake) -> None:
    part = lake.write_part(rows(1, 2), NUMBERS, DAY, "f-0-10")
    content = (root_of(lake) / part.path).read_bytes()
    assert part == NewPart(
        table_name="numbers",
        session_date=DAY,
        path="numbers/session_date=2026-06-01/f-0-10.parquet",
        row_count=2,
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    lake.write_part(rows(2), NUMBERS, DAY, "f-10-20")
    undated = lake.write_part(rows(3), NUMBERS, None, "f-0-20")
    assert undated.path == "numbers/f-0-20.parquet"
    assert lake.read_part(part, NUMBERS).equals(rows(1, 2))
    assert lake.read_part(undated, NUMBERS).equals(rows(3))


def test_columns_of_an_older_file_that_the_table_has_dropped_are_left_out(lake: Lake) -> None:
    put_file(lake, rows(1).with_columns(dropped=pl.lit(7)), NUMBERS, DAY)
    assert lake.read(NUMBERS, [DAY]).equals(rows(1))


@pytest.mark.parametrize("damage", [b"", b"not parquet", None])
def test_a_damaged_file_is_named_with_what_to_do(lake: Lake, damage: bytes | None) -> None:
    path = Path(lake.write(rows(*range(100)), NUMBERS, DAY))
    path.write_bytes(path.read_bytes()[:-20] if damage is None else damage)
    with pytest.raises(LakeError) as caught:
        lake.read(NUMBERS, [DAY])
    assert str(caught.value) == (
        f"{path} is damaged: its content does not have the checksum in the ledger. "
        "Build its date again: evaluation-pipelines build --damaged"
    )


def test_a_missing_part_is_to_be_restored(lake: Lake) -> None:
    """Derived tables can be built again, what was ingested cannot."""
    part = lake.write_part(rows(1), NUMBERS, None, "gone")
    (root_of(lake) / part.path).unlink()
    with pytest.raises(DamagedPartError, match=r"gone\.parquet is missing\. .* from a backup"):
        lake.read_part(part, NUMBERS)


def test_every_flipped_bit_of_a_part_is_noticed(lake: Lake) -> None:
    """Without checksums, a third of them gave other rows and no error."""
    part = lake.write_part(rows(*range(100)), NUMBERS, DAY, "part")
    path = root_of(lake) / part.path
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(flipped(content, position))
        with pytest.raises(DamagedPartError, match=r"part\.parquet is damaged"):
            lake.read_part(part, NUMBERS)
    path.write_bytes(content)
    assert lake.read_part(part, NUMBERS).equals(rows(*range(100)))


def test_of_files_that_are_read_together_the_one_at_fault_is_named(lake: Lake) -> None:
    lake.write(rows(1), NUMBERS, DAY)
    wrong = put_file(lake, rows(1).with_columns(n=pl.lit("one")), NUMBERS, NEXT_DAY)
    with pytest.raises(LakeError, match=wrong.name):
        lake.read(NUMBERS, [DAY, NEXT_DAY])


def test_a_lake_that_cannot_be_written_says_so_and_keeps_nothing_staged(lake: Lake) -> None:
    lake.write(rows(1), NUMBERS, DAY)
    folder_of(lake, NUMBERS, NEXT_DAY).write_text("a file in the place of the folder")
    with pytest.raises(LakeError, match=r"cannot write .* Check space and permissions"):
        lake.write(rows(2), NUMBERS, NEXT_DAY)
    assert staged(lake) == []
    assert lake.read(NUMBERS, [DAY]).equals(rows(1))


def test_the_sweep_deletes_old_files_that_no_manifest_names_and_nothing_else(lake: Lake) -> None:
    known = lake.write_part(rows(1), NUMBERS, DAY, "known").path
    orphan = lake.write_part(rows(2), NUMBERS, DAY, "orphan").path
    young = lake.write_part(rows(3), NUMBERS, DAY, "young").path
    other_day = lake.write_part(rows(4), NUMBERS, NEXT_DAY, "other").path
    for name in ("old", "new"):
        (root_of(lake) / "_tmp" / f"{name}.parquet").write_bytes(b"half a file")
    for path in (known, orphan, other_day, "_tmp/old.parquet"):
        an_hour_ago = (NOW - timedelta(hours=1)).timestamp()
        os.utime(root_of(lake) / path, (an_hour_ago, an_hour_ago))

    assert lake.sweep(NUMBERS, DAY, [known], NOW - timedelta(minutes=30)) == 1

    left = {path.relative_to(root_of(lake)).as_posix() for path in root_of(lake).rglob("*.parquet")}
    assert left == {known, young, other_day, "_tmp/new.parquet"}


def test_what_is_being_written_is_not_swept_whatever_the_clock_says(lake: Lake) -> None:
    def write() -> None:
        for number in range(100):
            lake.write_part(rows(number), NUMBERS, DAY, f"part-{number}")

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not writing.done():
            lake.sweep(NUMBERS, NEXT_DAY, [], NOW + timedelta(days=1))

    writing.result()
    assert len(list(folder_of(lake, NUMBERS, DAY).iterdir())) == 100
    assert not staged(lake)


def test_a_partition_of_several_files_is_read_as_one_and_written_file_by_file(lake: Lake) -> None:
    lake.write_slot(rows(1, 2), PILES, DAY, "a-v1")
    lake.write_slot(rows(3), PILES, DAY, "b-v1")
    lake.write_slot(rows(4), PILES, NEXT_DAY, "a-v1")
    lake.write_slot(rows(9), PILES, DAY, "a-v1")

    assert lake.read(PILES, [DAY])["n"].to_list() == [9, 3]
    assert lake.partitions(PILES) == [DAY, NEXT_DAY]
    assert [part.slot for part in lake.parts(PILES, [DAY])] == ["a-v1", "b-v1"]
    assert Path(lake.place(PILES, DAY)) == folder_of(lake, PILES, DAY)


def test_rows_are_selected_from_all_partitions(lake: Lake) -> None:
    lake.write(rows(1, 2, 3), NUMBERS, DAY)
    lake.write(rows(2, 5), NUMBERS, NEXT_DAY)

    assert lake.select(NUMBERS, pl.col("n") > 1, pl.col("word") != "3")["n"].to_list() == [2, 2, 5]
    assert lake.select(NUMBERS, pl.col("n") > 9).schema == NUMBERS.schema


def test_a_table_without_partitions_is_one_file(lake: Lake) -> None:
    lake.write(rows(1), NUMBERS, None)
    path = Path(lake.write(rows(2), NUMBERS, None))

    assert path.parent == root_of(lake) / "numbers"
    assert Path(lake.place(NUMBERS, None)) == path
    assert lake.read_whole(NUMBERS)["n"].to_list() == [2]
    assert lake.partitions(NUMBERS) == []
