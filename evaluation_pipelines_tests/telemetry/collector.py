"""A collector that appends telemetry to files and counts the written records."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from evaluation_pipelines.telemetry.domain.shapes import IngestCounts
from evaluation_pipelines_tests.world import claude, line, request

FIRST_DAY_S = -480 * 86_400
"""2025-02-06 as an offset from the noon of the builders: in the past on any machine."""

_SESSIONS_A_DATE = 4
_LINES_A_FILE = 150  # then it is rotated
_UNKNOWN = json.dumps(request([claude("noise")], scope="elsewhere")).replace("claude_code.", "")


def seeded(seed: int) -> Random:
    """Return a random generator that is the same in every run."""
    return Random(seed)  # noqa: S311 - nothing here is secret


@dataclass
class Collector:
    """Writes lines of all kinds to several files, and counts them without the tested reader.

    Every event has a unique number. The records of a line belong to sessions of many dates, so
    even a small batch has many parts. Lines are cut at any byte between two writes, some are
    sent twice, and a long file is renamed and started again as by the file exporter of the
    OpenTelemetry Collector: the newline of its last line is written to the new file.

    Attributes:
        root: The landing folder.
        seed: Seed of all random choices.
        dates: Number of days on which sessions begin.
        hours: Length of sessions; more than 24 hours continue after midnight.
        written: Counts that ingest must reach in the end.
        numbers: Event number -> number of times written.
    """

    root: Path
    seed: int
    dates: int = 12
    hours: int = 30
    written: IngestCounts = field(default_factory=IngestCounts)
    numbers: Counter[int] = field(default_factory=Counter)
    files: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("a", "b/c", "d"), 0))
    _random: Random = field(init=False)
    _tails: dict[str, bytes] = field(default_factory=dict)
    _sent: list[tuple[bytes, list[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = seeded(self.seed)

    def append(self, lines: int, pause_s: float = 0.0005) -> None:
        """Write ``lines`` lines to files chosen at random, with a pause after each."""
        for _ in range(lines):
            name = self._random.choice(list(self.files))
            self._write(name, self._tails.pop(name, b"") + self._line())
            self.files[name] += 1
            if self.files[name] % _LINES_A_FILE == 0:
                self._rotate(name)
            time.sleep(pause_s)

    def finish(self) -> None:
        """Write the rest of every incomplete line."""
        while self._tails:
            self._put(*self._tails.popitem())

    def _line(self) -> bytes:
        kind = self._random.random()
        if kind < 0.85:
            return self._events()
        self.written.lines += 1
        if kind < 0.88:
            self.written.quarantined += 1
            return b"not telemetry at all\n"
        if kind < 0.91:
            self.written.skipped += 1
            return b'{"resourceMetrics": []}\n'
        if kind < 0.93:
            self.written.unattributed += 1
            return line(claude("user_prompt", session__id=""))
        if kind < 0.95:
            self.written.unknown_records += 1
            return _UNKNOWN.encode() + b"\n"
        self.written.lines -= 1
        return self._resend()

    def _events(self) -> bytes:
        numbers = [len(self.numbers) + n for n in range(self._random.randint(1, 8))]
        content = line(*map(self._record, numbers))
        self._sent.append((content, numbers))
        return self._count(content, numbers)

    def _resend(self) -> bytes:
        return self._count(*self._random.choice(self._sent)) if self._sent else self._events()

    def _count(self, content: bytes, numbers: list[int]) -> bytes:
        self.numbers.update(numbers)
        self.written.lines += 1
        self.written.events += len(numbers)
        return content

    def _record(self, number: int) -> dict[str, Any]:
        session = self._random.randrange(self.dates * _SESSIONS_A_DATE)
        # The builders' second 0 is noon; the day begins 12 hours earlier.
        day = FIRST_DAY_S + (session % self.dates) * 86_400 - 12 * 3600
        # Times differ: equal records are one event, whatever a foreign attribute (n) says.
        second = day + self._random.randrange(self.hours * 3600) + number % 1000 / 1000
        sent: dict[str, object] = {"session__id": f"s{session}", "n": number}
        if self._random.random() < 0.5:
            sent |= {"tool_name": "Read", "success": str(number % 3 > 0).lower()}
            return claude("tool_result", second, duration_ms="12", **sent)
        return claude("user_prompt", second, **sent)

    def _write(self, name: str, content: bytes) -> None:
        """Write all, or cut the last line and write its rest before the next one."""
        cut = len(content)
        if self._random.random() < 0.4:
            cut -= self._random.randrange(1, len(content) - content.rfind(b"\n", 0, -1))
            self._tails[name] = content[cut:]
        self._put(name, content[:cut])

    def _put(self, name: str, content: bytes) -> None:
        path = self.root / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as handle:
            handle.write(content)
        self.written.bytes += len(content)

    def _rotate(self, name: str) -> None:
        rest = self._tails.pop(name, b"")
        # A line that is not JSON is complete only with its newline.
        self._put(name, rest.removesuffix(b"\n") if rest.endswith(b"}\n") else rest)
        path = self.root / f"{name}.jsonl"
        path.rename(path.with_name(f"{path.stem}-{self.files[name]}.jsonl"))
        self._put(name, b"\n")
