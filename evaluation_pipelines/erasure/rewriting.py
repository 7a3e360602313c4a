"""What is left of a landing file or object without the records of what was forgotten."""

import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

from evaluation_pipelines.erasure.context import ErasureContext
from evaluation_pipelines.erasure.domain.prune import Pruner
from evaluation_pipelines.settings.data import TelemetrySettings
from evaluation_pipelines.storage.landing import Head, LandingFile
from evaluation_pipelines.storage.raw_lines import RawLine, read_at, size_of
from evaluation_pipelines.telemetry.documents import ZSTD, Documents, FileFormat, file_format
from evaluation_pipelines.telemetry.domain.protobuf import looks_like_request
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFile, SourceFiles
from evaluation_pipelines.telemetry.reading import open_documents
from evaluation_pipelines.telemetry.received import organization_of
from evaluation_pipelines.telemetry.unread_files import is_same_file, newest_generations


def prune_message(content: bytes, pruner: Pruner) -> bytes | None:
    """Return a request without what was forgotten; None if nothing of it is left.

    One that has nothing of it, or is no request, is returned as it is. Requests of all signals have
    their records at the same place, so those of logs stand for all; what is not known stays.
    """
    # Slow to import, and most telemetry is JSON.
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    try:
        request = ExportLogsServiceRequest.FromString(content)
    except DecodeError:
        return content
    scopes = [(scope, entry) for entry in request.resource_logs for scope in entry.scope_logs]
    number = sum(_prune_records(scope, entry.resource, pruner) for scope, entry in scopes)
    if not number:
        return content
    for entry in list(request.resource_logs):
        for scope in [each for each in entry.scope_logs if not each.log_records]:
            entry.scope_logs.remove(scope)
        if not entry.scope_logs:
            request.resource_logs.remove(entry)
    return request.SerializeToString() if request.resource_logs else None


def _prune_records(scope: Any, resource: Any, pruner: Pruner) -> int:
    """Take records out of a scope; return how many."""
    from google.protobuf.json_format import MessageToDict

    context = MessageToDict(resource)
    kept = [each for each in scope.log_records if not pruner.is_gone(_as_any_signal(each), context)]
    number = len(scope.log_records) - len(kept)
    if number:
        del scope.log_records[:]
        scope.log_records.extend(kept)
    return number


def _as_any_signal(record: Any) -> dict[str, Any]:
    """Return a record read as one of logs, with the same read as a span and as a metric."""
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError

    content = record.SerializeToString()
    read: dict[str, Any] = MessageToDict(record)
    for name, kind in _other_kinds():
        try:
            read[name] = MessageToDict(kind.FromString(content))
        except DecodeError:
            continue
    return read


def _other_kinds() -> Iterator[tuple[str, Any]]:
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    yield "span", Span
    yield "metric", Metric


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


class KeptError(Exception):
    """A file still has something, or its older versions may have; the message says why."""


def pruned(context: ErasureContext, file: LandingFile, handle: BinaryIO) -> Iterator[Piece]:
    """Yield the pieces of a file, each with what is left of it."""
    pruner = Pruner(context.forgotten, organization_of(file.path))
    return pieces(handle, context.stores.settings, pruner)


def source_file(context: ErasureContext, file: LandingFile, handle: BinaryIO) -> SourceFile | None:
    """Return the entry of a file in the ledger, None if it was never read."""
    known: Mapping[tuple[int, int], SourceFile] = newest_generations(
        SourceFiles(context.stores.ledger).with_inodes({file.inode})
    )
    source = known.get((file.device, file.inode))
    return source if source is not None and is_same_file(handle, source) else None


def write_pruned(
    context: ErasureContext,
    file: LandingFile,
    handle: BinaryIO,
    new: BinaryIO,
    source: SourceFile | None,
) -> int:
    """Write what is left of a file; return the position in it up to which it was read."""
    read, position = 0 if source is None else source.position, 0
    with packed(new, file_format(handle)) as stream:
        for piece in pruned(context, file, handle):
            stream.write(piece.kept)
            position += len(piece.kept) if piece.end <= read else 0
    new.flush()
    return position


def add_entry(
    context: ErasureContext,
    source: SourceFile,
    identity: tuple[int, int],
    head: Head,
    *,
    size_bytes: int,
    position: int,
    was_finished: bool,
) -> None:
    """Add the new file to the ledger, read as far as the old one."""
    files, (device, inode) = SourceFiles(context.stores.ledger), identity
    same = [each for each in files.with_inodes({inode}) if each.device == device]
    files.add(
        replace(
            source,
            file_id=f"{device:x}-{inode:x}-{len(same)}",
            device=device,
            inode=inode,
            head_bytes=head.size_bytes,
            head_sha256=head.sha256,
            size_bytes=size_bytes,
            changed_at_ns=None,
            position=position,
            finished_size_bytes=size_bytes if was_finished else 0,
        )
    )
