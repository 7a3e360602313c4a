"""Bytes of an open file, wherever it is, and its lines by their offsets, limited in size."""

import io
import os
import re
from abc import abstractmethod
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO


class RandomAccessFile(io.RawIOBase):
    """A file to read that has no descriptor of the operating system."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """Size of the file."""

    @abstractmethod
    def read_at(self, size: int, offset: int) -> bytes:
        """Return ``size`` bytes from ``offset`` on, or those up to the end.

        Raises:
            OSError: The file was deleted or replaced, or cannot be read.
        """


def read_at(handle: BinaryIO, size: int, offset: int) -> bytes:
    """Return ``size`` bytes of an open file from ``offset`` on, or those up to its end."""
    if isinstance(handle, RandomAccessFile):
        return handle.read_at(size, offset)
    return os.pread(handle.fileno(), size, offset)


def size_of(handle: BinaryIO) -> int:
    """Return the present size of an open file."""
    if isinstance(handle, RandomAccessFile):
        return handle.size_bytes
    return os.fstat(handle.fileno()).st_size


KEPT_BYTES = 256  # of a line over the limit
_CHUNK_BYTES = 4 * 1024 * 1024
_SEARCHED_BYTES = 64 * 1024
_JOINT = re.compile(rb'\}\s*(?=\{\s*"\w)')
"""Between two JSON objects without a newline; within one, no text can hold it unescaped."""
_LOOK_AHEAD = 16


@dataclass(frozen=True, slots=True)
class RawLine:
    """Bytes of one line without its newline.

    ``next_offset`` is where the next line begins. ``length_bytes`` exceeds ``len(text)`` if the
    line is over the limit: then only its beginning was kept. ``defect`` says why the line cannot
    be read.
    """

    offset: int
    text: bytes
    length_bytes: int
    next_offset: int
    defect: str | None = None

    @property
    def is_terminated(self) -> bool:
        """True if a newline (or the end of a whole document) follows."""
        return self.next_offset > self.offset + self.length_bytes

    @property
    def is_overlong(self) -> bool:
        """True if only its beginning was kept."""
        return self.length_bytes > len(self.text)


def read_lines(
    handle: BinaryIO,
    offset: int,
    max_line_bytes: int,
    end: int | None = None,
    chunk_bytes: int = _CHUNK_BYTES,
) -> Iterator[RawLine]:
    """Yield the lines from ``offset`` on, as if the file ended at ``end``.

    Only a newline byte ends a line (JSON may contain other Unicode line ends). What follows the
    last newline is yielded too, with ``next_offset`` at its end: the caller decides whether it is
    a whole document. Consecutive empty lines are yielded as one: a small compressed file can have
    very many. A byte order mark is skipped. Memory is limited to ``max_line_bytes`` and one chunk:
    a longer line is cut where one JSON object follows another.
    """
    position = offset
    if offset:  # standard input cannot be sought
        handle.seek(offset)
    rest = b""
    dropped = 0  # bytes of an overlong line that were read and let go
    is_start = offset == 0
    while chunk := handle.read(chunk_bytes if end is None else min(chunk_bytes, end - position)):
        position += len(chunk)
        if is_start and chunk.startswith(BOM_UTF8):
            chunk, offset = chunk.removeprefix(BOM_UTF8), len(BOM_UTF8)
        is_start = False
        *lines, tail = chunk.split(b"\n")
        blank = offset  # where the empty lines before this one begin
        for line in lines:
            if not line and not rest:
                offset += 1
                continue
            if blank < offset:
                yield RawLine(blank, b"", 0, offset)
            text = rest + line if rest else line
            pieces, offset, text = _cut(offset, text, 0 if dropped else max_line_bytes)
            yield from pieces
            length = dropped + len(text)
            yield _raw(offset, text, length, offset + length + 1, max_line_bytes)
            offset = blank = offset + length + 1
            rest, dropped = b"", 0
        if blank < offset:
            yield RawLine(blank, b"", 0, offset)
        rest = rest + tail if rest else tail
        pieces, offset, rest = _cut(offset, rest, 0 if dropped else max_line_bytes)
        yield from pieces
        if len(rest) > max_line_bytes:
            kept = rest[:KEPT_BYTES]
            dropped += len(rest) - len(kept)
            rest = kept
    if rest:
        length = dropped + len(rest)
        yield _raw(offset, rest, length, offset + length, max_line_bytes)


def _cut(offset: int, text: bytes, limit: int) -> tuple[list[RawLine], int, bytes]:
    """Cut what is over a limit where objects end; return pieces, and offset and text of the rest.

    Without a limit (0) nothing is cut.
    """
    pieces, start = list[RawLine](), 0
    while limit and len(text) - start > limit:
        joints = _JOINT.finditer(text, start, start + limit + _LOOK_AHEAD)
        end = max((joint.end() for joint in joints if joint.end() <= start + limit), default=0)
        if not end:
            break
        pieces.append(RawLine(offset + start, text[start:end], end - start, offset + end))
        start = end
    return pieces, offset + start, text[start:] if start else text


def cut_at_lines(handle: BinaryIO, start: int, least_bytes: int) -> Iterator[tuple[int, int]]:
    """Cut an open file after newlines into byte ranges of at least ``least_bytes``.

    The rest of the file is shorter, or has no newline. The position of ``handle`` does not
    change.
    """
    searched = start + least_bytes
    while chunk := read_at(handle, _SEARCHED_BYTES, searched):
        newline = chunk.find(b"\n")
        if newline < 0:
            searched += len(chunk)
        else:
            end = searched + newline + 1
            yield start, end
            start, searched = end, end + least_bytes


def _raw(offset: int, text: bytes, length: int, next_offset: int, limit: int) -> RawLine:
    return RawLine(offset, text[:KEPT_BYTES] if length > limit else text, length, next_offset)
