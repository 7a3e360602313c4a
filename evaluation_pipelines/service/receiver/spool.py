"""Records on their way to disk: those that arrive while others are synced share the next sync."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from evaluation_pipelines.storage.received_files import ReceivedFiles, ReceivedRecord


class Spool:
    """Writer of received records; all methods are for one event loop."""

    def __init__(self, root: Path, max_file_bytes: int, clock: Callable[[], datetime]) -> None:
        self._files = ReceivedFiles(root, max_file_bytes, clock)
        self._thread = ThreadPoolExecutor(1, "received-files")
        self._waiting: list[tuple[ReceivedRecord, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def append(self, record: ReceivedRecord) -> None:
        """Return when a record is on disk.

        Raises:
            OSError: it is not, for example because the disk is full.
        """
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((record, done))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        # A client that hangs up cancels its request, not the writing of all.
        await asyncio.shield(done)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                records = [record for record, _ in batch]
                results = await loop.run_in_executor(self._thread, self._files.append, records)
                for (_, done), error in zip(batch, results, strict=True):
                    _settle(done, error)
        finally:
            self._writer = None

    def close(self) -> None:
        """Close the files; nothing may be waiting."""
        self._thread.shutdown()
        self._files.close()


def _settle(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
        done.exception()  # seen, also when its client has hung up
