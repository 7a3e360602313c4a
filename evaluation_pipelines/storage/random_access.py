"""Bytes of an open file at any offset, wherever the file is; its position does not change."""

import io
import os
from abc import abstractmethod
from typing import BinaryIO


class RandomAccessFile(io.RawIOBase):
    """A file to read that no descriptor of the operating system stands for."""

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
