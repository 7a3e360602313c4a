"""An erasure and an expiry while other processes read telemetry and build dates."""

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.erasure.selection import NotForgottenError
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, MASQUE_LIFT
from evaluation_pipelines.storage.lock import BUILD, ERASE, REPUTATION, held
from evaluation_pipelines_tests.erasure.two_people import (
    EMAIL,
    TRACES,
    fill_fresh,
    found,
    of_ada,
    of_ben,
)
from evaluation_pipelines_tests.program import SCRIPT
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, NOON_NS

SHARED, OF_BEN = date(2026, 6, 1), date(2026, 6, 2)


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    """Sessions of both on one day, and one of Ben alone on the next."""
    with open_workplace(tmp_path, lock_timeout_seconds=1) as opened:
        fill_fresh(opened, of_ada() + of_ben() + of_ben("sess-of-ben-2", DAY_S))
        yield opened


def forget(workplace: Workplace) -> None:
    Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW).run(
        Subject("person", EMAIL)
    )


@contextmanager
def building(workplace: Workplace, day: date) -> Iterator[None]:
    """Hold the lock of a build, as a process that is building a date."""
    with held(workplace.ledger, f"{BUILD}{day}"):
        yield


def test_what_has_landed_stays_as_it_is_while_its_date_is_being_built(workplace: Workplace) -> None:
    with building(workplace, SHARED), pytest.raises(NotForgottenError, match="is being built"):
        forget(workplace)
    # The books of that build compare its 8 events with these.
    assert workplace.lake.read(AGENT_EVENTS_LANDED, [SHARED]).height == 8
    forget(workplace)
    assert workplace.lake.read(AGENT_EVENTS_LANDED, [SHARED]).height == 4
    assert found(workplace.landing.root.parent) == {}


def test_files_of_before_are_there_until_builds_that_read_them_have_ended(
    workplace: Workplace,
) -> None:
    read = [part.path for part in workplace.lake.parts(AGENT_EVENTS_LANDED, [SHARED])]
    with building(workplace, OF_BEN), pytest.raises(NotForgottenError, match="is being built"):
        forget(workplace)
    assert all(workplace.lake.store.exists(path) for path in read)
    forget(workplace)
    assert not any(workplace.lake.store.exists(path) for path in read)


def test_files_of_many_sessions_that_others_are_about_to_name_stay(workplace: Workplace) -> None:
    made = workplace.lake.write_part(MASQUE_LIFT.no_rows, MASQUE_LIFT, None, "just-written")
    of_ada = workplace.lake.read(AGENT_EVENTS_LANDED, [SHARED])
    left = workplace.lake.write_part(of_ada, AGENT_EVENTS_LANDED, SHARED, "of-a-kill")
    forget(workplace)
    assert workplace.lake.store.exists(made.path)
    assert not workplace.lake.store.exists(left.path)


def test_what_is_not_done_is_said_when_another_process_has_a_lock(workplace: Workplace) -> None:
    with (
        held(workplace.ledger, ERASE),
        pytest.raises(NotForgottenError, match=r"^Another erasure is running: Could not "),
    ):
        forget(workplace)
    (workplace.settings.data_dir / "clickhouse").mkdir()  # as if there were reputation
    message = r"^The erasure is not complete: .* lock reputation .* Run this again\.$"
    with held(workplace.ledger, REPUTATION), pytest.raises(NotForgottenError, match=message):
        forget(workplace)


class Processes:
    """The program in processes of its own, over one data folder."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self._environment = {**os.environ, "EVAL_DATA_DIR": str(folder), **settings}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command once."""
        return subprocess.run(
            [str(SCRIPT), *arguments],
            env=self._environment,
            cwd=self.folder.parent,
            capture_output=True,
            text=True,
            check=False,
        )

    def until(self, ended: Event, *arguments: str) -> list[subprocess.CompletedProcess[str]]:
        """Run a command again and again until ``ended`` is set."""
        runs = []
        while not ended.is_set():
            runs.append(self.run(*arguments))
        return runs

    def balanced(self, dates: list[date]) -> bool:
        """Return whether the books of every date balance."""
        return not any(self.run("books", str(day)).returncode for day in dates)


def land(folder: Path, name: str, content: bytes) -> None:
    (folder / "landing").mkdir(parents=True, exist_ok=True)
    (folder / "landing" / name).write_bytes(content)


@pytest.mark.slow
def test_ingests_and_builds_of_other_processes_are_right_while_a_person_is_forgotten(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    processes, ended = Processes(folder), Event()
    days = [date(2026, 6, 1) + timedelta(days=number) for number in range(4)]
    for number in range(len(days)):
        second = number * DAY_S
        content = of_ada(f"sess-of-ada-{number}", second) + of_ben(f"ben-{number}", second)
        land(folder, f"{number}.jsonl", content)
    assert processes.run("ingest").returncode == 0
    assert processes.run("build").returncode == 0
    land(folder, "later.jsonl", of_ada("sess-of-ada-late", 300) + of_ben("ben-late", 300))
    with ThreadPoolExecutor(2) as pool:
        builds = pool.submit(processes.until, ended, "build", "--date", f"{days[0]}..{days[-1]}")
        ingests = pool.submit(processes.until, ended, "ingest")
        try:
            forgot = processes.run("forget", "--person", EMAIL, "--rewrite-landing")
        finally:
            ended.set()
    assert forgot.returncode == 0, forgot.stderr
    for ran in (*builds.result(), *ingests.result()):
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert found(folder, *TRACES) == {}
    assert processes.balanced(days)


@pytest.mark.slow
def test_an_expiry_during_a_backfill_takes_whole_dates_and_the_rest_is_built(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    processes, ended = Processes(folder, EVAL_KEEP_TEXTS_DAYS="3"), Event()
    today = datetime.now(UTC)
    noon = (today.replace(hour=12, minute=0, second=0) - timedelta(days=8)).timestamp()
    days = [datetime.fromtimestamp(noon, UTC).date() + timedelta(days=index) for index in range(8)]
    content = b"".join(
        of_ben(f"ben-{number}", noon - NOON_NS / 1e9 + number * DAY_S) for number in range(8)
    )
    land(folder, "logs.jsonl", content)
    assert processes.run("ingest").returncode == 0
    assert processes.run("build").returncode == 0
    with ThreadPoolExecutor(1) as pool:
        backfill = pool.submit(processes.until, ended, "build", "--date", f"{days[0]}..{days[-1]}")
        try:
            expired = [processes.run("expire") for _ in range(2)]
        finally:
            ended.set()
    assert [process.returncode for process in expired] == [0, 0], expired
    for ran in backfill.result():
        # A backfill over dates that have just expired says so, and builds the others.
        assert ran.returncode == 0 or "EVAL_KEEP_TEXTS_DAYS" in ran.stdout + ran.stderr
        assert "balance" not in ran.stderr
    assert processes.balanced(days)
