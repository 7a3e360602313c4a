"""Whether the judge answers and judges all: alerts that last until a run finds that it does."""

from collections.abc import Sequence
from datetime import datetime
from logging import Logger

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import (
    JUDGE_DOWN,
    UNJUDGED,
    judge_down_alert,
    unjudged_alert,
)
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
        raise_alert(stores, unjudged_alert(now.date(), "; ".join(problems)), now, log)
        return
    judged_all = all_readable and report.skip_reason is None and not report.is_endpoint_down
    if judged_all or stores.settings.why_no_judge is not None:
        AlertStore(stores.ledger).end_except(UNJUDGED, set(), now)
