"""The report of a model comparison as an HTML page and as Markdown."""

from datetime import datetime

from evaluation_pipelines.comparison.compare_models import (
    compare_models,
    usual_question,
    write_comparison,
)
from evaluation_pipelines.comparison.domain.compare import Comparison, for_reviewer
from evaluation_pipelines.reporting.domain.comparison_report import markdown_report, page_content
from evaluation_pipelines.reporting.pages import render_page
from evaluation_pipelines.reporting.report_files import (
    Report,
    report_files,
    write_both,
)
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews
from evaluation_pipelines.storage.stores import Stores

NAME = "model_comparison"


def write_report(stores: Stores, comparison: Comparison) -> Report:
    """Replace the report as HTML and as Markdown; it names no session that awaits a blind review.

    Raises:
        LedgerError: The ledger cannot be used.
        OSError: It cannot be written.
    """
    shown = for_reviewer(comparison, BlindReviews(stores).waiting())
    return write_both(report_files(stores), NAME, html_page(shown), markdown_report(shown))


def refresh_comparison(stores: Stores, now: datetime) -> tuple[Comparison, Report]:
    """Compare the models of the last 28 complete days, and replace tables and report.

    Raises:
        LakeError: a file cannot be read or written.
        OSError: the report cannot be written.
    """
    found = compare_models(stores, usual_question(stores.settings, now), now)
    write_comparison(stores, found)
    return found, write_report(stores, found)


def html_page(comparison: Comparison) -> str:
    """Return the report as one self-contained page; every text in it is escaped."""
    return render_page("comparison_report", page_content(comparison))
