"""Files of the reports: in a folder of this machine, or below the URL of an object store."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evaluation_pipelines.reporting.pages import write_page
from evaluation_pipelines.storage.open_store import open_object_store
from evaluation_pipelines.storage.store import share
from evaluation_pipelines.storage.stores import Stores

if TYPE_CHECKING:
    from evaluation_pipelines.storage.object_store import ObjectStore

_TYPES = {"html": "text/html; charset=utf-8", "md": "text/markdown; charset=utf-8"}
"""Type of the content of an object, by the end of its name."""


@dataclass(frozen=True, slots=True)
class Report:
    """Paths or URLs of the two forms of a report."""

    html: Path | str
    markdown: Path | str

    @property
    def addresses(self) -> tuple[str, str]:
        """The names by which other programs find them: HTML, then Markdown."""
        return _address(self.html), _address(self.markdown)


class ReportFiles(Protocol):
    """Reports by name; each may be replaced."""

    def write(self, name: str, text: str) -> Path | str:
        """Replace a report as a whole; return its path or URL.

        Raises:
            OSError: It cannot be written.
        """

    def list(self) -> list[str]:
        """Return the names of all reports.

        Raises:
            OSError: They cannot be listed.
        """

    def delete(self, name: str) -> None:
        """Delete a report, if it exists.

        Raises:
            OSError: It cannot be deleted.
        """


def report_files(stores: Stores) -> ReportFiles:
    """Return the reports that the settings name; nothing is read or written yet.

    Raises:
        UnknownStoreError: There is no such kind of store, or its client is not installed.
    """
    location = stores.settings.reports_dir
    if isinstance(location, Path):
        return FolderReports(location, stores.group_id)
    return ObjectReports(open_object_store(location))


def write_both(files: ReportFiles, name: str, html: str, markdown: str) -> Report:
    """Replace a report as HTML and as Markdown.

    Raises:
        OSError: One cannot be written.
    """
    return Report(files.write(f"{name}.html", html), files.write(f"{name}.md", markdown))


class FolderReports:
    """Reports in a folder, which a group may read as well."""

    def __init__(self, folder: Path, group_id: int | None = None) -> None:
        self._folder, self._group_id = folder, group_id

    def write(self, name: str, text: str) -> Path:
        """Replace a report; open files stay readable. See ``ReportFiles.write``."""
        path = self._folder / name
        self._folder.mkdir(parents=True, exist_ok=True)
        write_page(path, text)
        for each in (self._folder, path):
            share(each, self._group_id)
        return path

    def list(self) -> list[str]:
        """Return the names of all files of the folder and of those in it."""
        found = (each for each in self._folder.glob("**/*") if each.is_file())
        return sorted(each.relative_to(self._folder).as_posix() for each in found)

    def delete(self, name: str) -> None:
        """Delete a file; see ``ReportFiles.delete``."""
        (self._folder / name).unlink(missing_ok=True)


class ObjectReports:
    """Reports in a bucket; who may read them is up to the bucket."""

    def __init__(self, store: "ObjectStore") -> None:
        self._store = store

    def write(self, name: str, text: str) -> str:
        """Put an object, or another one in its place; see ``ReportFiles.write``."""
        self._store.overwrite(name, text.encode(), _TYPES[_ending(name)])
        return self._store.where(name)

    def list(self) -> list[str]:
        """Return the keys of pages and texts; what lies deeper, such as a lake, is left out."""
        found = (each.path for each in self._store.list(""))
        return [each for each in found if "/" not in each and _ending(each) in _TYPES]

    def delete(self, name: str) -> None:
        """Delete an object; see ``ReportFiles.delete``."""
        self._store.delete(name)


def _ending(name: str) -> str:
    return name.rpartition(".")[2]


def _address(place: Path | str) -> str:
    return str(place.absolute()) if isinstance(place, Path) else place
