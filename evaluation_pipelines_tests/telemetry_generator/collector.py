"""The collector of the demo: requests of many programs become lines of a file, with mishaps.

Requests wait up to ten seconds for others. Now and then a program sends a request again because
it got no answer, metrics and traces come in between, and a line is broken.
"""

import heapq
from collections.abc import Iterable
from itertools import cycle

from evaluation_pipelines_tests.telemetry_generator import strays
from evaluation_pipelines_tests.telemetry_generator.exporter import Request
from evaluation_pipelines_tests.telemetry_generator.files import RotatingFile
from evaluation_pipelines_tests.telemetry_generator.truth import Delivery

RESENT_EVERY = 150
"""Requests after which one is sent again."""
METRICS_EVERY = 40
"""Lines after which a line of metrics is written."""
TRACES_EVERY = 200
"""Lines after which a line of traces is written."""
BROKEN_EVERY = 400
"""Lines after which a broken line is written."""

_WAIT_MS = 10_000
_RESENT_AFTER_MS = 12_000
_LINE_RECORDS = 16
_THE_END_MS = 2**63


class Collector:
    """Writes what it receives, in the order of sending.

    Args:
        file: Where lines go.
        delivery: Counts what was written.
    """

    def __init__(self, file: RotatingFile, delivery: Delivery) -> None:
        self._file = file
        self._delivery = delivery
        self._expected: list[tuple[int, int, Request]] = []
        self._received = 0
        self._waiting: list[str] = []
        self._waiting_records = 0
        self._since_ms = 0
        self._lines = BROKEN_EVERY // 2  # a short file shows a broken line, too
        self._mishaps = cycle(strays.MISHAPS)

    def receive(self, requests: Iterable[Request]) -> None:
        """Take requests that are sent now or later, in any order."""
        for request in requests:
            self._received += 1
            self._delivery.records += request.records
            heapq.heappush(self._expected, (request.sent_ms, self._received, request))
            if self._received % RESENT_EVERY == 0:
                self._delivery.resent_records += request.records
                again_ms = request.sent_ms + _RESENT_AFTER_MS
                heapq.heappush(self._expected, (again_ms, self._received, request))

    def write_until(self, time_ms: int) -> None:
        """Write what was sent before a time (milliseconds since 1970)."""
        while self._expected and self._expected[0][0] < time_ms:
            sent_ms, _, request = heapq.heappop(self._expected)
            is_late = sent_ms - self._since_ms > _WAIT_MS
            if is_late or self._waiting_records + request.records > _LINE_RECORDS:
                self._write_waiting()
                self._since_ms = sent_ms
            self._waiting.append(request.text)
            self._waiting_records += request.records

    def finish(self) -> None:
        """Write all that is left."""
        self.write_until(_THE_END_MS)
        self._write_waiting()

    def _write_waiting(self) -> None:
        if not self._waiting:
            return
        self._lines += 1
        if self._lines % BROKEN_EVERY == 0:
            self._delivery.broken += 1
            self._write(*next(self._mishaps)(self._waiting))
        else:
            self._write(strays.logs_line(self._waiting))
        self._waiting = []
        self._waiting_records = 0
        if self._lines % METRICS_EVERY == 0:
            self._delivery.metrics += 1
            self._write(strays.metrics_line(self._since_ms))
        if self._lines % TRACES_EVERY == 0:
            self._delivery.traces += 1
            self._write(strays.traces_line(self._since_ms))

    def _write(self, *lines: bytes) -> None:
        for line in lines:
            self._delivery.lines += 1
            self._file.write(line, self._since_ms)
