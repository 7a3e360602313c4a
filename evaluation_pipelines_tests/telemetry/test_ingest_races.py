"""Ingest with concurrent changes, injected between two of its steps."""

import json
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from threading import Thread
from typing import BinaryIO

import polars as pl

from evaluation_pipelines.progress import Silent
from evaluation_pipelines.schemas import Table
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.landing import Landing, LandingFile, SkippedFile
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import INGEST, held
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.telemetry.ingest import Ingest, IngestReport
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line

FIRST_OF_JUNE = date(2026, 6, 1)
REPLACED = (
    "cannot be read: it was emptied or replaced while it was read. "
    "The next run reads it from the start"
)

Callback = Callable[[], object]


class CallbackLanding(Landing):
    """Landing folder that calls back before a file is opened again."""

    def __init__(self, root: Path, opened_again: Callback) -> None:
        super().__init__(root)
        self._opened_again = opened_again
        self._opened = False

    def open(self, file: LandingFile) -> BinaryIO:
        """Open a file; call back first, except the first time."""
        if self._opened:
            self._opened_again()
        self._opened = True
        return super().open(file)


class CallbackLake(Lake):
    """Lake that calls back before a part of the first of June is written."""

    def __init__(self, workplace: Workplace, writing: Callback) -> None:
        super().__init__(workplace.lake.store, Manifest(workplace.ledger))
        self._writing = writing

    def write_part(
        self, frame: pl.DataFrame, table: Table, session_date: date | None, name: str
    ) -> NewPart:
        """Call back, then write the part."""
        if session_date == FIRST_OF_JUNE:
            self._writing()
        return super().write_part(frame, table, session_date, name)


class CallbackProgress(Silent):
    """Progress that calls back after each committed batch."""

    def __init__(self, committed: Callback) -> None:
        self._committed = committed

    def advance(self, units: int) -> None:
        """Call back."""
        self._committed()


def prompts(*numbers: int) -> bytes:
    """Return one line per prompt; numbers from 10 to 99 have lines of equal length."""
    return b"".join(line(claude("user_prompt", n, n=n)) for n in numbers)


def landed(workplace: Workplace) -> list[int]:
    return [json.loads(text)["n"] for text in workplace.landed()["attributes"]]


def test_a_file_truncated_after_it_was_listed_is_read_by_the_next_run(
    workplace: Workplace,
) -> None:
    workplace.land("logs.jsonl", prompts(10, 11))
    workplace.ingest()
    workplace.land("logs.jsonl", prompts(12), "ab")
    landing = CallbackLanding(
        workplace.landing.root,
        # Longer than the bytes read: only its head differs.
        opened_again=lambda: workplace.land("logs.jsonl", prompts(20, 21, 22, 23)),
    )
    report = Ingest(replace(workplace.stores, landing=landing), lambda: NOW).run()
    assert report.skipped == [SkippedFile("logs.jsonl", REPLACED)]
    assert landed(workplace) == [10, 11]
    assert workplace.ingest().counts.quarantined == 0
    assert landed(workplace) == [10, 11, 20, 21, 22, 23]


def test_a_file_truncated_between_two_batches_is_read_by_the_next_run(
    tmp_path: Path,
) -> None:
    with open_workplace(tmp_path, batch_bytes=1) as workplace:
        workplace.land("logs.jsonl", prompts(10, 11))
        progress = CallbackProgress(lambda: workplace.land("logs.jsonl", prompts(20, 21, 22, 23)))
        report = Ingest(workplace.stores, lambda: NOW).run(progress)
        assert report.skipped == [SkippedFile("logs.jsonl", REPLACED)]
        assert landed(workplace) == [10]
        workplace.ingest()
        assert landed(workplace) == [10, 20, 21, 22, 23]


def test_parts_that_were_swept_while_the_machine_slept_are_written_again(
    workplace: Workplace,
) -> None:
    now, written = [NOW], list[Path]()

    def sleep_once() -> None:
        """Have another machine delete the first of the parts, which no manifest names."""
        if not written:
            written.extend(workplace.stores.settings.data_dir.rglob("*.parquet"))
            if written:
                written[0].unlink()
                now[0] += timedelta(hours=2)

    workplace.land("logs.jsonl", line(claude("user_prompt", prompt="hello")))
    lake = CallbackLake(workplace, sleep_once)
    report = Ingest(replace(workplace.stores, lake=lake), lambda: now[0]).run()
    assert (len(written), report.counts.events) == (1, 1)
    assert workplace.landed()["event_name"].to_list() == ["user_prompt"]


def test_two_ingests_at_once_read_every_line_once(tmp_path: Path) -> None:
    """The second one waits, and looks at the files when the first one is done."""
    with open_workplace(tmp_path, batch_bytes=1) as first, open_workplace(tmp_path) as second:
        first.land("logs.jsonl", prompts(*range(10, 30)))
        reports: list[IngestReport] = []
        waiting = Thread(target=lambda: reports.append(second.ingest()))

        def more() -> None:
            if waiting.ident is None:
                first.land("more.jsonl", prompts(*range(30, 40)))
                waiting.start()

        read = Ingest(first.stores, lambda: NOW).run(CallbackProgress(more))
        waiting.join()
        assert (read.counts.events, read.busy) == (20, None)
        assert [(report.counts.events, report.busy) for report in reports] == [(10, None)]
        assert sorted(landed(first)) == list(range(10, 40))


def test_an_ingest_that_waits_in_vain_names_the_other_and_reads_nothing(tmp_path: Path) -> None:
    with open_workplace(tmp_path, lock_timeout_seconds=1) as workplace:
        workplace.land("logs.jsonl", prompts(10))
        with held(workplace.ledger, INGEST):
            report = workplace.ingest()
        other = f"process {os.getpid()} on {socket.gethostname()}"
        assert f"the lock ingest within 1 s: {other} holds it" in (report.busy or "")
        assert report.files == 0
        assert workplace.ingest().files == 1
