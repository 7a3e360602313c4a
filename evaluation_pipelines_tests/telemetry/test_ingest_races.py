"""Ingest with concurrent changes, injected between two of its steps."""

import json
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import BinaryIO

import polars as pl

from evaluation_pipelines.progress import Silent
from evaluation_pipelines.schemas import Table
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.landing import Landing, LandingFile, SkippedFile
from evaluation_pipelines.storage.lease_owner import new_owner
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.ledger.source_files import SourceFiles
from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

FIRST_OF_JUNE, SECOND_OF_JUNE = date(2026, 6, 1), date(2026, 6, 2)
DAY_S = 86_400
REPLACED = (
    "cannot be read: it was emptied or replaced while it was read; "
    "the next run reads it from the beginning"
)

Callback = Callable[[], object]


class CallbackLanding(Landing):
    """Landing folder that calls back after it is listed, and before a file is opened again."""

    def __init__(
        self, root: Path, listed: Callback = lambda: None, opened_again: Callback = lambda: None
    ) -> None:
        super().__init__(root)
        self._listed, self._opened_again = listed, opened_again
        self._opened = False

    def list_files(
        self, known: Collection[tuple[int, int]] = ()
    ) -> tuple[list[LandingFile], list[SkippedFile]]:
        """List the files, then call back."""
        found = super().list_files(known)
        self._listed()
        return found

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
    """Return the numbers of all landed events."""
    return [json.loads(text)["n"] for text in workplace.landed()["attributes"]]


def test_a_file_that_another_ingest_read_after_it_was_listed_is_not_read_again(
    workplace: Workplace,
) -> None:
    def another_ingest() -> None:
        workplace.land("logs.jsonl", prompts(11, 12), "ab")
        workplace.ingest()

    workplace.land("logs.jsonl", prompts(10))
    workplace.ingest()
    landing = CallbackLanding(workplace.landing.root, listed=another_ingest)
    report = Ingest(replace(workplace.stores, landing=landing), lambda: NOW).run()
    assert (report.files, report.busy, report.skipped) == (0, [], [])
    assert landed(workplace) == [10, 11, 12]
    assert len(SourceFiles(workplace.ledger).all()) == 1


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


def test_sessions_that_another_ingest_dates_concurrently_stay_in_one_partition(
    workplace: Workplace,
) -> None:
    """The batch is dated again for each of them."""
    sessions = [f"s{n}" for n in range(5)]
    remaining = iter(sessions)

    def another_ingest() -> None:
        if session := next(remaining, None):
            event = claude("user_prompt", DAY_S, session__id=session)
            workplace.land(f"other-{session}.jsonl", line(event))
            workplace.ingest()

    workplace.land("logs.jsonl", line(*(claude("user_prompt", session__id=s) for s in sessions)))
    lake = CallbackLake(workplace, another_ingest)
    report = Ingest(replace(workplace.stores, lake=lake), lambda: NOW).run()
    assert report.counts.events == 5
    assert report.dates == {SECOND_OF_JUNE}
    assert workplace.landed()["session_date"].to_list() == [SECOND_OF_JUNE] * 10


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


def test_a_file_whose_reader_was_killed_is_read_before_its_lease_expires(
    workplace: Workplace,
) -> None:
    program = "from evaluation_pipelines.storage.lease_owner import new_owner; print(new_owner())"
    killed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()
    alive = new_owner()
    workplace.land("logs.jsonl", prompts(10))
    workplace.ingest()
    workplace.land("logs.jsonl", prompts(11), "ab")
    (file,) = SourceFiles(workplace.ledger).all()
    for owner, busy in ((alive, ["logs.jsonl"]), (killed, [])):
        epoch = SourceFiles(workplace.ledger).acquire_lease(file.file_id, owner, 600, NOW)
        assert epoch is not None
        assert workplace.ingest().busy == busy
        SourceFiles(workplace.ledger).release_lease(file.file_id, owner, epoch)
    assert landed(workplace) == [10, 11]
