"""The report of a model comparison, written where people look for it."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evaluation_pipelines.comparison.compare_models import (
    compare_models,
    last_days,
    write_comparison,
)
from evaluation_pipelines.comparison.domain.compare import Comparison, Question
from evaluation_pipelines.reporting.domain.comparison_report.markdown import markdown_report
from evaluation_pipelines.reporting.domain.comparison_report.page import html_page
from evaluation_pipelines.storage.stores import Stores

NAME = "model_comparison"


@dataclass(frozen=True, slots=True)
class Report:
    """Where the two forms of a report lie."""

    html: Path
    markdown: Path


def write_report(folder: Path, comparison: Comparison) -> Report:
    """Write the report as HTML and as markdown; who reads the old one meanwhile keeps it.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report = Report(folder / f"{NAME}.html", folder / f"{NAME}.md")
    _write(report.html, html_page(comparison))
    _write(report.markdown, markdown_report(comparison))
    return report


def refresh_comparison(stores: Stores, now: datetime) -> tuple[Comparison, Report]:
    """Compare the models of the last 28 complete days; tables and report are written anew.

    Raises:
        LakeError: a file cannot be read or written.
        OSError: the report cannot be written.
    """
    found = compare_models(stores, Question(*last_days(now)), now)
    write_comparison(stores, found)
    return found, write_report(stores.settings.reports_dir, found)


def _write(path: Path, text: str) -> None:
    staged = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        staged.write_text(text, encoding="utf-8")
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
