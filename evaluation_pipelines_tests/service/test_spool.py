"""Records on their way to disk: written together, closed, and kept when a service is killed."""

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from threading import current_thread, main_thread
from time import sleep

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from evaluation_pipelines.service.receiver.receiver import Spool
from evaluation_pipelines.storage import received_files
from evaluation_pipelines.storage.landing import is_open_elsewhere
from evaluation_pipelines.storage.received_files import ReceivedRecord
from evaluation_pipelines_tests.service.live_service import (
    LiveService,
    Sender,
    everything,
    status_of,
)
from evaluation_pipelines_tests.workplace import NOW, open_workplace
from evaluation_pipelines_tests.world import session

SLOW_S = 0.05


class Disk:
    """The real sync, which may take longer or fail; notes which thread asked for it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.error: Exception | None = None
        self.by_loop: list[bool] = []
        self._sync = received_files._sync_content

    def sync(self, descriptor: int) -> None:
        """Sync as the program does."""
        self.by_loop.append(current_thread() is main_thread())
        if self.error is not None:
            raise self.error
        time.sleep(self.seconds)
        self._sync(descriptor)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(received_files, "_sync_content", disk.sync)
    return disk


def record(content: bytes) -> ReceivedRecord:
    return ReceivedRecord("received", "jsonl", content)


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.jsonl"))


def run(folder: Path, steps: Callable[[Spool], Awaitable[None]]) -> bytes:
    """Run steps on a spool; return what is in its files then."""

    async def all_steps() -> None:
        with closing(Spool(folder, 2**20, lambda: NOW)) as spool:
            await asyncio.wait_for(steps(spool), 20)

    asyncio.run(all_steps())
    return b"".join(path.read_bytes() for path in files(folder))


def test_what_arrives_together_shares_a_sync(tmp_path: Path, disk: Disk) -> None:
    async def steps(spool: Spool) -> None:
        await asyncio.gather(*(spool.append(record(b"%d\n" % index)) for index in range(50)))

    written = run(tmp_path, steps)
    assert sorted(written.split()) == sorted(b"%d" % index for index in range(50))
    assert disk.by_loop == [False]


def test_a_slow_disk_holds_up_nobody_but_who_waits_for_it(tmp_path: Path, disk: Disk) -> None:
    disk.seconds = SLOW_S
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    async def steps(spool: Spool) -> None:
        counting = asyncio.create_task(count())
        for _ in range(2):
            began = time.perf_counter()
            await spool.append(record(b"a\n"))
            assert time.perf_counter() - began >= SLOW_S  # not before it is synced
        counting.cancel()

    assert run(tmp_path, steps) == b"a\na\n"
    assert disk.by_loop == [False, False]
    assert turns > 10


@pytest.mark.parametrize("error", [OSError(28, "full"), RuntimeError("unforeseen")])
def test_a_failure_reaches_who_waits_and_the_next_record_is_written(
    tmp_path: Path, disk: Disk, error: Exception
) -> None:
    async def steps(spool: Spool) -> None:
        disk.error = error
        with pytest.raises(type(error)):
            await spool.append(record(b"lost\n"))
        disk.error = None
        await spool.append(record(b"kept\n"))

    assert run(tmp_path, steps).endswith(b"kept\n")


def test_a_client_that_hangs_up_takes_no_other_with_it(tmp_path: Path, disk: Disk) -> None:
    disk.seconds = SLOW_S

    async def steps(spool: Spool) -> None:
        gone = asyncio.create_task(spool.append(record(b"gone\n")))
        stays = asyncio.create_task(spool.append(record(b"stays\n")))
        await asyncio.sleep(SLOW_S / 5)
        gone.cancel()
        await stays

    assert b"stays\n" in run(tmp_path, steps)


def test_a_file_that_was_made_read_only_or_deleted_gets_nothing_more(tmp_path: Path) -> None:
    async def steps(spool: Spool) -> None:
        await spool.append(record(b"a\n"))
        (first,) = files(tmp_path)
        first.chmod(0o400)
        await spool.append(record(b"b\n"))
        (second,) = files(tmp_path) - {first}
        assert (first.read_bytes(), second.read_bytes()) == (b"a\n", b"b\n")
        second.unlink()
        await spool.append(record(b"c\n"))

    assert sorted(run(tmp_path, steps).split()) == [b"a", b"c"]


def test_a_file_that_gets_nothing_more_is_closed_also_without_records(tmp_path: Path) -> None:
    async def steps(spool: Spool) -> None:
        await spool.append(record(b"a\n"))
        (path,) = files(tmp_path)
        assert is_open_elsewhere(path)
        path.chmod(0o400)
        while is_open_elsewhere(path):  # noqa: ASYNC110 - what another process would do
            await asyncio.sleep(0.05)

    assert run(tmp_path, steps) == b"a\n"


JSON, PROTOBUF = "application/json", "application/x-protobuf"


def in_protobuf(name: str) -> bytes:
    document = json.loads(session(name))
    message: bytes = ParseDict(document, ExportLogsServiceRequest()).SerializeToString()
    return message


def killed_under_load(folder: Path, round_number: int) -> list[str]:
    """Start a service, the first time two on one data folder; kill it while it has 8 senders."""
    services = [LiveService(folder) for _ in range(1 if round_number else 2)]
    senders = []
    for which, service in enumerate(services):
        service.wait()
        for number in range(8):
            name = f"{round_number}-{which}-{number}"
            kind = (session, JSON) if number % 2 else (in_protobuf, PROTOBUF)
            senders.append(Sender(service.port, name, *kind))
    for sender in senders:
        sender.start()
    while not all(sender.acknowledged for sender in senders):
        sleep(0.01)
    sleep(0.05 * (round_number % 5))
    for service in services:
        service.kill()
    for sender in senders:
        sender.join()
    return [name for sender in senders for name in sender.acknowledged]


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_what_was_acknowledged_survives_kills(tmp_path: Path, rounds: int) -> None:
    acknowledged = [name for index in range(rounds) for name in killed_under_load(tmp_path, index)]

    with open_workplace(tmp_path) as workplace:
        report = workplace.ingest()
        landed = workplace.landed()
    assert report.counts.quarantined == 0
    counts = dict(landed.group_by("session_id").len().rows())
    # A session has two events; one that was never acknowledged may be there, too, or not.
    assert {name: counts.get(name) for name in acknowledged} == dict.fromkeys(acknowledged, 2)


HEAD = (
    b"POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
)


def test_a_service_that_is_told_to_stop_finishes_what_it_has_begun(tmp_path: Path) -> None:
    service, body = LiveService(tmp_path), session("s")
    service.wait()
    address = ("127.0.0.1", service.port)
    with socket.create_connection(address, 30) as client, socket.create_connection(address) as idle:
        for connection in (client, idle):
            connection.sendall(HEAD % len(body))
            assert status_of(connection.recv(65536)) == 100  # the body is waited for
        service.process.terminate()
        service.wait_until_closed()
        client.sendall(body)
        assert status_of(everything(client)) == 200
        assert service.ended() == 0
        # A body that never comes is not waited for until it is too slow (408). It is sent again.
        assert status_of(everything(idle)) == 503
    with open_workplace(tmp_path) as workplace:
        assert workplace.ingest().counts.events == 2
