"""Where telemetry lands: a small protocol, and which of its implementations a setting means."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from evaluation_pipelines.storage.landing import Head, Landing, LandingFile, SkippedFile
from evaluation_pipelines.storage.store import open_object_store

if TYPE_CHECKING:
    from evaluation_pipelines.storage.object_landing import ObjectLanding


class LandingSource(Protocol):
    """Files with telemetry and signals, by path."""

    @property
    def location(self) -> Path | str:
        """The place, as ``open_landing`` takes it."""

    @property
    def folder(self) -> Path | None:
        """The folder of this machine that the files are in; None if they are elsewhere."""

    @property
    def objects(self) -> "ObjectLanding | None":
        """The same files if they are objects, which can be replaced as a whole."""

    @property
    def grows(self) -> bool:
        """True if files may be appended to, renamed and emptied; False if they never change."""

    def where(self, path: str = "") -> str:
        """Return the full name of a file, or of the place, to show to users."""

    def shown(self, path: str) -> str:
        """Return the name of a file to show next to that of the place, or of several places."""

    def relative(self, given: str) -> str:
        """Return the path of a file that users named by its path or its full name."""

    def shell_input(self, path: str, command: str) -> str:
        """Return a shell command that gives a file to a command, whose options are complete."""

    def list_files(
        self, known: Collection[tuple[int, int]] = ()
    ) -> tuple[list[LandingFile], list[SkippedFile]]:
        """Return all telemetry files, sorted by path, and skipped entries.

        Files of ``known`` devices and inodes are listed under any name.

        Raises:
            LandingError: The place does not answer, or refuses.
        """

    def list_said(self, kind: str) -> tuple[list[LandingFile], list[SkippedFile]]:
        """Return the ``*.jsonl`` files of ``signals`` or ``evaluations``; as ``list_files``."""

    def fingerprint(self) -> str:
        """Return a text that changes with any file; raises as ``list_files``."""

    def delete(self, file: LandingFile) -> bool:
        """Delete a file unless it has changed, or another program has it open, or may have.

        Returns:
            True if it was deleted.

        Raises:
            OSError: It cannot be deleted.
            LandingError: The place does not answer.
        """

    def prefetch(self, files: Sequence[LandingFile]) -> None:
        """Prepare to open files, in this order, if opening them one by one takes longer.

        Raises:
            LandingError: The place does not answer.
        """

    def open(self, file: LandingFile) -> BinaryIO:
        """Open a file that was listed.

        Raises:
            FileNotFoundError: It was moved, deleted or replaced; perhaps only when it is read.
            OSError: It cannot be read.
            LandingError: The place does not answer.
        """

    def open_elsewhere(self, file: LandingFile, head: Head) -> BinaryIO:
        """Open a file that another machine listed, and whose first bytes are known.

        Raises as ``open``.
        """


def open_landing(location: Path | str) -> LandingSource:
    """Return the files at a place, a folder or the URL of an object store; nothing is read yet.

    Raises:
        UnknownStoreError: There is no such kind of store, or its client is not installed.
    """
    if isinstance(location, Path):
        return Landing(location)
    store = open_object_store(location)
    from evaluation_pipelines.storage.object_landing import ObjectLanding  # slow, rarely needed

    return ObjectLanding(store)
