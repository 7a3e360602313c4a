"""Progress of long steps as lines of the run's log."""

import time
from collections.abc import Callable
from logging import Logger

_SECONDS_BETWEEN_LINES = 5.0


class LoggedProgress:
    """Progress that logs units done, total, rate and details every few seconds."""

    def __init__(self, log: Logger, also: Callable[[], None] = lambda: None) -> None:
        """Log to ``log``; ``also`` is called after each line."""
        self._log = log
        self._also = also
        self._what, self._total, self._done = "", 0, 0
        self._detail = ""
        self._began = self._logged = time.monotonic()

    def begin(self, what: str, total: int) -> None:
        """Start a step of ``total`` units."""
        self._what, self._total, self._done = what, total, 0
        self._began = self._logged = time.monotonic()

    def advance(self, units: int) -> None:
        """Advance the progress by ``units``."""
        self._done += units
        now = time.monotonic()
        if now - self._logged >= _SECONDS_BETWEEN_LINES or self._done >= self._total:
            self._logged = now
            rate = self._done / max(now - self._began, 1e-9)
            so_far = f"{self._what}: {self._done} of {self._total} ({rate:.3g}/s)"
            self._log.info("%s%s", so_far, self._detail)
            self._also()

    def tell(self, detail: str) -> None:
        """Add ``detail`` to the lines that follow."""
        self._detail = f", {detail}"
