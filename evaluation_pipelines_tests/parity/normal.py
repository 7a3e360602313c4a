"""Values in a form that is the same for two runs of the same code."""

import math
import re
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

DIGITS = 9

VOLATILE = frozenset(
    {
        *("part_id", "ledger_id", "latency_ms", "score_id", "key_id"),
        # By the clock of ClickHouse.
        *("computed_at", "newest"),
        # Of an event that was sent twice, the copy is kept whose file has the lower inode.
        *("source_file_id", "file_id", "modified_at"),
    }
)
"""Names of columns and fields whose values are made anew by every run."""

_TOKENS = (
    (re.compile(r"\b[0-9a-f]{1,8}-[0-9a-f]{5,}-\d+\b"), "<file id>"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://127.0.0.1:<port>"),
    (re.compile(r"could not be read, the newest: .*"), "could not be read, the newest: <one>"),
    (re.compile(r"\d+(\.\d+)? [GM]iB free"), "<space> free"),
    (re.compile(r"[^/\s]+\.parquet"), "<file>.parquet"),
    (re.compile(r"analytics-[^/]+\.duckdb"), "analytics-<unique>.duckdb"),
)


class Normal:
    """Normalizes values of one data folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, value: Any, name: str = "") -> Any:
        """Return a value as JSON: floats of nine digits, volatile texts as tokens."""
        if name in VOLATILE and value is not None:
            return f"<{name}>"
        found = value
        match value:
            case float() | Decimal():
                number = float(value)
                is_finite = math.isfinite(number)
                found = float(f"{number:.{DIGITS}g}") if is_finite else str(number)
            case str():
                found = self._text(value)
            case date():
                found = value.isoformat()
            case timedelta():
                found = value.total_seconds()
            case bytes():
                found = value.hex()
            case Mapping():
                found = {str(key): self(each, str(key)) for key, each in value.items()}
            case list() | tuple():
                found = [self(each, name) for each in value]
        return found

    def _text(self, text: str) -> str:
        text = text.replace(self._folder, "<folder>")
        for pattern, token in _TOKENS:
            text = pattern.sub(token, text)
        return text
