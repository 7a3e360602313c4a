"""Files of the reports, which are replaced as a whole: in a folder, or below a URL."""

from dataclasses import dataclass

from evaluation_pipelines.storage.store import Store, open_store
from evaluation_pipelines.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class Report:
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


def write_both(files: Store, name: str, html: str, markdown: str) -> Report:
    """Replace a report as HTML and as Markdown.

    Raises:
        OSError: One cannot be written.
    """
    page, text = f"{name}.html", f"{name}.md"
    files.put(page, html.encode(), shared=True, replaces=True)
    files.put(text, markdown.encode(), shared=True, replaces=True)
    return Report(files.where(page), files.where(text), (files.address(page), files.address(text)))


def list_reports(files: Store) -> list[str]:
    """Return the names of all pages and texts; what lies deeper, such as a lake, is left out.

    Raises:
        OSError: They cannot be listed.
    """
    found = (each.path for each in files.list(""))
    return [each for each in found if "/" not in each and each.endswith((".html", ".md"))]
