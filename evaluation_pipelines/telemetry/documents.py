"""What can be consumed of a landing file, whichever way it is written.

Plain lines, a pretty-printed document, gzip, zstd, and the collector's own form of zstd: each
request compressed by itself behind its length (4 bytes, big-endian), without line ends.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import BinaryIO, cast

from evaluation_pipelines.storage.landing import KEPT_BYTES, RawLine, read_lines
from evaluation_pipelines.telemetry.domain.otlp import is_complete_json, is_cut_json
from evaluation_pipelines.telemetry.domain.reader import first_bytes

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SMALL_BYTES = 64 * 1024 * 1024
"""Up to this size nobody asks how well something was compressed."""


class FileFormat(Enum):
    """How the bytes of a file are to be read."""

    PLAIN = auto()
    GZIP = auto()
    ZSTD = auto()
    ZSTD_MESSAGES = auto()

    @property
    def is_stream(self) -> bool:
        """Whether offsets count decompressed bytes and say nothing of the size on disk."""
        return self in (FileFormat.GZIP, FileFormat.ZSTD)


class DamagedFileError(Exception):
    """From some offset on a file cannot be decompressed; the message says why."""


@dataclass(slots=True)
class Documents:
    """The complete lines of a file from an offset on.

    Args:
        handle: The open file, or a stream that cannot be sought.
        path: Its name; ``.json`` files may hold one pretty-printed document.
        max_line_bytes: A longer line is given with its beginning only.
        max_ratio: How many times its size a file may decompress to.

    Attributes:
        form: How it is written, by its first bytes.
        ends_early: After reading: the compressed stream is not whole (yet).
    """

    handle: BinaryIO
    path: str
    max_line_bytes: int
    max_ratio: int
    form: FileFormat = FileFormat.PLAIN
    ends_early: bool = False

    def __post_init__(self) -> None:
        self.form = file_format(self.handle)

    @property
    def is_lines(self) -> bool:
        """Whether reading can begin at any line of the file: not where it is compressed or a pipe.

        A ``.json`` file may be one document.
        """
        is_plain = self.form is FileFormat.PLAIN and not self.path.endswith(".json")
        return is_plain and self.handle.seekable()

    def read(self, offset: int) -> Iterator[RawLine]:
        """Lines from ``offset`` on.

        A last line without newline is given when it is a whole JSON document: a rotation can
        leave a file so for ever, and no proper beginning of a JSON object is one itself.

        What cannot be decompressed, or decompresses to too much, is given as a line that has a
        defect and no text.
        """
        if self.form is FileFormat.ZSTD_MESSAGES:
            yield from self._messages(offset)
        elif self.form.is_stream:
            yield from self._decompressed(offset)
        else:
            yield from self._lines(self.handle, offset)

    def _lines(self, stream: BinaryIO, offset: int) -> Iterator[RawLine]:
        for line in read_lines(stream, offset, self.max_line_bytes):
            if line.offset == 0 and self.path.endswith(".json") and is_cut_json(line.text):
                yield from self._whole_document()
                return
            if line.is_terminated or (not line.is_overlong and is_complete_json(line.text)):
                yield line

    def _decompressed(self, offset: int) -> Iterator[RawLine]:
        stream = _Decompressed(self.handle, self.form, self.max_ratio)
        try:
            for line in self._lines(cast(BinaryIO, stream), offset):
                yield line
                offset = line.next_offset
        except DamagedFileError as error:
            yield RawLine(offset, b"", 0, offset + 1, str(error))
        self.ends_early = stream.ends_early

    def _whole_document(self) -> Iterator[RawLine]:
        self.handle.seek(0)
        limit = self.max_line_bytes
        text = self.handle.read(limit + 1)
        if len(text) > limit:
            length = self.handle.seek(0, os.SEEK_END)
            yield RawLine(0, text[:KEPT_BYTES], length, length)
        elif not is_cut_json(text):  # whole, or broken for good; else its end is still to come
            yield RawLine(0, text, len(text), len(text))

    def _messages(self, offset: int) -> Iterator[RawLine]:
        """Requests behind their lengths; offsets are those of the file itself."""
        self.handle.seek(offset)
        while len(prefix := self.handle.read(4)) == 4:
            (size,) = struct.unpack(">I", prefix)
            following = offset + 4 + size
            if size > self.max_line_bytes:
                self.handle.seek(following)
                yield RawLine(offset, b"", size, following, f"a message of {size} bytes")
            else:
                packed = self.handle.read(size)
                if len(packed) < size:  # its end is still to come
                    return
                yield self._message(packed, offset, following)
            offset = following

    def _message(self, packed: bytes, offset: int, following: int) -> RawLine:
        import pyarrow as pa  # as slow to import as all else of a short command

        limit = self.max_line_bytes
        try:
            text: bytes = pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read(limit + 1)
        except OSError as error:
            return RawLine(offset, b"", len(packed), following, f"cannot be decompressed: {error}")
        kept = text if len(text) <= limit else text[:KEPT_BYTES]
        return RawLine(offset, kept, len(text), following)


def file_format(handle: BinaryIO) -> FileFormat:
    """How a file is written, by its first bytes; a stream that cannot be sought is plain."""
    try:
        head = os.pread(handle.fileno(), 8, 0)
    except OSError:
        return FileFormat.PLAIN
    if head.startswith(_GZIP):
        return FileFormat.GZIP
    if head.startswith(_ZSTD):
        return FileFormat.ZSTD
    return FileFormat.ZSTD_MESSAGES if head[4:] == _ZSTD else FileFormat.PLAIN


class _Decompressed:
    """Decompressed bytes of a stream, read forwards only."""

    def __init__(self, handle: BinaryIO, form: FileFormat, max_ratio: int) -> None:
        import pyarrow as pa

        handle.seek(0)
        # A handle of its own: the stream closes it when it goes.
        own = os.fdopen(os.dup(handle.fileno()), "rb")
        self._stream = pa.CompressedInputStream(pa.PythonFile(own), form.name.lower())
        size_bytes = os.fstat(handle.fileno()).st_size
        self._allowed = max(size_bytes * max_ratio, _SMALL_BYTES)
        self._size_bytes = size_bytes
        self._read = 0
        self.ends_early = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes; empty at the end, also where the stream is cut short."""
        if self.ends_early:
            return b""
        try:
            chunk: bytes = self._stream.read(size)
        except OSError as error:
            if "Truncated" in str(error):
                self.ends_early = True
                return b""
            raise DamagedFileError(f"cannot be decompressed: {error}") from error
        self._read += len(chunk)
        if self._read > self._allowed:
            raise DamagedFileError(
                f"decompresses to more than {self._allowed} bytes from {self._size_bytes}; "
                "raise EVAL_MAX_DECOMPRESSION_RATIO to read it"
            )
        return chunk

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Skip forwards to an offset."""
        while whence == os.SEEK_SET and self._read < offset:
            if not self.read(min(offset - self._read, _SMALL_BYTES)):
                break
        return self._read


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where a line stood, how long it was, and how it began (empty where that is not known)."""

    offset: int
    length_bytes: int
    first_bytes: str


