"""The report of a model comparison as an HTML page and as Markdown, and where it is."""

from dataclasses import dataclass
from datetime import datetime

from evaluation_pipelines.comparison.compare_models import (
    compare_models,
    usual_question,
    write_comparison,
)
from evaluation_pipelines.comparison.domain.compare import Comparison, for_reviewer
from evaluation_pipelines.reporting.domain.comparison_report import markdown_report, page_content
from evaluation_pipelines.reporting.pages import render_page
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews
from evaluation_pipelines.storage.store import Store, open_store
from evaluation_pipelines.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The two forms of a report, by their full names for people.

    Attributes:
        html: Path or URL of the page.
        markdown: Path or URL of the text.
        addresses: The names by which other programs find them: HTML, then Markdown.
    """

    html: str
    markdown: str
    addresses: tuple[str, str]


def report_files(stores: Stores) -> Store:
    """Return the store of the reports that the settings name; nothing is read or written yet.

    Raises:
        UnknownStoreError: There is no such kind of store, or its client is not installed.
    """
    return open_store(stores.settings.reports_dir, stores.group_id)


def list_reports(files: Store) -> list[str]:
    """Return the names of all pages and texts; what lies deeper, such as a lake, is left out.

    Raises:
        OSError: They cannot be listed.
    """
    found = (file.path for file in files.list(""))
    return [name for name in found if "/" not in name and name.endswith((".html", ".md"))]


NAME = "model_comparison"


def write_report(stores: Stores, comparison: Comparison) -> ReportFiles:
    """Replace the report as HTML and as Markdown; it names no session that awaits a blind review.

    Raises:
        LedgerError: The ledger cannot be used.
        OSError: It cannot be written.
    """
    shown, files = for_reviewer(comparison, BlindReviews(stores).waiting()), report_files(stores)
    page, text = f"{NAME}.html", f"{NAME}.md"
    files.put(page, html_page(shown).encode(), shared=True, replaces=True)
    files.put(text, markdown_report(shown).encode(), shared=True, replaces=True)
    addresses = files.address(page), files.address(text)
    return ReportFiles(files.where(page), files.where(text), addresses)


def refresh_comparison(stores: Stores, now: datetime) -> ReportFiles:
    """Compare the models of the last 28 complete days, and replace tables and report.

    Raises:
        LakeError: a file cannot be read or written.
        OSError: the report cannot be written.
    """
    found = compare_models(stores, usual_question(stores.settings, now), now)
    write_comparison(stores, found)
    return write_report(stores, found)


def html_page(comparison: Comparison) -> str:
    """Return the report as one self-contained page; every text in it is escaped."""
    return render_page("comparison_report", page_content(comparison))
