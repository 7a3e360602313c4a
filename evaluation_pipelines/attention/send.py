"""Sending of alerts and digests: the only module that notifies people.

An alert is stored in the ledger before it is sent, and sent once. If the webhook does not accept
it, ``send_pending`` sends it later; code that raises an alert never waits or fails because of it.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from logging import Logger
from typing import Any

import polars as pl

from evaluation_pipelines.attention.alert_store import (
    RISK_DAYS,
    AlertStore,
    alert_risks,
)
from evaluation_pipelines.attention.domain.digest import Digest, digest_message
from evaluation_pipelines.attention.domain.messages import (
    DIGEST,
    JUDGE_DOWN,
    QUALITY_RISKS,
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
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews, open_samples
from evaluation_pipelines.scorecards.domain.evaluation import QUALITY_RISK
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.store import EventStore
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.views.sessions import sessions


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
    for seen in filter(None, _seen(stores, new)):
        log.error("ALERT: %s: %s", seen.title, seen.text)
    send_pending(stores, now, log)
    return True


def send_pending(stores: Stores, now: datetime, log: Logger) -> int:
    """Post the alerts that the webhook has not accepted yet, oldest first.

    Stops at the first alert that it does not accept, since each attempt may take ten seconds. An
    alert stays until one of its sessions may be sent. A low answer to a blind review raises another
    alert. A session that is no longer reviewed is listed with the alert that left it out.

    Returns:
        The number of alerts that the webhook has still to accept.
    """
    unsent = AlertStore(stores.ledger).unsent()
    seen = zip(unsent, _seen(stores, unsent), strict=True)
    visible = [(raised.alert_id, alert) for raised, alert in seen if alert is not None]
    for position, (alert_id, alert) in enumerate(visible):
        if not _post(stores.settings, alert, log):
            left = len(visible) - position
            undelivered = pluralize(left, "undelivered alert")
            log.error("%s, retried with the next alert or check", undelivered)
            return left
        AlertStore(stores.ledger).mark_sent(alert_id, now)
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


def current_risks(
    stores: Stores, risks: Mapping[SessionKey, Mapping[str, Any]], since: date
) -> list[Mapping[str, Any]]:
    """Return the sessions that messages may name, with their current scores.

    A session that awaits a blind review is left out, and one whose current score is no risk.

    Args:
        stores: The stores.
        risks: Payloads of events by session.
        since: The first date of the sessions.

    Raises:
        LakeError: A file cannot be read.
    """
    waiting = BlindReviews(stores).waiting()
    days = [day for day in stores.lake.partitions(AGENT_SESSIONS) if day >= since]
    is_one = pl.col("session_key").is_in(sorted({key for _, key in risks}))
    rows = sessions(stores, days, is_one, waiting=waiting).iter_rows(named=True)
    found = {**risks, **{(row["organization_id"], row["session_key"]): row for row in rows}}
    return [
        found[key]
        for key in risks
        if key not in waiting and found[key].get("quality_risk", True) is True
    ]


def _seen(stores: Stores, raised: Sequence[RaisedAlert]) -> list[Alert | None]:
    """Return alerts as they may be sent, ``None`` for one that must stay.

    If a file is damaged, all risks stay, and no other alert shows what may await a blind review.
    """
    is_risk = {row.alert_id: row.alert.kind == QUALITY_RISKS for row in raised}
    known = AlertStore(stores.ledger).all() if any(is_risk.values()) else ()
    risks = alert_risks(stores.ledger, known, is_risk)
    waiting = {sample.key for sample in open_samples(stores)}
    return [
        _risk_alert(stores, row, risks.get(row.alert_id, {}))
        if is_risk[row.alert_id]
        else without_sessions(row.alert, waiting)
        for row in raised
    ]


def _risk_alert(
    stores: Stores, raised: RaisedAlert, payloads: Mapping[SessionKey, str]
) -> Alert | None:
    since = raised.raised_at.date() - timedelta(days=RISK_DAYS)
    later = EventStore(stores.ledger).of_kind(QUALITY_RISK, int(raised.alert.cause), since)
    others = {(event.organization_id, event.session_key) for event in later}  # in another alert
    risks = {key: json.loads(text) for key, text in payloads.items() if key not in others}
    try:
        shown = current_risks(stores, risks, since) if risks else ()
    except LakeError:
        return None
    return quality_risk_alert(raised.alert.cause, shown) if shown else None


def _post(settings: Settings, alert: Alert, log: Logger) -> bool:
    """Post an alert; True if the webhook accepted it or none is configured.

    The body is JSON with one field ``text``, as Slack and compatible programs accept it.
    """
    if settings.alert_webhook_url is None:
        return True
    url = settings.alert_webhook_url.get_secret_value()
    body = json.dumps({"text": f"{alert.title}\n{alert.text}"}).encode()
    try:
        post(url, body, {"Content-Type": "application/json"}, "webhook")
    except NotDeliveredError as error:
        log.error("the alert could not be delivered: %s", error)  # noqa: TRY400
        return False
    return True
