"""Messages between an ingest and its workers: MessagePack with a length prefix.

Events are passed in an unnamed file of the worker, not through the pipe. A pipe accepts them in
many small pieces, and for each piece the reading thread waits for Python's lock.
"""

import os
import struct
from collections import Counter
from datetime import datetime
from typing import Any, BinaryIO, TypeVar

import msgspec
import polars as pl

from evaluation_pipelines.storage.landing import LandingFile
from evaluation_pipelines.telemetry.domain.counts import IngestCounts
from evaluation_pipelines.telemetry.domain.reader import EventBatch, QuarantinedLine

_LENGTH = struct.Struct(">Q")

Message = TypeVar("Message", bound=msgspec.Struct)


class DecodeRequest(msgspec.Struct, frozen=True):
    """Request to decode a byte range of a file in ``root`` with the given telemetry settings."""

    root: str
    file: LandingFile
    file_id: str
    start: int
    end: int
    now: datetime
    settings: dict[str, Any]


class DecodedRange(msgspec.Struct, frozen=True):
    """Decoded batch; its events are the last ``events_bytes`` of the worker's file, if any."""

    events_bytes: int = 0
    quarantined: list[QuarantinedLine] = []
    counts: IngestCounts | None = None
    names: list[tuple[tuple[str, str], int]] = []

    @classmethod
    def of(cls, batch: EventBatch, file: BinaryIO) -> "DecodedRange":
        """Return a batch as a message; its events go to ``file`` as an Arrow stream."""
        file.seek(0)
        batch.events.write_ipc_stream(file, compat_level=pl.CompatLevel.newest())
        names = list(batch.names.items())
        return cls(file.tell(), batch.quarantined, batch.counts, names)

    def batch(self, file: BinaryIO) -> EventBatch | None:
        """Return the batch of the message."""
        if self.counts is None:
            return None
        events = pl.read_ipc_stream(os.pread(file.fileno(), self.events_bytes, 0))
        return EventBatch(events, self.quarantined, self.counts, Counter(dict(self.names)))


def send(pipe: BinaryIO, message: msgspec.Struct) -> None:
    """Write a message to a pipe."""
    packed = msgspec.msgpack.encode(message)
    pipe.write(_LENGTH.pack(len(packed)))
    pipe.write(packed)
    pipe.flush()


def receive(pipe: BinaryIO, kind: type[Message]) -> Message | None:
    """Read a message from a pipe; None if the other side has closed it."""
    prefix = pipe.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(prefix)
    packed = pipe.read(length)
    return msgspec.msgpack.decode(packed, type=kind) if len(packed) == length else None
