"""What every step of an erasure needs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten


@dataclass(frozen=True, slots=True)
class ErasureContext:
    """An erasure under way.

    Attributes:
        stores: Where to erase.
        forgotten: All that was ever forgotten: each erasure also does what an interrupted one left.
        erasure_id: The erasure that counts the rows.
        hold: The lock of the erasure: checked before each change that is no commit of a part.
        clock: Returns the current time.
        report: Called after each commit with a few words on it, to show progress.
    """

    stores: Stores
    forgotten: Forgotten
    erasure_id: int
    hold: Hold
    clock: Callable[[], datetime]
    report: Callable[[str], None]

    def done(self, what: str) -> None:
        """Report a commit, and note that the erasure goes on."""
        self.hold.note_progress()
        self.report(what)
