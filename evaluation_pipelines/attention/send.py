"""Sending of alerts and digests: the only module that notifies people.

An alert is stored in the ledger before it is sent, and sent once. If the webhook does not accept
it, ``send_pending`` sends it later; code that raises an alert never waits or fails because of it.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from logging import Logger

from evaluation_pipelines.attention.alert_store import RISK_DAYS, AlertStore
from evaluation_pipelines.attention.current_risks import (
    alert_events,
    current_risks,
    waiting_sessions,
)
from evaluation_pipelines.attention.domain.digest import Digest, digest_message
from evaluation_pipelines.attention.domain.messages import (
    DIGEST,
    JUDGE_DOWN,
    QUALITY_RISKS,
    REGRESSION,
    UNJUDGED,
    Alert,
    RaisedAlert,
    quality_risk_alert,
    reported,
    without_sessions,
)
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.evaluations.post import NotDeliveredError, post
from evaluation_pipelines.formatting import pluralize
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.stores import Stores


class NoWebhookError(UserError):
    """No webhook is configured."""


def raise_alert(stores: Stores, alert: Alert, now: datetime, log: Logger) -> bool:
    """Log an alert and post it to the webhook, unless the same alert is open already.

    A webhook that cannot be reached is logged as an error.

    Returns:
        True if the alert is new.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    store = AlertStore(stores.ledger)
    if not store.put(alert, now):
        return False
    new = [raised for raised in store.all() if raised.alert == alert][-1:]
    for _, shown in _shown(stores, new, now, log):
        if shown is not None and stores.settings.alert_webhook_url is not None:
            _log(shown, log)
    send_pending(stores, now, log)
    return True


def send_pending(stores: Stores, now: datetime, log: Logger) -> int:
    """Post the alerts that the webhook has not accepted yet, oldest first.

    Stops at the first alert that it does not accept, since each attempt may take ten seconds.

    Of sessions below their threshold it shows the current scores. An alert without a session to
    show waits a week for a blind review or a damaged file, otherwise it counts as sent. A low
    answer raises another alert. A session that leaves the sample without an answer is listed with
    the alert that left it out.

    Returns:
        The number of alerts that are left, 0 if all of them wait.
    """
    store = AlertStore(stores.ledger)
    unsent = store.unsent()
    for raised, shown in _shown(stores, unsent, now, log):
        if shown is not None and not _post(stores.settings, shown, log):
            left = len(unsent) - unsent.index(raised)
            undelivered = pluralize(left, "undelivered alert")
            log.error("%s, retried with the next alert or check", undelivered)
            return left
        store.mark_sent(raised.alert_id, now)
    return 0


def send_digest(stores: Stores, digest: Digest, now: datetime, log: Logger) -> int:
    """Post a digest, unless that of the same days was posted.

    Returns:
        The number of messages that the webhook has not accepted yet.

    Raises:
        NoWebhookError: No webhook is configured.
        LedgerError: The ledger cannot be used.
    """
    if stores.settings.alert_webhook_url is None:
        raise NoWebhookError("no webhook is set: set EVAL_ALERT_WEBHOOK_URL")
    store, message = AlertStore(stores.ledger), digest_message(digest)
    known = [
        row for row in store.all() if (row.alert.kind, row.alert.cause) == (DIGEST, message.cause)
    ]
    if not known:
        store.put(message, now)
        # A digest asks for nothing: it is not listed among what needs people.
        store.end(DIGEST, {message.cause}, now)
    return send_pending(stores, now, log)


def note_judge(stores: Stores, report: JudgeReport, now: datetime, log: Logger) -> None:
    """Raise the alert that the judge does not answer, or end it after a run with a score.

    A run that asked nothing of the judge changes nothing.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    if report.is_endpoint_down:
        raise_alert(stores, reported(JUDGE_DOWN, "judge", report.problem or ""), now, log)
    elif report.totals:
        AlertStore(stores.ledger).end_except(JUDGE_DOWN, set(), now)


def note_whole_run(
    stores: Stores,
    report: JudgeReport,
    problems: Sequence[str],
    now: datetime,
    log: Logger,
    *,
    all_readable: bool = True,
) -> None:
    """Raise the alert that sessions were not judged, or end it after a run that judged all.

    Without a judge nothing is left to judge.

    Args:
        stores: Lake and ledger.
        report: Report of a run over everything that is due.
        problems: Why some of it was not judged or written.
        now: The time.
        log: Where the alert is logged.
        all_readable: False if a date cannot be read, also one that the run was not about.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    if problems:
        alert = reported(
            UNJUDGED, now.date(), ". ".join(problem.rstrip(".") for problem in problems)
        )
        raise_alert(stores, alert, now, log)
        return
    judged_all = all_readable and report.skip_reason is None and not report.is_endpoint_down
    if judged_all or stores.settings.why_no_judge is not None:
        AlertStore(stores.ledger).end_except(UNJUDGED, set(), now)


def _shown(
    stores: Stores, alerts: Sequence[RaisedAlert], now: datetime, log: Logger
) -> Iterator[tuple[RaisedAlert, Alert | None]]:
    """Yield alerts as messages show them, ``None`` for one that has nothing left to show.

    Alerts that must wait are left out: for a review, or because a file cannot be read.
    """
    names_sessions = any(row.alert.kind in {QUALITY_RISKS, REGRESSION} for row in alerts)
    waiting = waiting_sessions(stores) if names_sessions else ()
    events = alert_events(stores.ledger, alerts)
    for raised in alerts:
        if raised.alert.kind != QUALITY_RISKS:
            yield raised, without_sessions(raised.alert, waiting)
            continue
        mine = events.get(raised.alert_id, {})
        try:
            risks = current_risks(stores, mine, waiting)
            must_wait = not mine.keys().isdisjoint(waiting)
        except LakeError as error:
            log.warning("an alert waits until its scores can be read: %s", error)
            risks, must_wait = [], True
        if risks:
            yield raised, quality_risk_alert(raised.alert.cause, risks)
        elif not must_wait or now - raised.raised_at > timedelta(days=RISK_DAYS):
            yield raised, None


def _log(alert: Alert, log: Logger) -> None:
    log.error("ALERT: %s: %s", alert.title, alert.text)


def _post(settings: Settings, alert: Alert, log: Logger) -> bool:
    """Post an alert, or log it if no webhook is configured; True unless the webhook refused it.

    The body is JSON with one field ``text``, as Slack and compatible programs accept it.
    """
    if settings.alert_webhook_url is None:
        _log(alert, log)
        return True
    url = settings.alert_webhook_url.get_secret_value()
    body = json.dumps({"text": f"{alert.title}\n{alert.text}"}).encode()
    try:
        post(url, body, {"Content-Type": "application/json"}, "webhook")
    except NotDeliveredError as error:
        log.error("the alert could not be delivered: %s", error)  # noqa: TRY400
        return False
    return True
