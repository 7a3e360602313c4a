"""Several processes that decode one file have the same result as one process."""

import json
import re
from dataclasses import replace
from datetime import datetime
from itertools import chain, repeat
from multiprocessing import resource_tracker, spawn
from pathlib import Path
from socket import gethostname
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.engine import EngineError
from evaluation_pipelines.storage.landing import read_head
from evaluation_pipelines.storage.raw_lines import cut_at_lines
from evaluation_pipelines.telemetry import reading
from evaluation_pipelines.telemetry.domain.reader import EventBatch
from evaluation_pipelines.telemetry.ingest import Ingest, IngestReport
from evaluation_pipelines.telemetry.reading import (
    ByteRange,
    DecodeRequest,
    LandingPlace,
    NotRead,
    decode_byte_range,
)
from evaluation_pipelines_tests.workplace import NOW, open_workplace
from evaluation_pipelines_tests.world import DAY_S, SESSION, claude, line

SMALL: dict[str, Any] = {"batch_bytes": 6_000, "parallel_from_bytes": 1}
"""Byte ranges of about ten lines."""


def telemetry() -> bytes:
    """Return interleaved lines of ten sessions over ten days, mixed with other kinds of lines."""
    masque = {"session_id": SESSION, "masque": "Codesmith", "donned_at": "2026-06-01T12:00:00Z"}
    others = [b"\xff not readable\n", b'{"resourceMetrics": []}\n', b"\n"]
    others.append(json.dumps(masque).encode() + b"\n")
    lines = [
        line(claude("user_prompt", n * DAY_S / 20, session__id=f"s{n % 10}", x="y" * 200))
        + others[n % 4]
        for n in range(200)
    ]
    return b"".join(lines) + line(claude("user_prompt")).rstrip(
        b"\n"
    )  # complete, without its newline


def ingested(folder: Path, **settings: Any) -> tuple[IngestReport, pl.DataFrame, pl.DataFrame]:
    """Return the report of an ingest, its events and its quarantine."""
    with open_workplace(folder, **SMALL, **settings) as workplace:
        workplace.land("logs.jsonl", telemetry())
        report = workplace.ingest()
        return report, workplace.landed().drop("source_file_id"), workplace.quarantined()


def test_several_processes_store_what_one_stores(tmp_path: Path) -> None:
    one, events, quarantined = ingested(tmp_path / "one", ingest_processes=1)
    several, same, refused = ingested(tmp_path / "several", ingest_processes=3)
    assert one.counts.events == 251  # 200 prompts, 50 donned masques, and the last line
    assert (several.counts, several.dates) == (one.counts, one.dates)
    assert several.skipped == []
    assert same.equals(events)
    assert refused.drop("file_id").equals(quarantined.drop("file_id"))


def test_workers_that_end_at_once_are_a_clear_error_and_the_next_ingest_reads_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, events, _ = ingested(tmp_path / "one", ingest_processes=1)
    with open_workplace(tmp_path / "other", **SMALL, ingest_processes=2) as workplace:
        workplace.land("logs.jsonl", telemetry())
        resource_tracker.ensure_running()  # of the program, not one that is patched, too
        with monkeypatch.context() as patched:
            patched.setattr(spawn, "_python_exe", b"/bin/false")
            with pytest.raises(EngineError, match="killed during decode_byte_range, and so"):
                workplace.ingest()
        report = workplace.ingest()
        assert (report.skipped, report.busy) == ([], None)
        assert workplace.landed().drop("source_file_id").equals(events)


def test_a_file_renamed_during_the_ingest_is_read_to_its_end(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **SMALL, ingest_processes=2) as workplace:
        path = workplace.land("logs.jsonl", telemetry())

        def clock() -> datetime:
            if path.exists() and any(tmp_path.rglob("*.parquet")):
                path.rename(path.with_name("logs.1.jsonl"))
            return NOW

        report = Ingest(workplace.stores, clock).run()
        assert not path.exists()
        assert (report.counts.events, report.skipped) == (251, [])
        assert workplace.landed().height == 251


def test_another_machine_knows_a_file_by_inode_and_first_bytes(tmp_path: Path) -> None:
    """The number of a device, for example of NFS, differs between machines."""
    with open_workplace(tmp_path) as workplace:
        path = workplace.land("logs.jsonl", telemetry())
        (file,), _ = workplace.landing.list_files()
        mounted = replace(file, device=file.device + 1)
        with path.open("rb") as handle:
            (_, end), *_ = cut_at_lines(handle, 0, 6_000)
            head = read_head(handle)
        asked = DecodeRequest(mounted, "f", ByteRange(0, end), NOW)
        here = LandingPlace(tmp_path / "landing", workplace.settings, gethostname(), head)
        elsewhere = replace(here, host="driver")
        assert isinstance(decode_byte_range(here, asked), NotRead)
        assert isinstance(decode_byte_range(elsewhere, asked), EventBatch)
        other = replace(asked, file=replace(file, inode=file.inode + 1))
        path.write_bytes(b" " + telemetry())
        for request in (asked, other):
            found = decode_byte_range(elsewhere, request)
            assert isinstance(found, NotRead)
            assert found.reason == "logs.jsonl is another file here than where it was listed"


def test_what_nodes_cannot_read_is_read_by_the_ingest_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hosts = chain(["driver"], repeat("node"))
    monkeypatch.setattr(reading, "gethostname", lambda: next(hosts))
    with open_workplace(tmp_path, **SMALL, ingest_processes=1) as workplace:
        path = workplace.land("logs.jsonl", telemetry())

        def clock() -> datetime:
            if path.exists() and any(tmp_path.rglob("*.parquet")):
                path.rename(path.with_name("logs.1.jsonl"))
            return NOW

        assert Ingest(workplace.stores, clock).run().counts.events == 251
    (said,) = caplog.messages
    assert re.match(r"\d+ byte ranges of logs.jsonl were decoded by the ingest alone", said)
    assert "the first on node: [Errno 2] No such file" in said
    assert said.endswith(f"All nodes need the same files under {tmp_path / 'landing'}.")


def test_a_file_is_cut_only_after_newlines(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"aaaa\nbb\n\n" + b"c" * 100_000 + b"\nd")
    with path.open("rb") as handle:
        # The newline at 4 is the first after 0 + 3, the one at 8 after 5 + 3; the long line ends
        # at 100,009. The last letter has no newline and is in no range.
        assert list(cut_at_lines(handle, 0, 3)) == [(0, 5), (5, 9), (9, 100_010)]
        assert list(cut_at_lines(handle, 5, 10)) == [(5, 100_010)]
        assert list(cut_at_lines(handle, 100_010, 1)) == []
