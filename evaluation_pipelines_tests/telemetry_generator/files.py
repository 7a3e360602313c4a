"""A file that is rotated, as a collector's file exporter does it."""

from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

_BUFFER_BYTES = 1024 * 1024


class RotatingFile:
    """Writes ``<name>.jsonl`` and renames it to ``<name>-<time>.jsonl`` when it is full.

    Everything has a hidden name until the end of a ``with`` block: an ingest that runs meanwhile
    sees nothing of it. If the block fails, nothing is left.

    Args:
        folder: Where the files lie; it must exist.
        name: Name without ending.
        rotate_bytes: A file with more is rotated; None for one file, however large.
    """

    def __init__(self, folder: Path, name: str, rotate_bytes: int | None = None) -> None:
        self.written_bytes = 0
        self._folder = folder
        self._live = f"{name}.jsonl"
        self._name = name
        self._rotate_bytes = rotate_bytes
        self._backups: list[str] = []

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._handle.close()
        for name in (*self._backups, self._live):
            hidden = self._folder / f".{name}"
            if error is None:
                hidden.replace(self._folder / name)
            else:
                hidden.unlink()

    def write(self, line: bytes, time_ms: int) -> None:
        """Write a line, which is given without its newline.

        A full file is rotated between line and newline, the worst moment there is: the backup
        ends without a newline, and the file after it begins with one.
        """
        self._put(line)
        if self._rotate_bytes is not None and self._size_bytes > self._rotate_bytes:
            self._rotate(time_ms)
        self._put(b"\n")

    def _begin(self) -> None:
        self._handle = (self._folder / f".{self._live}").open("wb", buffering=_BUFFER_BYTES)
        self._size_bytes = 0

    def _put(self, text: bytes) -> None:
        self._handle.write(text)
        self._size_bytes += len(text)
        self.written_bytes += len(text)

    def _rotate(self, time_ms: int) -> None:
        self._handle.close()
        time = datetime.fromtimestamp(time_ms / 1000, UTC)
        backup = f"{self._name}-{time:%Y-%m-%dT%H-%M-%S}.{time_ms % 1000:03}.jsonl"
        (self._folder / f".{self._live}").rename(self._folder / f".{backup}")
        self._backups.append(backup)
        self._begin()
