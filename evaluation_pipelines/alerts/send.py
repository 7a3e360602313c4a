"""Alerts: the one place from which people are told that something needs them.

An alert is in the ledger before it is told, and told once. One that the webhook did not take is
told later, by ``send_pending``; nothing that raises an alert ever waits or fails for it.
"""

import json
import urllib.request
from datetime import datetime
from http.client import HTTPException
from logging import Logger

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import Alert
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores

_TIMEOUT_S = 10


def alert(stores: Stores, raised: Alert, now: datetime, log: Logger) -> bool:
    """Log an alert and post it to the webhook, unless it was raised before and is not over.

    A webhook that cannot be reached is logged as an error. Returns whether the alert is new.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    if not AlertStore(stores.ledger).put(raised, now):
        return False
    log.error("ALERT: %s: %s", raised.title, raised.text)
    send_pending(stores, now, log)
    return True


def send_pending(stores: Stores, now: datetime, log: Logger) -> int:
    """Post what the webhook has not taken yet, oldest first; gives how many are left.

    After one that is not taken the others wait, too: each may cost ten seconds.
    """
    waiting = AlertStore(stores.ledger).untold()
    for at, each in enumerate(waiting):
        if not _post(stores.settings, each.alert, log):
            log.error("%d alerts wait to be delivered; they are tried again", len(waiting) - at)
            return len(waiting) - at
        AlertStore(stores.ledger).mark_told(each.alert_id, now)
    return 0


def _post(settings: Settings, told: Alert, log: Logger) -> bool:
    """Whether the webhook took an alert; without one the log is all there is.

    The body is JSON with one field ``text``, as Slack and its like take it.
    """
    if settings.alert_webhook_url is None:
        return True
    url = settings.alert_webhook_url.get_secret_value()
    body = json.dumps({"text": f"{told.title}\n{told.text}"}).encode()
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked with the settings
        url, body, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
            return True
    except (OSError, HTTPException):  # refused, timed out, closed half-way, or not HTTP at all
        log.exception("the alert could not be delivered")
        return False
