"""A service that keeps its data current: steps of its child process, kills of both."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from threading import Event

import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.access.key_ring import KeyRing, create_key
from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import NOT_CURRENT, NOT_PUBLISHED
from evaluation_pipelines.reporting import publish
from evaluation_pipelines.service import keep_current
from evaluation_pipelines.service.keep_current import CurrentData
from evaluation_pipelines.service.live import is_for_one_person
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import BUILD, KEEP_CURRENT, held, holders
from evaluation_pipelines_tests.service.live_service import LiveService
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import session

_PATIENCE_S = 60.0


def open_alerts(workplace: Workplace) -> list[str]:
    return [row.alert.kind for row in AlertStore(workplace.ledger).all() if not row.ended_at]


def test_a_step_reads_builds_and_publishes_and_the_next_one_finds_nothing(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_current, "_PUBLISH_SHARE", 1e-9)
    workplace.land("logs.jsonl", session("a"))
    data = CurrentData(workplace.stores)
    assert data.step()
    assert workplace.sessions()["session_id"].to_list() == ["a"]
    assert workplace.settings.analytics_path.exists()
    assert Manifest(workplace.ledger).is_published()
    time.sleep(2.1)  # a file counts as changed for two seconds
    assert data.step()  # lists the files once more
    assert not data.step()
    workplace.land("logs.jsonl", session("b"), "ab")
    assert data.step()
    assert workplace.sessions()["session_id"].sort().to_list() == ["a", "b"]
    assert not Manifest(workplace.ledger).is_published()  # it has just been


def test_time_spent_waiting_makes_no_pause_longer(workplace: Workplace) -> None:
    pauses: list[float | None] = []

    class Slow(CurrentData):
        def step(self) -> bool:
            time.sleep(1.1)
            return True

    class OneRound(Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            self.set()
            return True

    with held(workplace.ledger, KEEP_CURRENT) as hold:
        keep_current._run(Slow(workplace.stores), hold, OneRound())
    assert pauses == [1.0]


def test_what_cannot_be_published_is_an_alert_until_it_can(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ArithmeticError("a number")

    workplace.land("logs.jsonl", session("a"))
    with monkeypatch.context() as patched:
        patched.setattr(publish, "refresh_comparison", fails)
        CurrentData(workplace.stores).step()
    assert open_alerts(workplace) == [NOT_PUBLISHED]
    workplace.land("logs.jsonl", session("b"), "ab")
    CurrentData(workplace.stores).step()
    assert open_alerts(workplace) == []


def test_it_is_on_by_itself_for_one_person(workplace: Workplace) -> None:
    keys = KeyRing(workplace.ledger)
    assert is_for_one_person(workplace.stores, keys)
    create_key(workplace.ledger, "admin", Role.OPERATOR, None, now=NOW)
    assert not is_for_one_person(workplace.stores, KeyRing(workplace.ledger))


def wait_for(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def shows(service: LiveService, name: str) -> bool:
    with suppress(OSError):
        url = f"http://127.0.0.1:{service.port}/sessions"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return name in answer.read().decode()
    return False


def keeper(workplace: Workplace) -> int:
    """Return the process that keeps the data current; 0 if there is none."""
    found = (holder for holder in holders(workplace.ledger) if holder.name == KEEP_CURRENT)
    return next((holder.process_id for holder in found), 0)


def parent(process_id: int) -> int:
    """Return the parent of a process that runs; 0 if it does not."""
    try:
        state, of, *_ = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if state == "Z" else int(of)


def test_what_duckdb_spilled_goes_at_the_end_of_the_parent(tmp_path: Path) -> None:
    program = (
        "from evaluation_pipelines.service import keep_current\n"
        "from evaluation_pipelines.storage.queries import duckdb_connection\n"
        "with duckdb_connection(small=True): keep_current._end_with_parent()\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    subprocess.run(command, input=b"", env=environment, check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_kills_of_service_and_child_stop_nothing_for_long(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace, ExitStack() as ended:
        first = LiveService(tmp_path, "--build")
        ended.callback(first.kill)
        first.wait()
        workplace.land("logs.jsonl", session("sent-first"))
        wait_for(lambda: shows(first, "sent-first"))

        os.kill(child := keeper(workplace), signal.SIGKILL)
        wait_for(lambda: open_alerts(workplace) == [NOT_CURRENT])
        wait_for(lambda: keeper(workplace) not in (0, child))
        wait_for(lambda: open_alerts(workplace) == [])

        child = keeper(workplace)
        second = LiveService(tmp_path, "--build")  # its child waits
        ended.callback(second.kill)
        second.wait()
        workplace.land("logs.jsonl", session("sent-next"), "ab")
        more = count()
        while not any(holder.name.startswith(BUILD) for holder in holders(workplace.ledger)):
            # A build may be over before it is seen.
            workplace.land("logs.jsonl", session(f"more-{next(more)}"), "ab")
            time.sleep(0.02)
        first.kill()  # within a build
        wait_for(lambda: not parent(child))
        wait_for(lambda: "sent-next" in workplace.sessions()["session_id"])
        child = keeper(workplace)
        assert parent(child) == second.process.pid
        second.process.terminate()
        assert second.ended() == 0
        assert not parent(child)
