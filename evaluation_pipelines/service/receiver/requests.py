"""OTLP requests: read within limits, checked as ingest will read them, made ready for a file."""

import asyncio
import re
import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from typing import Any, BinaryIO, Self, cast

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.requests import ClientDisconnect, Request

from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.storage.raw_lines import read_lines
from evaluation_pipelines.telemetry.domain.dialects.registry import TRANSCRIPT_READERS
from evaluation_pipelines.telemetry.domain.lenient_json import MalformedLineError
from evaluation_pipelines.telemetry.domain.otlp import Line, decode_line
from evaluation_pipelines.telemetry.domain.protobuf import looks_like_request

_LENGTH = struct.Struct(">I")
_DOCUMENT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{\s*\n")
"""First line of a transcript of one JSON document, such as a session that OpenCode exported."""

_MAX_MESSAGE_BYTES = 2**24 - 1
"""By a first byte of zero ingest tells such a file from others."""


class Signal(StrEnum):
    """What a request carries."""

    LOGS = "logs"
    TRACES = "traces"
    METRICS = "metrics"
    TRANSCRIPTS = "transcripts"


RECEIVER_PATHS = frozenset(f"/v1/{signal}" for signal in Signal)
"""Where requests of the signals are posted."""

_MESSAGES: dict[Signal, Any] = {  # protobuf ships no types
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
}
_NAMES = {
    Signal.LOGS: "resourceLogs",
    Signal.TRACES: "resourceSpans",
    Signal.METRICS: "resourceMetrics",
}


@dataclass(frozen=True, slots=True)
class Checked:
    """A request that can be read.

    Attributes:
        content: What is appended to a file; empty if there is nothing in it.
        records: Number of its log records; 0 for other signals.
        rejected: How many of them will go to quarantine.
    """

    content: bytes
    records: int = 0
    rejected: int = 0


def check_json(body: bytes, signal: Signal, max_attributes: int) -> Checked:
    """Check a request in JSON; its content is one line, otherwise as it came.

    Raises:
        ServiceError: 400, it is no request of the signal.
    """
    if not body.lstrip().startswith(b"{"):
        raise _not_decoded("it is not a JSON object")
    # In JSON an end of line is blank space: within a string it is written as an escape.
    line = body.replace(b"\r", b" ").replace(b"\n", b" ")
    try:
        (request,), defects = decode_line(line)
    except (MalformedLineError, RecursionError) as error:
        raise _not_decoded(str(error)) from None
    if not _has(request, signal):
        if line.translate(None, b" \t") == b"{}":
            return Checked(b"")
        raise _not_decoded(f"it has no {_NAMES[signal]}")
    counts = _attribute_counts(request.resource_logs or ())
    rejected = sum(count > max_attributes for count in counts) + len(defects)
    return Checked(line + b"\n", len(counts) + len(defects), rejected)


def check_protobuf(body: bytes, signal: Signal, max_attributes: int) -> Checked:
    """Check a request in protobuf; its content is the body after its length.

    Raises:
        ServiceError: 400, it is no request of the signal; 413, it is too large for a file.
    """
    if not body:
        return Checked(b"")
    if len(body) > _MAX_MESSAGE_BYTES:
        raise ServiceError(413, "too_large", f"A message may have {_MAX_MESSAGE_BYTES} bytes.")
    try:
        request = _MESSAGES[signal].FromString(body)
    except DecodeError as error:
        raise _not_decoded(str(error)) from None
    if not looks_like_request(body):
        raise _not_decoded("it does not start with a resource")
    counts = _attribute_counts(request.resource_logs) if signal is Signal.LOGS else []
    rejected = sum(count > max_attributes for count in counts)
    return Checked(_LENGTH.pack(len(body)) + body, len(counts), rejected)


def check_transcript(body: bytes, max_line_bytes: int, *, keeps_texts: bool) -> Checked:
    """Read a transcript of any program. Its content is OTLP.

    Raises:
        ServiceError: 400, no program writes such lines.
    """
    if _DOCUMENT.match(body):
        body = body.replace(b"\n", b" ") + b"\n"
    readers = [reader(keeps_texts) for reader in TRANSCRIPT_READERS]
    for reader in readers:
        for line in read_lines(cast(BinaryIO, BytesIO(body)), 0, max_line_bytes):
            reader.read(line.text, line.offset, line.length_bytes)
        reader.finish(is_final=True)
    reader = max(readers, key=lambda reader: len(reader.records))
    if not reader.records:
        message = "This is no transcript of a session of a supported agent."
        raise ServiceError(400, "not_a_transcript", message)
    taken = reader.take(len(body) + 1, "received")
    return Checked(taken.content, taken.records + taken.defects, taken.defects)


def _has(request: Line, signal: Signal) -> bool:
    if signal is Signal.METRICS:
        return request.has_metrics
    sent = request.resource_logs if signal is Signal.LOGS else request.resource_spans
    return sent is not None


def _attribute_counts(resources: Iterable[Any]) -> list[int]:
    return [
        len(record.attributes or ())
        for resource in resources
        for scope in resource.scope_logs or ()
        for record in scope.log_records or ()
    ]


def _not_decoded(reason: str) -> ServiceError:
    return ServiceError(400, "not_otlp", f"This is not an OTLP request: {reason}.")


_LEAST_BYTES = 64 * 1024
"""What a request counts at least, so that many small ones are limited, too."""

_SHARE_OF_CALLER = 4
_RETRY_SECONDS = "2"


class InFlight:
    """Bytes of requests under way; one caller may hold a quarter of ``max_bytes``."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._of_caller: dict[str, int] = {}
        self.total_bytes = 0

    def claim(self, caller: str) -> "Claim":
        """Return the claim of a new request.

        Raises:
            ServiceError: 429 or 503, as ``Claim.grow`` does.
        """
        claim = Claim(self, caller)
        claim.grow(_LEAST_BYTES)
        return claim

    def add(self, caller: str, size_bytes: int) -> None:
        """Count bytes; negative ones are given back.

        Raises:
            ServiceError: 429, the caller holds too many; 503, all together do.
        """
        of_caller, total = (
            self._of_caller.get(caller, 0) + size_bytes,
            self.total_bytes + size_bytes,
        )
        if size_bytes > 0 and of_caller > self._max_bytes // _SHARE_OF_CALLER:
            raise _too_much(429, "too_many_requests", "This key or address sends")
        if size_bytes > 0 and total > self._max_bytes:
            raise _too_much(503, "overloaded", "All clients together send")
        self.total_bytes = total
        if of_caller:
            self._of_caller[caller] = of_caller
        else:
            self._of_caller.pop(caller, None)


class Claim:
    """What one request holds. Use it in a ``with`` block, which gives it back."""

    def __init__(self, in_flight: InFlight, caller: str) -> None:
        self._in_flight, self._caller, self._size_bytes = in_flight, caller, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Give all of it back."""
        self._in_flight.add(self._caller, -self._size_bytes)

    def grow(self, size_bytes: int) -> None:
        """Hold more.

        Raises:
            ServiceError: 429 or 503, too much is under way; the claim is as before.
        """
        self._in_flight.add(self._caller, size_bytes)
        self._size_bytes += size_bytes


def _too_much(status: int, code: str, who: str) -> ServiceError:
    return ServiceError(
        status,
        code,
        f"{who} more at once than can be taken.",
        "Send the request again later.",
        {"Retry-After": _RETRY_SECONDS},
    )


_ZLIB_BITS = {"gzip": 31, "deflate": 15}
"""zlib's numbers of the encodings that it reads, both with header and checksum."""

_RATIO_FREE_BYTES = 1024 * 1024
"""Decompressed size up to which the ratio is not checked."""

_LEAST_DECOMPRESSED_BYTES = 64 * 1024
_PIECE_BYTES = 16 * 1024
"""How much is decompressed at a time; what follows a member within a piece is copied."""

_MAX_MEMBERS = 1000
_MAX_DECOMPRESSION_SECONDS = 5.0


async def read_body(
    request: Request, claim: Claim, *, max_bytes: int, max_ratio: int, seconds: float
) -> bytes:
    """Return the decompressed body.

    Raises:
        ServiceError: 400 cut off or damaged, 408 too slow, 413 too large, 415 an unknown encoding,
            429 or 503 too much at once.
    """
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "zstd", *_ZLIB_BITS):
        message = "Bodies are sent as they are, or as gzip, deflate or zstd."
        raise ServiceError(415, "unknown_encoding", message)
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > max_bytes:
        raise too_large(max_bytes)
    try:
        async with asyncio.timeout(seconds):
            body = await _received(request, claim, max_bytes)
    except TimeoutError:
        raise ServiceError(
            408, "too_slow", f"The body did not arrive within {seconds:g} seconds.", None, _CLOSE
        ) from None
    except ClientDisconnect:
        raise ServiceError(400, "cut_off", "The connection ended within the body.") from None
    if encoding in ("", "identity"):
        return body
    limit = min(max_bytes, max(_RATIO_FREE_BYTES, len(body) * max_ratio))
    claim.grow(min(limit, max(len(body) * 8, _LEAST_DECOMPRESSED_BYTES)))  # about what it will take
    # A few kilobytes may take the event loop long enough that others notice.
    return await asyncio.to_thread(decompressed, body, encoding, limit)


