"""Whether the judge answers, as its last run found: an alert that lasts until it does again."""

from datetime import datetime
from logging import Logger

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import JUDGE_DOWN, judge_down_alert
from evaluation_pipelines.alerts.send import raise_alert
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.storage.stores import Stores


def note_judge(stores: Stores, report: JudgeReport, now: datetime, log: Logger) -> None:
    """Raise the alert that the judge does not answer, or end it after a run with a score.

    A run that asked nothing of the judge changes nothing.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    if report.is_endpoint_down:
        reason = report.stop_reason or next(iter(report.explanations.values()), "")
        raise_alert(stores, judge_down_alert(reason), now, log)
    elif report.totals:
        AlertStore(stores.ledger).end_except(JUDGE_DOWN, set(), now)
