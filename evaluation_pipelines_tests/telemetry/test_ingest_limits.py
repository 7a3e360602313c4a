"""Ingest at its limits: memory, sizes, number of files, permissions, and bad lines."""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines_tests.telemetry.collector import FIRST_DAY_S
from evaluation_pipelines_tests.telemetry.limited import (
    can_drop_root_permissions,
    ingest_with_little_memory,
    program_without_rights,
)
from evaluation_pipelines_tests.workplace import Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line

pytestmark = pytest.mark.slow  # large files, thousands of small ones, separate processes
MIB = 1024 * 1024

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="only Linux has this file"
)


def good(number: int, **values: object) -> bytes:
    return line(claude("user_prompt", FIRST_DAY_S + number, n=number, **values))


def numbers(workplace: Workplace) -> list[int]:
    return sorted(json.loads(text)["n"] for text in workplace.landed()["attributes"])


# -- bad lines -------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_in_utf_16_is_one_entry(workplace: Workplace, encoding: str) -> None:
    text = json.dumps(json.loads(good(0)), indent=2) + "\n"
    workplace.land("logs.jsonl", ("\ufeff" + text).encode(encoding)[:-1])
    workplace.ingest()
    workplace.land(
        "logs.jsonl", (text + "\n" + text).encode(encoding)[-50:] + b"\n" + good(1), "ab"
    )
    workplace.ingest()
    assert [reason[:6] for reason in workplace.quarantined()["reason"]] == ["UTF-16"]
    assert numbers(workplace) == [1]  # another program writes UTF-8


# -- sizes -----------------------------------------------------------------------------------------


@needs_proc
@pytest.mark.parametrize(
    ("line_bytes", "limit_bytes"),
    [(150 * MIB, 100 * MIB), (1024 * MIB, 400 * MIB)],
)
def test_a_line_larger_than_the_memory_is_quarantined_and_the_others_are_read(
    tmp_path: Path, line_bytes: int, limit_bytes: int
) -> None:
    with open_workplace(tmp_path) as workplace:
        workplace.land("small.jsonl", good(0))
        with (workplace.landing.root / ".large").open("wb") as file:
            file.write(good(1))
            file.seek(line_bytes, os.SEEK_CUR)  # a hole: zeros without disk space
            file.write(b"\n" + good(2))
        settings = {"max_line_bytes": 8 * MIB}
        ended = ingest_with_little_memory(tmp_path, limit_bytes, **settings)
        assert (ended.code, ended.err) == (0, "")
        assert numbers(workplace) == [0, 1, 2]
        (length,) = workplace.quarantined()["length_bytes"]
        assert length == line_bytes


@needs_proc
def test_a_file_larger_than_the_memory_is_read_in_pieces(tmp_path: Path) -> None:
    content = b"".join(good(number, text="x" * 500) for number in range(2_000))
    times, extra = 330, 400 * MIB
    with open_workplace(tmp_path) as workplace:
        workplace.land("small.jsonl", good(0))
        with (workplace.landing.root / ".large").open("wb") as file:
            for _ in range(times):
                file.write(content)
            assert file.tell() > 1.5 * extra
        ended = ingest_with_little_memory(tmp_path, extra)
        assert (ended.code, ended.err) == (0, "")
        assert IngestBatches(workplace.ledger).totals().events == 1 + times * 2_000
        assert IngestBatches(workplace.ledger).totals().quarantined == 0


@pytest.mark.parametrize("files", [40, 2_000])
def test_thousands_of_small_files_are_each_read_once(tmp_path: Path, files: int) -> None:
    with open_workplace(tmp_path) as workplace:
        for number in range(files):
            workplace.land(f"{number % 50}/{number}.jsonl", good(number, session__id=f"{number}"))
        report = Ingest(workplace.stores).run()
        assert (report.files, report.counts.events) == (files, files)
        assert Ingest(workplace.stores).run().files == 0
        workplace.land("0/0.jsonl", good(files), "ab")
        assert Ingest(workplace.stores).run().files == 1
        assert numbers(workplace) == list(range(files + 1))
        workplace.build()  # compacts the parts
        assert workplace.events().height == files + 1
        (date,) = Manifest(workplace.ledger).dates("agent_events_landed")
        # Files of up to 8 MB together are merged at a time; each has a few kB that are not rows.
        assert date.parts <= 1 + files // 500


# -- rights ----------------------------------------------------------------------------------------


@contextmanager
def read_only(*paths: Path) -> Iterator[None]:
    """Make folders read-only during the block."""
    before = [(path, path.stat().st_mode) for path in paths]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path, mode in before:
            path.chmod(mode)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data folder with one read and two unread lines, if permissions can be dropped."""
    if not sys.platform.startswith("linux") or not can_drop_root_permissions(tmp_path):
        pytest.skip("root cannot drop its permissions on this machine")
    folder = tmp_path / "data"
    land(folder, "logs.jsonl", good(1))
    assert program_without_rights(folder, "ingest").code == 0
    land(folder, "logs.jsonl", good(2) + good(3, session__id="another"))
    return folder


def land(data: Path, name: str, content: bytes) -> Path:
    """Append to a landing file; return its path."""
    path = data / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(content)
    return path


def stored(data: Path) -> list[int]:
    """Return the numbers of all landed events; the ledger is closed before and after."""
    with open_workplace(data) as workplace:
        return numbers(workplace)


def test_a_read_only_landing_folder_can_be_read(data: Path) -> None:
    with read_only(data / "landing", data / "landing/logs.jsonl"):
        ended = program_without_rights(data, "ingest")
    assert (ended.code, ended.err) == (0, "")
    assert stored(data) == [1, 2, 3]


@pytest.mark.parametrize(
    ("locked", "complaint"),
    [
        ("lake/agent_events_landed", "error: cannot write .*Check space and permissions"),
        ("lake/_tmp", "error: cannot write .*Check space and permissions"),
        ("ledger.db", "error: The ledger .*Check the permissions"),
        (".", "error: The ledger .*Check the permissions of the file and of its folder"),
    ],
)
def test_an_unwritable_folder_is_a_clear_error_and_the_next_run_continues(
    data: Path, locked: str, complaint: str
) -> None:
    folder = data / locked
    with read_only(folder, *(path for path in folder.glob("session_date=*"))):
        ended = program_without_rights(data, "ingest")
    assert ended.code == 1
    assert re.fullmatch(f"{complaint}.*\n", ended.err), ended.err
    assert stored(data) == [1]

    assert program_without_rights(data, "ingest").code == 0
    assert stored(data) == [1, 2, 3]


def test_an_unreadable_file_is_reported_and_the_others_are_read(data: Path) -> None:
    secret = land(data, "secret.jsonl", good(4))
    secret.chmod(0)
    ended = program_without_rights(data, "ingest")
    assert ended.code == 0
    assert ended.err.startswith("warning: not read: secret.jsonl: cannot be read: ")
    assert stored(data) == [1, 2, 3]
    secret.chmod(0o600)
    assert program_without_rights(data, "ingest").code == 0
    assert stored(data) == [1, 2, 3, 4]
