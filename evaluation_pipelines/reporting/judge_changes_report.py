"""The report of judge changes as an HTML page and as Markdown."""

from collections.abc import Sequence
from datetime import datetime

from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.write import write_judge_changes
from evaluation_pipelines.reporting.domain.judge_changes_report.markdown import markdown_report
from evaluation_pipelines.reporting.domain.judge_changes_report.page import page_content
from evaluation_pipelines.reporting.pages import render_page
from evaluation_pipelines.reporting.report_files import Report, report_files, write_both
from evaluation_pipelines.storage.stores import Stores

NAME = "judge_changes"


def refresh_judge_changes(stores: Stores, now: datetime) -> tuple[Sequence[JudgeChange], Report]:
    """Measure all changes, and replace tables and report.

    Raises:
        LakeError: a file cannot be read or written.
        LedgerError: the ledger cannot be used.
        OSError: the report cannot be written.
    """
    found = write_judge_changes(stores, now)
    html, markdown = judge_changes_page(found, now), markdown_report(found)
    return found, write_both(report_files(stores), NAME, html, markdown)


def judge_changes_page(changes: Sequence[JudgeChange], now: datetime) -> str:
    """Return the report as one self-contained page; every text in it is escaped."""
    return render_page(NAME, page_content(changes, now))
