"""The exporter inside an agent program: it sends its records every five seconds."""

from typing import NamedTuple

from evaluation_pipelines_tests.telemetry_generator.records import Records

_INTERVAL_MS = 5000


class Request(NamedTuple):
    """One export request: when it is sent, its JSON (one of ``resourceLogs``), how many records."""

    sent_ms: int
    text: str
    records: int


class Exporter:
    """Collects the records of one process into requests."""

    def __init__(self, records: Records) -> None:
        self.requests: list[Request] = []
        self._records = records
        self._waiting: list[str] = []
        self._due_ms = 0

    def add(self, time_ms: int, record: str) -> None:
        """Take a record; times never go back."""
        if time_ms >= self._due_ms:
            self.flush()
            self._due_ms = time_ms + _INTERVAL_MS
        self._waiting.append(record)

    def flush(self) -> None:
        """Send what is waiting."""
        if self._waiting:
            text = f"{self._records.before}{','.join(self._waiting)}{self._records.after}"
            self.requests.append(Request(self._due_ms, text, len(self._waiting)))
            self._waiting = []
