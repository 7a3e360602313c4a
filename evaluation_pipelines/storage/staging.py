"""Lake of a build: what it writes is current for itself at once, and for all others together."""

from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, date, datetime

from evaluation_pipelines.schemas import Table
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.parts import NewPart


class StagingLake(Lake):
    """A lake whose new parts only it reads until ``commit`` makes all those of a date current.

    Threads may use it for different dates at the same time.
    """

    def __init__(self, lake: Lake, ledger: Ledger) -> None:
        super().__init__(lake.store, Manifest(ledger))
        self._ledger = ledger
        self._staged: dict[date | None, list[NewPart]] = {}

    def switch(self, parts: Collection[NewPart], _hold: Hold | None = None) -> None:
        """Stage parts in place of the current ones; ``commit`` checks the locks."""
        for part in parts:
            others = [each for each in self._of(part.session_date) if not part.replaces(each)]
            self._staged[part.session_date] = [*others, part]

    def staged(self) -> list[NewPart]:
        """Return the staged parts of all dates."""
        return [part for parts in self._staged.values() for part in parts]

    def commit(self, day: date, hold: Hold | None = None) -> None:
        """Make the staged parts of a date current in one transaction.

        Raises:
            LockLostError: The locks of ``hold`` are lost; nothing has changed.
            LakeError: A staged file is gone, for example since the machine slept for hours while
                another one swept the date; nothing has changed.
            LedgerError: The ledger cannot be used; nothing has changed.
        """
        if gone := [part.path for part in self._of(day) if not self.store.exists(part.path)]:
            raise LakeError(
                f"{', '.join(gone)} of {self.where()} was deleted while {day} was built."
            )
        Manifest(self._ledger).switch(self._of(day), datetime.now(UTC), hold)
        self.forget(day)

    def discard(self, day: date) -> None:
        """Delete the staged parts of a date, which were not committed: the disk may be full."""
        for part in self._of(day):
            with suppress(OSError):  # swept later, like the files of a crash
                self.store.delete(part.path)
        self.forget(day)

    def forget(self, day: date) -> None:
        """Forget the staged parts of a date, but keep their files.

        After an error of ``commit``: the ledger may have them although its answer was lost.
        """
        self._staged.pop(day, None)

    def _of(self, day: date | None) -> list[NewPart]:
        return self._staged.get(day, [])

    def _current(self, table: Table, dates: Collection[date | None] | None) -> list[NewPart]:
        staged = [
            part
            for day in (list(self._staged) if dates is None else dates)
            for part in self._of(day)
            if part.table_name == table.name
            and self.shard.overlaps(part.first_bucket, part.last_bucket)
        ]
        current = super()._current(table, dates)
        return [part for part in current if not any(new.replaces(part) for new in staged)] + staged
