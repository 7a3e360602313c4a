"""The report of a model comparison as an HTML page and as Markdown."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evaluation_pipelines.comparison.compare_models import (
    compare_models,
    usual_question,
    write_comparison,
)
from evaluation_pipelines.comparison.domain.compare import Comparison
from evaluation_pipelines.reporting.domain.comparison_report.markdown import markdown_report
from evaluation_pipelines.reporting.domain.comparison_report.page import page_content
from evaluation_pipelines.reporting.pages import render_page, write_page
from evaluation_pipelines.storage.store import share
from evaluation_pipelines.storage.stores import Stores

NAME = "model_comparison"


@dataclass(frozen=True, slots=True)
class Report:
    """Paths of the two forms of a report."""

    html: Path
    markdown: Path


def write_report(folder: Path, comparison: Comparison, group_id: int | None = None) -> Report:
    """Replace the report as HTML and as Markdown; open files stay readable.

    A group may read it as well.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report = Report(folder / f"{NAME}.html", folder / f"{NAME}.md")
    write_page(report.html, html_page(comparison))
    write_page(report.markdown, markdown_report(comparison))
    for path in (folder, report.html, report.markdown):
        share(path, group_id)
    return report


def refresh_comparison(stores: Stores, now: datetime) -> tuple[Comparison, Report]:
    """Compare the models of the last 28 complete days, and replace tables and report.

    Raises:
        LakeError: a file cannot be read or written.
        OSError: the report cannot be written.
    """
    found = compare_models(stores, usual_question(stores.settings, now), now)
    write_comparison(stores, found)
    return found, write_report(stores.settings.reports_dir, found, stores.group_id)


def html_page(comparison: Comparison) -> str:
    """Return the report as one self-contained page; every text in it is escaped."""
    return render_page("comparison_report", page_content(comparison))