async def _received(request: Request, claim: Claim, max_bytes: int) -> bytes:
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > max_bytes:
            raise too_large(max_bytes)
        claim.grow(len(piece))
        pieces.append(piece)
    return b"".join(pieces)


def decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    """Return the content of a body in gzip, deflate or zstd, of one member (frame) or several.

    Raises:
        ServiceError: 413 more than ``limit`` bytes, 400 damaged, or made to take long.
    """
    pieces, left = list[bytes](), limit
    found = _zstd(body) if encoding == "zstd" else _zlib(body, encoding, limit + 1)
    try:
        for piece in _in_time(found):
            left -= len(piece)
            if left < 0:
                raise too_large(limit)
            pieces.append(piece)
    except (ValueError, OSError, zlib.error) as error:
        message = f"The body is no sound {encoding}: {error}."
        raise ServiceError(400, "damaged", message) from None
    return b"".join(pieces)


def _in_time(pieces: Iterator[bytes]) -> Iterator[bytes]:
    end = time.monotonic() + _MAX_DECOMPRESSION_SECONDS
    for piece in pieces:
        if time.monotonic() > end:
            raise ValueError(f"it takes more than {_MAX_DECOMPRESSION_SECONDS:g} seconds")
        yield piece


def _zlib(body: bytes, encoding: str, most_bytes: int) -> Iterator[bytes]:
    """Yield the content in pieces, each of at most ``most_bytes``, up to a first such one."""
    position, members = 0, 0
    while position < len(body):
        member, members = zlib.decompressobj(_ZLIB_BITS[encoding]), members + 1
        if members > _MAX_MEMBERS:
            raise ValueError(f"it has more than {_MAX_MEMBERS} members")
        while not member.eof:
            part = body[position : position + _PIECE_BYTES]
            if not part:
                raise ValueError("its end is missing")
            yield member.decompress(part, most_bytes)
            position += len(part) - len(member.unused_data)


def _zstd(body: bytes) -> Iterator[bytes]:
    import pyarrow as pa  # slow to import, and rarely needed

    with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
        while piece := stream.read(_PIECE_BYTES):
            yield piece


_CLOSE = {"Connection": "close"}


def too_large(limit: int) -> ServiceError:
    """Return the answer for a body of more than ``limit`` bytes."""
    return ServiceError(
        413,
        "too_large",
        f"A body may have {limit} bytes, also when it is decompressed.",
        "Export smaller batches more often, or raise EVAL_RECEIVE_MAX_BODY_BYTES.",
    )
