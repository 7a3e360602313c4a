"""Alerts sent to a local webhook, or without one."""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from threading import Thread

import pytest
from pydantic import SecretStr, ValidationError

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import Alert
from evaluation_pipelines.attention.send import raise_alert, send_pending
from evaluation_pipelines.evaluations import post
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines_tests.receiver import open_receiver
from evaluation_pipelines_tests.workplace import NOW, Workplace

LOG = logging.getLogger("alerts")
FULL = Alert("disk", "a", "disk full", "free some\n“space”")
OTHER = Alert("disk", "b", "another disk full", "")


def assert_not_delivered(messages: list[str]) -> None:
    reason, waiting = messages
    assert reason.startswith("the alert could not be delivered: ")
    assert waiting == "1 undelivered alert, retried with the next alert or check"


def stores(workplace: Workplace, url: str | None) -> Stores:
    """Return the stores with a webhook URL, or without a webhook."""
    webhook = {"alert_webhook_url": SecretStr(url) if url else None}
    return replace(workplace.stores, settings=workplace.settings.model_copy(update=webhook))


@contextmanager
def listening(reply: bytes | None) -> Iterator[str]:
    """Yield the URL of a server that reads one request and sends ``reply``, if any."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                if reply is None:
                    connection.recv(65536)  # until the client gives up
                else:
                    connection.sendall(reply)

        thread = Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        thread.join()


def test_an_alert_is_logged_and_posted_as_one_json_text(
    workplace: Workplace, caplog: pytest.LogCaptureFixture
) -> None:
    with open_receiver() as receiver:
        assert raise_alert(stores(workplace, receiver.url), FULL, NOW, LOG)

    assert receiver.requests == [
        ("/hook", "application/json", {"text": "disk full\nfree some\n“space”"})
    ]
    assert caplog.messages == ["ALERT: disk full: free some\n“space”"]
    assert caplog.records[0].levelno == logging.ERROR


def test_the_same_cause_is_sent_once(
    workplace: Workplace, caplog: pytest.LogCaptureFixture
) -> None:
    with open_receiver() as receiver:
        opened = stores(workplace, receiver.url)
        raised = [raise_alert(opened, alert, NOW, LOG) for alert in (FULL, FULL, OTHER)]
        AlertStore(opened.ledger).end_except("disk", {"b"}, NOW)
        raised += [raise_alert(opened, alert, NOW, LOG) for alert in (FULL, OTHER)]

    assert raised == [True, False, True, True, False]
    titles = [text.splitlines()[0] for text in receiver.texts]
    assert titles == ["disk full", "another disk full", "disk full"]
    assert len(caplog.messages) == 3


def test_without_a_webhook_an_alert_is_only_logged(
    workplace: Workplace, caplog: pytest.LogCaptureFixture
) -> None:
    raise_alert(stores(workplace, None), OTHER, NOW, LOG)

    assert caplog.messages == ["ALERT: another disk full: "]
    # A webhook that is configured later does not receive old alerts.
    assert AlertStore(workplace.ledger).unsent() == []


# A redirect that is followed asks with GET, so the text of the alert is lost.
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 404, 500])
def test_a_webhook_that_refuses_does_not_stop_the_work_and_is_tried_again(
    workplace: Workplace, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    with open_receiver(status) as receiver:
        broken = stores(workplace, receiver.url)
        assert raise_alert(broken, FULL, NOW, LOG)
        assert send_pending(broken, NOW, LOG) == 1
        raise_alert(broken, OTHER, NOW, LOG)
        # The second one waits behind the first, which was tried three times.
        assert receiver.texts == ["disk full\nfree some\n“space”"] * 3

    assert_not_delivered(caplog.messages[1:3])
    with open_receiver() as receiver:
        repaired = stores(workplace, receiver.url)
        assert send_pending(repaired, NOW + timedelta(hours=1), LOG) == 0
        assert send_pending(repaired, NOW, LOG) == 0
        titles = [text.splitlines()[0] for text in receiver.texts]
        assert titles == ["disk full", "another disk full"]


def test_the_address_of_a_webhook_is_a_secret(
    workplace: Workplace, caplog: pytest.LogCaptureFixture
) -> None:
    with open_receiver(500) as receiver:
        opened = stores(workplace, f"{receiver.url}/token-123")
        raise_alert(opened, FULL, NOW, LOG)

    assert receiver.requests[0][0] == "/hook/token-123"
    assert "token-123" not in caplog.text
    assert "token-123" not in repr(opened.settings)


@pytest.mark.parametrize("blank", [" ", "\n", "\x00", "ü"])
def test_a_webhook_with_a_blank_is_refused_and_never_logged(
    workplace: Workplace, caplog: pytest.LogCaptureFixture, blank: str
) -> None:
    url = f"http://127.0.0.1:1/token-123{blank}x"
    with pytest.raises(ValidationError, match="must have no blanks") as refused:
        Settings(alert_webhook_url=SecretStr(url))
    assert "token-123" not in str(refused.value)
    raise_alert(stores(workplace, url), FULL, NOW, LOG)
    assert_not_delivered(caplog.messages[1:])
    assert "token-123" not in caplog.text


@pytest.mark.parametrize(
    "reply",
    [b"", b"not http at all\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", None, "refused"],
    ids=["closed", "no http", "no status", "never", "no connection"],
)
def test_a_webhook_that_does_not_answer_does_not_stop_the_work(
    workplace: Workplace,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    reply: bytes | str | None,
) -> None:
    monkeypatch.setattr(post, "_TIMEOUT_S", 0.1 if reply is None else 10)
    if isinstance(reply, str):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        raise_alert(stores(workplace, f"http://127.0.0.1:{port}/"), FULL, NOW, LOG)
    else:
        with listening(reply) as url:
            raise_alert(stores(workplace, url), FULL, NOW, LOG)

    assert_not_delivered(caplog.messages[1:])
