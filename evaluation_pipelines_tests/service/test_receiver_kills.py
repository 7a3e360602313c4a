"""Kills of the service under load: every record that was acknowledged is found by ingest."""

import json
import socket
from pathlib import Path
from time import sleep

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from evaluation_pipelines_tests.service.live_service import (
    LiveService,
    Sender,
    everything,
    status_of,
)
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import session

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
    acknowledged = [name for each in range(rounds) for name in killed_under_load(tmp_path, each)]

    with open_workplace(tmp_path) as workplace:
        report = workplace.ingest()
        landed = workplace.landed()
    assert report.counts.quarantined == 0
    counts = dict(landed.group_by("session_id").len().rows())
    # A session has two events; one that was never acknowledged may be there, too, or not.
    assert {name: counts.get(name) for name in acknowledged} == dict.fromkeys(acknowledged, 2)


def test_a_service_that_is_told_to_stop_finishes_what_it_has_begun(tmp_path: Path) -> None:
    service, body = LiveService(tmp_path), session("s")
    service.wait()
    with socket.create_connection(("127.0.0.1", service.port), 30) as client:
        client.sendall(
            b"POST /v1/logs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        assert status_of(client.recv(65536)) == 100  # the body is waited for
        service.process.terminate()
        service.wait_until_closed()
        client.sendall(body)
        assert status_of(everything(client)) == 200
    assert service.ended() == 0
    with open_workplace(tmp_path) as workplace:
        assert workplace.ingest().counts.events == 2
