"""Sending of alerts: the only module that notifies people.

An alert is stored in the ledger before it is sent, and sent once. If the webhook does not accept
it, ``send_pending`` sends it later; code that raises an alert never waits or fails because of it.
"""

import json
import urllib.error
import urllib.request
from datetime import datetime
from http.client import HTTPException
from logging import Logger

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import Alert
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import Stores

_TIMEOUT_S = 10


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an error: following it would send GET without the alert."""

    def redirect_request(self, *_: object) -> None:
        return None


_open = urllib.request.build_opener(_NoRedirects).open


def raise_alert(stores: Stores, alert: Alert, now: datetime, log: Logger) -> bool:
    """Log an alert and post it to the webhook, unless the same alert is open already.

    A webhook that cannot be reached is logged as an error.

    Returns:
        True if the alert is new.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    if not AlertStore(stores.ledger).put(alert, now):
        return False
    log.error("ALERT: %s: %s", alert.title, alert.text)
    send_pending(stores, now, log)
    return True


def send_pending(stores: Stores, now: datetime, log: Logger) -> int:
    """Post the alerts that the webhook has not accepted yet, oldest first.

    Stops at the first alert that is not accepted, since each attempt may take ten seconds.

    Returns:
        The number of alerts that are still unsent.
    """
    unsent = AlertStore(stores.ledger).unsent()
    for position, each in enumerate(unsent):
        if not _post(stores.settings, each.alert, log):
            left = len(unsent) - position
            log.error("%d alerts wait to be delivered; they are tried again", left)
            return left
        AlertStore(stores.ledger).mark_sent(each.alert_id, now)
    return 0


def _post(settings: Settings, alert: Alert, log: Logger) -> bool:
    """Post an alert; True if the webhook accepted it or none is configured.

    The body is JSON with one field ``text``, as Slack and compatible programs accept it.
    """
    if settings.alert_webhook_url is None:
        return True
    url = settings.alert_webhook_url.get_secret_value()
    body = json.dumps({"text": f"{alert.title}\n{alert.text}"}).encode()
    # Not httpx: its errors contain the URL, which is a secret.
    request = urllib.request.Request(  # noqa: S310 - the settings check the scheme
        url, body, {"Content-Type": "application/json"}
    )
    try:
        with _open(request, timeout=_TIMEOUT_S):
            return True
    except (OSError, HTTPException, ValueError) as error:
        # Refused, timed out, closed early, no HTTP at all. Not its text: it may have the URL.
        log.error("the alert could not be delivered: %s", _reason(error))  # noqa: TRY400
        return False


def _reason(error: BaseException) -> str:
    """Return what went wrong without the URL, whose path is a secret."""
    match error:
        case urllib.error.HTTPError():
            return f"the webhook answered with {error.code}"
        case urllib.error.URLError() if isinstance(error.reason, OSError):
            return f"{type(error.reason).__name__}: {error.reason.strerror or 'no answer'}"
        case OSError() if error.strerror:
            return f"{type(error).__name__}: {error.strerror}"
    return type(error).__name__
