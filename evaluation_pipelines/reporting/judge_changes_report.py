"""The report of judge changes as an HTML page and as Markdown."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from evaluation_pipelines.judge_changes.domain.judge_change import JudgeChange
from evaluation_pipelines.judge_changes.write import write_judge_changes
from evaluation_pipelines.reporting.comparison_report import Report
from evaluation_pipelines.reporting.domain.judge_changes_report.markdown import markdown_report
from evaluation_pipelines.reporting.domain.judge_changes_report.page import page_content
from evaluation_pipelines.reporting.pages import render_page, write_page
from evaluation_pipelines.storage.store import share
from evaluation_pipelines.storage.stores import Stores

NAME = "judge_changes"


def refresh_judge_changes(stores: Stores, now: datetime) -> tuple[Sequence[JudgeChange], Report]:
    """Measure all changes, and replace tables and report.

    Raises:
        LakeError: a file cannot be read or written.
        RubricError: a rubric cannot be used.
        LedgerError: the ledger cannot be used.
        OSError: the report cannot be written.
    """
    found = write_judge_changes(stores, now)
    folder, group_id = stores.settings.reports_dir, stores.group_id
    return found, write_judge_changes_report(folder, found, now, group_id)


def judge_changes_page(changes: Sequence[JudgeChange], now: datetime) -> str:
    """Return the report as one self-contained page; every text in it is escaped."""
    return render_page(NAME, page_content(changes, now))


def write_judge_changes_report(
    folder: Path, changes: Sequence[JudgeChange], now: datetime, group_id: int | None = None
) -> Report:
    """Replace the report as HTML and as Markdown; a group may read it as well.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report = Report(folder / f"{NAME}.html", folder / f"{NAME}.md")
    write_page(report.html, judge_changes_page(changes, now))
    write_page(report.markdown, markdown_report(changes))
    for path in (folder, report.html, report.markdown):
        share(path, group_id)
    return report
