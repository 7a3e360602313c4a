"""Alerts, posted to a real receiver or to none."""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from threading import Thread

import pytest
from pydantic import SecretStr

from evaluation_pipelines.settings import Settings
from evaluation_pipelines.stages import alerts
from evaluation_pipelines.stages.alerts import alert, tell_of_parked_date
from evaluation_pipelines_tests.receiver import open_receiver

LOG = logging.getLogger("alerts")


def settings(url: str | None) -> Settings:
    """Settings with a webhook, or without."""
    return Settings(_env_file=None, alert_webhook_url=SecretStr(url) if url else None)


@contextmanager
def listening(reply: bytes | None) -> Iterator[str]:
    """URL of a server that reads one request and sends ``reply``; nothing for None."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                if reply is None:
                    connection.recv(65536)  # until the other side gives up
                else:
                    connection.sendall(reply)

        thread = Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        thread.join()


def test_an_alert_is_logged_and_posted_as_one_json_text(caplog: pytest.LogCaptureFixture) -> None:
    with open_receiver() as receiver:
        alert(settings(receiver.url), "disk full", "free some\n“space”", LOG)

    assert receiver.requests == [
        ("/hook", "application/json", {"text": "disk full\nfree some\n“space”"})
    ]
    assert caplog.messages == ["ALERT: disk full: free some\n“space”"]
    assert caplog.records[0].levelno == logging.ERROR


def test_without_a_webhook_an_alert_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    alert(settings(None), "disk full", "free some space", LOG)

    assert caplog.messages == ["ALERT: disk full: free some space"]


@pytest.mark.parametrize("status", [404, 500])
def test_a_webhook_that_refuses_does_not_stop_the_work(
    caplog: pytest.LogCaptureFixture, status: int
) -> None:
    with open_receiver(status) as receiver:
        alert(settings(receiver.url), "disk full", "", LOG)

    assert len(receiver.requests) == 1
    assert caplog.messages[1:] == ["the alert could not be delivered"]


def test_a_webhook_where_nobody_listens_does_not_stop_the_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    alert(settings(f"http://127.0.0.1:{port}/"), "disk full", "", LOG)

    assert caplog.messages[1:] == ["the alert could not be delivered"]


@pytest.mark.parametrize(
    "reply",
    [b"", b"not http at all\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"],
    ids=["closed", "no http", "no status"],
)
def test_a_webhook_that_answers_nonsense_does_not_stop_the_work(
    caplog: pytest.LogCaptureFixture, reply: bytes
) -> None:
    with listening(reply) as url:
        alert(settings(url), "disk full", "", LOG)

    assert caplog.messages[1:] == ["the alert could not be delivered"]


def test_a_webhook_that_never_answers_is_given_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "_TIMEOUT_S", 0.1)
    with listening(None) as url:
        alert(settings(url), "disk full", "", LOG)

    assert caplog.messages[1:] == ["the alert could not be delivered"]


def test_the_address_of_a_webhook_is_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    with open_receiver(500) as receiver:
        alert(settings(f"{receiver.url}/token-123"), "disk full", "", LOG)

    assert receiver.requests[0][0] == "/hook/token-123"
    assert "token-123" not in caplog.text
    assert "token-123" not in repr(settings(f"{receiver.url}/token-123"))


def test_a_parked_date_is_told_with_its_reason_and_what_to_do() -> None:
    with open_receiver() as receiver:
        tell_of_parked_date(
            settings(receiver.url), date(2026, 6, 1), 4, "agent_events: LakeError: torn", LOG
        )

    assert receiver.texts == [
        (
            "session_date 2026-06-01 is parked after 4 attempts\n"
            "agent_events: LakeError: torn\n"
            "Mend the cause, then materialize the date once more."
        )
    ]
