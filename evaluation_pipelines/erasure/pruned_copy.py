"""A landing file in any encoding, piece by piece without what was forgotten."""

import os
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from evaluation_pipelines.erasure.domain.prune import Pruner
from evaluation_pipelines.erasure.messages import prune_message
from evaluation_pipelines.settings.telemetry import TelemetrySettings
from evaluation_pipelines.storage.raw_lines import RawLine, read_at, size_of
from evaluation_pipelines.telemetry.documents import ZSTD, Documents, FileFormat
from evaluation_pipelines.telemetry.domain.protobuf import looks_like_request
from evaluation_pipelines.telemetry.reading import open_documents

_TOO_LONG = "has a line that is too long or damaged to be looked at"


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes ``offset`` to ``end`` of a file, and what is left of them.

    ``why_kept`` says why they could not be looked at.
    """

    offset: int
    end: int
    content: bytes
    kept: bytes
    why_kept: str | None = None

    @property
    def has_trace(self) -> bool:
        """True if something of it was taken out."""
        return self.kept != self.content


def pieces(handle: BinaryIO, settings: TelemetrySettings, pruner: Pruner) -> Iterator[Piece]:
    """Yield a whole file, in order and without gaps; offsets are as those of ingest.

    Raises:
        OSError: The file cannot be read.
    """
    documents = open_documents(handle, settings)
    end = 0
    for line in documents.read(0):
        if end < line.offset:  # a byte order mark
            yield _verbatim(handle, end, line.offset)
        yield _piece(handle, documents, line, pruner)
        end = line.next_offset
    if not documents.form.is_stream:
        size = size_of(handle)
        if end < size:
            yield _tail(handle, end, size, pruner)
    elif documents.unfinished is not None:
        yield Piece(end, end, b"", b"", documents.unfinished)


def packed(handle: BinaryIO, form: FileFormat) -> AbstractContextManager[BinaryIO]:
    """Return a stream to write pieces to, which compresses them as the file is."""
    if not form.is_stream:
        return nullcontext(handle)
    import pyarrow as pa  # slow to import, and rarely needed

    # It closes what it is given at its end.
    own = os.fdopen(os.dup(handle.fileno()), "wb")
    return cast(
        AbstractContextManager[BinaryIO],
        pa.CompressedOutputStream(pa.PythonFile(own, mode="w"), form.name.lower()),
    )


def _piece(handle: BinaryIO, documents: Documents, line: RawLine, pruner: Pruner) -> Piece:
    if documents.form is FileFormat.MESSAGES:
        return _message(handle, line, pruner)
    newlines = b"\n" * (line.next_offset - line.offset - len(line.text))
    content = line.text + newlines
    if line.defect is not None or line.is_overlong:
        if not documents.form.is_stream:
            content = read_at(handle, line.next_offset - line.offset, line.offset)
        return Piece(line.offset, line.next_offset, content, content, _TOO_LONG)
    if not line.text.strip():
        return Piece(line.offset, line.next_offset, content, content)
    text = pruner.line(line.text)
    kept = content
    if text != line.text:
        kept = b"" if text is None else text + b"\n"
    return Piece(line.offset, line.next_offset, content, kept)


def _message(handle: BinaryIO, line: RawLine, pruner: Pruner) -> Piece:
    content = read_at(handle, line.next_offset - line.offset, line.offset)
    if line.defect is not None or line.is_overlong:
        return Piece(line.offset, line.next_offset, content, content, _TOO_LONG)
    message = content[4:]
    is_packed = message.startswith(ZSTD)
    request = _unpacked(message) if is_packed else message
    prune = prune_message if looks_like_request(request) else _prune_text
    left = prune(request, pruner)
    if left == request:
        return Piece(line.offset, line.next_offset, content, content)
    kept = b""
    if left is not None:
        body = _packed(left) if is_packed else left
        kept = struct.pack(">I", len(body)) + body
    return Piece(line.offset, line.next_offset, content, kept)


def _prune_text(request: bytes, pruner: Pruner) -> bytes | None:
    return pruner.line(request)


def _unpacked(message: bytes) -> bytes:
    import pyarrow as pa

    content: bytes = pa.CompressedInputStream(pa.BufferReader(message), "zstd").read()
    return content


def _packed(request: bytes) -> bytes:
    import pyarrow as pa

    sink: Any = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(request)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _verbatim(handle: BinaryIO, start: int, end: int) -> Piece:
    content = read_at(handle, end - start, start)
    return Piece(start, end, content, content)


def _tail(handle: BinaryIO, start: int, end: int, pruner: Pruner) -> Piece:
    """Return the incomplete line at the end of a file: it is taken out whole, or kept."""
    content = read_at(handle, end - start, start)
    kept = content if pruner.line(content) is not None else b""
    return Piece(start, end, content, kept)
