"""Damaged parts: what the commands say, and how they are made good."""

import json
import os
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from evaluation_pipelines_tests.program import Program


def part_of(program: Program, table: str, day: str = "2026-06-02") -> Path:
    (path,) = (program.folder / "data/lake" / table / f"session_date={day}").glob("*.parquet")
    return path


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def damage_as_a_disk_does(path: Path) -> None:
    """Damage a file whose time of change stays: only its content tells."""
    written = path.stat()
    damage(path)
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))


def test_a_damaged_landed_part_is_named_and_read_again(three_days: Program) -> None:
    path = part_of(three_days, "agent_events_landed")
    damage(path)
    built = three_days("build")
    assert built.code == 4
    assert "2026-06-02: agent_events was not built" in built.err
    assert f"{path.name} is damaged" in built.err
    assert "evaluation-pipelines ingest --again --date 2026-06-02" in built.err
    assert f"{path.name} is damaged" in three_days("status").out

    again = three_days("ingest", "--again", "--date", "2026-06-02")
    assert again.code == 0
    assert again.out.startswith("read again: agent_events_landed/session_date=2026-06-02/")
    assert three_days("build").code == 0
    status = three_days("status").out.replace(str(three_days.folder), "")  # named like the test
    assert "damaged" not in status
    sessions = three_days("sessions", "--format", "json")
    assert sessions.out.count('"session_key"') == 3
    nothing = three_days("ingest", "--again")
    assert (nothing.code, nothing.err) == (0, "")
    assert nothing.out == "ingest --again: all landed parts are as they were written\n"


def test_a_part_that_cannot_be_read_again_is_an_error(three_days: Program) -> None:
    damage(part_of(three_days, "agent_events_landed"))
    (three_days.folder / "data/landing/logs.jsonl").unlink()
    result = three_days("ingest", "--again")
    assert result.code == 1
    assert "not read again: " in result.err
    assert "logs.jsonl: the file is no longer in the landing folder" in result.err


@pytest.mark.parametrize("table", ["agent_events_landed", "agent_sessions"])
def test_status_finds_damage_that_no_command_has_met(built_days: Program, table: str) -> None:
    def shows_damage(*options: str) -> bool:
        status = built_days("status", *options).out
        states = re.findall(r"^(2026-\d\d-\d\d) +(\w+)", status, re.MULTILINE)
        damaged = [day for day, state in states if state == "damaged"]
        assert damaged in ([], ["2026-06-02"])
        if damaged:
            assert re.search(rf"^failed: .*{path.name} is damaged: ", status, re.MULTILINE)
            command = "ingest --again" if table == "agent_events_landed" else "build --damaged"
            assert f"evaluation-pipelines {command}" in status
        return bool(damaged)

    path = part_of(built_days, table)
    sound = path.read_bytes()
    assert built_days("status", "--verify").code == 0
    damage_as_a_disk_does(path)
    assert not shows_damage()  # which reads no part without a later change
    assert shows_damage("--verify")
    for form in ("table", "json"):
        assert built_days("status", "--verify", "--format", form).code == 1
    path.write_bytes(sound)
    damage(path)  # with a new time of change
    assert shows_damage()

    path.unlink()
    status = built_days("status").out
    assert f"{path.name} is missing\n" in status
    (listed,) = json.loads(built_days("status", "--format", "json").out)["damaged"]
    assert (Path(listed["path"]).name, listed["what"]) == (path.name, "missing")
    assert re.search(r"^2026-06-02 +damaged ", status, re.MULTILINE)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("row_count = row_count + 2", r"parts, row \d+: \d+ rows and \d+ bytes, its file has"),
        ("session_date = '2026-06-03'", r"parts, row \d+: its date 2026-06-03 is not that of its"),
        ("size_bytes = size_bytes + 64", r"parts, row \d+: \d+ rows and \d+ bytes, its file has"),
    ],
)
def test_a_changed_value_of_the_manifest_is_found(
    built_days: Program, change: str, fault: str
) -> None:
    with sqlite3.connect(built_days.folder / "data/ledger.db") as ledger:
        ledger.execute(
            f"update parts set {change} where table_name = 'agent_sessions' "  # noqa: S608 (a table of cases)
            "and session_date = '2026-06-02' and superseded_at is null"
        )
    ran = built_days("status", "--verify")
    assert ran.code == 1
    assert re.search(f"^the ledger is damaged: {fault}", ran.out, re.MULTILINE)
    assert "Restore the ledger and the lake from a backup." in ran.out


def test_bytes_that_were_read_twice_are_found(built_days: Program) -> None:
    with sqlite3.connect(built_days.folder / "data/ledger.db") as ledger:
        (first, after) = ledger.execute(
            "select from_offset, to_offset from ingest_batches"
        ).fetchone()
        ledger.execute("pragma foreign_keys = off")
        columns = ", ".join(
            name
            for _, name, *_ in ledger.execute("pragma table_info(ingest_batches)")
            if name != "from_offset"
        )
        ledger.execute(
            f"insert into ingest_batches ({columns}, from_offset) "  # noqa: S608 (its own columns)
            f"select {columns}, from_offset + 1 from ingest_batches limit 1"
        )
    ran = built_days("status", "--verify", "--format", "json")
    assert (ran.code, f"bytes {first + 1} to {after} follow byte {after}" in ran.out) == (1, True)


def test_a_damaged_part_of_a_restored_folder_is_read_again(built_days: Program) -> None:
    """As the manual restores it: ledger and lake from a backup, the landing folder with them."""
    data, backup = built_days.folder / "data", built_days.folder / "backup"
    shutil.copytree(data, backup)
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    path = part_of(built_days, "agent_events_landed")
    damage(path)
    assert built_days("ingest").code == 0  # the files have other inodes: it reads them again
    assert built_days("build").code == 4
    again = built_days("ingest", "--again")
    assert (again.code, again.err) == (0, "")
    assert built_days("build").code == 0
    assert "damaged" not in built_days("status", "--verify").out
    assert built_days("sessions", "--format", "json").out.count('"session_key"') == 3


def test_damaged_tables_are_built_again_by_one_command(built_days: Program) -> None:
    damaged, deleted = (part_of(built_days, table) for table in ("agent_events", "scorecards"))
    damage(damaged)
    deleted.unlink()
    result = built_days("build", "--damaged")
    assert result.code == 0
    assert damaged.name in result.out
    assert deleted.name in result.out
    assert [row[0] for row in result.table()] == ["2026-06-02"]
    assert built_days("build", "--damaged").out == "build: nothing new\n"
