"""A compressed file as a stream of its bytes, up to its first flaw.

Everything before a flaw is read: a bad byte in the middle, a wrong checksum, other content after
the end, or an end that is missing. The library gives nothing of a piece with a flaw in it, so that
the last piece is read again byte by byte.
"""

import os
from typing import TYPE_CHECKING, BinaryIO

from evaluation_pipelines.storage.raw_lines import read_at, size_of

if TYPE_CHECKING:
    import pyarrow as pa

SMALL_BYTES = 64 * 1024 * 1024
"""Decompressed size up to which the compression ratio is not checked."""

_PIECE_BYTES = 64 * 1024

_CAREFUL_BYTES = 4 * _PIECE_BYTES
"""Compressed bytes before a flaw that are read again one by one."""


class DecompressedFile:
    """Forward-only reader of a compressed file.

    Args:
        handle: The open file.
        codec: "gzip" or "zstd".
        max_ratio: Maximum decompressed size as a multiple of the size on disk.

    Attributes:
        flaw: Why reading ended before the end of the file; None if it did not.
        ends_early: True if the flaw is that the end is missing: it may still be written.
    """

    def __init__(self, handle: BinaryIO, codec: str, max_ratio: int) -> None:
        self.flaw: str | None = None
        self.ends_early = False
        self._handle, self._codec = handle, codec
        self._size_bytes = size_of(handle)
        self._allowed = max(self._size_bytes * max_ratio, SMALL_BYTES)
        self._read = 0
        self._careful = False
        self._pieces, self._stream = self._open(self._size_bytes)

    def read(self, size: int) -> bytes:
        """Return the next ``size`` bytes, or those up to the end or the first flaw."""
        pieces: list[bytes] = []
        while size and (piece := self._piece(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _piece(self, size: int) -> bytes:
        if self.flaw is not None:
            return b""
        try:
            piece: bytes = self._stream.read(1 if self._careful else min(size, _PIECE_BYTES))
        except Exception as error:
            if self._pieces.failure is not None:
                raise self._pieces.failure from None
            if not isinstance(error, OSError):
                raise
            if not self._careful:
                self._read_again_carefully()
                return self._piece(size)
            self.ends_early = "Truncated" in str(error)
            self.flaw = f"cannot be decompressed from here on: {error}"
            return b""
        self._read += len(piece)
        if self._read > self._allowed:
            self.flaw = (
                f"decompresses to more than {self._allowed} bytes from {self._size_bytes}. "
                "Raise EVAL_MAX_DECOMPRESSION_RATIO to read it"
            )
        return piece

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Skip forward to an offset."""
        while whence == os.SEEK_SET and self._read < offset:
            if not self._piece(offset - self._read):
                break
        return self._read

    def _read_again_carefully(self) -> None:
        self._pieces, self._stream = self._open(self._pieces.position - _CAREFUL_BYTES)
        left = self._read
        while left:
            left -= len(self._stream.read(min(left, _PIECE_BYTES)))
        self._careful = True

    def _open(self, careful_from: int) -> tuple["_Pieces", "pa.CompressedInputStream"]:
        import pyarrow as pa  # slow to import, and rarely needed

        pieces = _Pieces(self._handle, careful_from)
        return pieces, pa.CompressedInputStream(pa.PythonFile(pieces, mode="r"), self._codec)


class _Pieces:
    """The bytes of a file, one by one from a position; the file's own position stays.

    ``failure`` is why the file could not be read, which is no flaw of its content.
    """

    closed = False

    def __init__(self, handle: BinaryIO, careful_from: int) -> None:
        self._handle, self._careful_from = handle, careful_from
        self.position = 0
        self.failure: Exception | None = None

    def read(self, size: int) -> bytes:
        if self.position >= self._careful_from:
            size = 1
        try:
            piece = read_at(self._handle, size, self.position)
        except Exception as error:
            self.failure = error
            raise
        self.position += len(piece)
        return piece

    def close(self) -> None:
        """Do nothing: the file belongs to the caller."""