def lines_again(documents: Documents, places: Sequence[LinePlace]) -> Iterator[RawLine | None]:
    """The line at each place, in the order given, which must be that of the offsets.

    None where the file holds something else now. A compressed stream is read through once.
    """
    if documents.form.is_stream:
        found = _of_stream(documents, places)
    elif documents.form is FileFormat.ZSTD_MESSAGES:
        found = (next(documents.read(place.offset), None) for place in places)
    else:
        found = (_of_plain(documents, place) for place in places)
    for place, line in zip(places, found, strict=True):
        yield line if line is not None and _is_it(line, place, documents.form) else None


def _of_plain(documents: Documents, place: LinePlace) -> RawLine | None:
    length, limit = place.length_bytes, documents.max_line_bytes
    size = length if length <= limit else KEPT_BYTES
    text = os.pread(documents.handle.fileno(), size, place.offset)
    return RawLine(place.offset, text, length, place.offset + length)


def _of_stream(documents: Documents, places: Sequence[LinePlace]) -> Iterator[RawLine | None]:
    lines = documents.read(places[0].offset)
    line = next(lines, None)
    for place in places:
        while line is not None and line.offset < place.offset:
            line = next(lines, None)
        yield line


def _is_it(line: RawLine, place: LinePlace, form: FileFormat) -> bool:
    if line.offset != place.offset:
        return False
    if line.defect is not None or not place.first_bytes:
        return True
    if first_bytes(line.text) != place.first_bytes:
        return False
    # A message that is too long is never unpacked to its end: its length is not known.
    return line.length_bytes == place.length_bytes or form is FileFormat.ZSTD_MESSAGES
