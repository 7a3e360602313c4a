"""Ingest when something happens between two of its steps: made to happen exactly there."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import BinaryIO

import polars as pl

from evaluation_pipelines.progress import Silent
from evaluation_pipelines.schemas import Table
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.landing import Landing, LandingFile, SkippedFile
from evaluation_pipelines.storage.lease_owner import new_owner
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.ledger.source_files import SourceFiles
from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

FIRST_OF_JUNE, SECOND_OF_JUNE = date(2026, 6, 1), date(2026, 6, 2)
DAY_S = 86_400
REPLACED = "cannot be read: it was emptied or replaced while it was read; the next run begins it"

Event = Callable[[], object]


class WatchedLanding(Landing):
    """Lets something happen when it was listed, and before a file is opened once again."""

    def __init__(
        self, root: Path, listed: Event = lambda: None, opened_again: Event = lambda: None
    ) -> None:
        super().__init__(root)
        self._listed, self._opened_again = listed, opened_again
        self._opened = False

    def list_files(self) -> tuple[list[LandingFile], list[SkippedFile]]:
        """As ever, and then it happens."""
        found = super().list_files()
        self._listed()
        return found

    def open(self, file: LandingFile) -> BinaryIO:
        """As ever; the second and later times it happens first."""
        if self._opened:
            self._opened_again()
        self._opened = True
        return super().open(file)


class WatchedLake(Lake):
    """Lets something happen before a part of the first of June is written."""

    def __init__(self, root: Path, writing: Event) -> None:
        super().__init__(root)
        self._writing = writing

    def write_part(
        self, frame: pl.DataFrame, table: Table, session_date: date | None, name: str
    ) -> tuple[str, int]:
        """As ever, after it happened."""
        if session_date == FIRST_OF_JUNE:
            self._writing()
        return super().write_part(frame, table, session_date, name)


class WatchedProgress(Silent):
    """Lets something happen when a batch was committed."""

    def __init__(self, committed: Event) -> None:
        self._committed = committed

    def advance(self, units: int) -> None:
        """A batch was committed."""
        self._committed()


def prompts(*numbers: int) -> bytes:
    """One line a prompt; numbers from 10 on give lines of the same length."""
    return b"".join(line(claude("user_prompt", n, n=n)) for n in numbers)


def landed(workplace: Workplace) -> list[int]:
    """The numbers of all landed events."""
    return [json.loads(text)["n"] for text in workplace.landed()["attributes"]]


def test_a_file_that_another_ingest_read_on_since_it_was_listed_is_not_begun_again(
    workplace: Workplace,
) -> None:
    def another_ingest() -> None:
        workplace.land("logs.jsonl", prompts(11, 12), "ab")
        workplace.ingest()

    workplace.land("logs.jsonl", prompts(10))
    workplace.ingest()
    landing = WatchedLanding(workplace.landing.root, listed=another_ingest)
    report = Ingest(replace(workplace.stores, landing=landing), lambda: NOW).run()
    assert (report.files, report.busy, report.passed_over) == (0, [], [])
    assert landed(workplace) == [10, 11, 12]
    assert len(SourceFiles(workplace.ledger).all()) == 1


def test_a_file_that_is_emptied_after_it_was_looked_at_is_left_to_the_next_run(
    workplace: Workplace,
) -> None:
    workplace.land("logs.jsonl", prompts(10, 11))
    workplace.ingest()
    workplace.land("logs.jsonl", prompts(12), "ab")
    landing = WatchedLanding(
        workplace.landing.root,
        # Longer than what was read: only its beginning tells that it is another file.
        opened_again=lambda: workplace.land("logs.jsonl", prompts(20, 21, 22, 23)),
    )
    report = Ingest(replace(workplace.stores, landing=landing), lambda: NOW).run()
    assert report.passed_over == [SkippedFile("logs.jsonl", REPLACED)]
    assert landed(workplace) == [10, 11]
    assert workplace.ingest().counts.quarantined == 0
    assert landed(workplace) == [10, 11, 20, 21, 22, 23]


def test_a_file_that_is_emptied_between_two_batches_is_left_to_the_next_run(
    tmp_path: Path,
) -> None:
    with open_workplace(tmp_path, batch_bytes=1) as workplace:
        workplace.land("logs.jsonl", prompts(10, 11))
        progress = WatchedProgress(lambda: workplace.land("logs.jsonl", prompts(20, 21, 22, 23)))
        report = Ingest(workplace.stores, lambda: NOW).run(progress)
        assert report.passed_over == [SkippedFile("logs.jsonl", REPLACED)]
        assert landed(workplace) == [10]
        workplace.ingest()
        assert landed(workplace) == [10, 20, 21, 22, 23]


def test_sessions_that_another_ingest_files_one_by_one_meanwhile_stay_in_one_partition(
    workplace: Workplace,
) -> None:
    """However many times a batch has to be filed again."""
    sessions = [f"s{n}" for n in range(5)]
    waiting = iter(sessions)

    def another_ingest() -> None:
        if session := next(waiting, None):
            event = claude("user_prompt", DAY_S, session__id=session)
            workplace.land(f"other-{session}.jsonl", line(event))
            workplace.ingest()

    workplace.land("logs.jsonl", line(*(claude("user_prompt", session__id=s) for s in sessions)))
    lake = WatchedLake(workplace.lake.root, another_ingest)
    report = Ingest(replace(workplace.stores, lake=lake), lambda: NOW).run()
    assert report.counts.events == 5
    assert report.dates == {SECOND_OF_JUNE}
    assert workplace.landed()["session_date"].to_list() == [SECOND_OF_JUNE] * 10


def test_a_file_whose_reader_was_killed_is_read_at_once_and_not_when_its_lease_ends(
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
