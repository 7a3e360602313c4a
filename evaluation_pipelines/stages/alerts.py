"""Alerts: the one place from which people are told that something needs them."""

import json
import urllib.request
from datetime import date
from http.client import HTTPException
from logging import Logger

from evaluation_pipelines.settings import Settings

_TIMEOUT_S = 10


def tell_of_parked_date(
    settings: Settings, session_date: date, attempts: int, reason: str, log: Logger
) -> None:
    """Alert that a date has failed so often that it is not tried again by itself."""
    alert(
        settings,
        f"session_date {session_date} is parked after {attempts} attempts",
        f"{reason}\nMend the cause, then materialize the date once more.",
        log,
    )


def alert(settings: Settings, title: str, text: str, log: Logger) -> None:
    """Log an alert and post it to the webhook, where one is set.

    The body is JSON with one field ``text``, as Slack and its like take it. A webhook that cannot
    be reached is logged as an error: the work that raised the alert goes on.
    """
    log.error("ALERT: %s: %s", title, text)
    if settings.alert_webhook_url is None:
        return
    url = settings.alert_webhook_url.get_secret_value()
    body = json.dumps({"text": f"{title}\n{text}"}).encode()
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked with the settings
        url, body, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
            pass
    except (OSError, HTTPException):  # refused, timed out, closed half-way, or not HTTP at all
        log.exception("the alert could not be delivered")
