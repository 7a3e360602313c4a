"""Digests by the webhook of alerts: stored in the ledger first, and sent once."""

from datetime import datetime
from logging import Logger

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import DIGEST, digest_message
from evaluation_pipelines.alerts.send import send_pending
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.reporting.domain.digest import Digest
from evaluation_pipelines.storage.stores import Stores


class NoWebhookError(UserError):
    """No webhook is configured."""


def send_digest(stores: Stores, digest: Digest, now: datetime, log: Logger) -> int:
    """Post a digest, unless that of the same days was posted.

    Returns:
        The number of messages that the webhook has not accepted yet.

    Raises:
        NoWebhookError: No webhook is configured.
        LedgerError: The ledger cannot be used.
    """
    if stores.settings.alert_webhook_url is None:
        raise NoWebhookError("no webhook is set: EVAL_ALERT_WEBHOOK_URL names one")
    store, message = AlertStore(stores.ledger), digest_message(digest)
    known = [
        each
        for each in store.all()
        if (each.alert.kind, each.alert.cause) == (DIGEST, message.cause)
    ]
    if not known:
        store.put(message, now)
        # A digest asks for nothing: it is not listed among what needs people.
        store.end(DIGEST, {message.cause}, now)
    return send_pending(stores, now, log)
