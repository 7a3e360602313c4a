"""Records on their way to disk: those that arrive while others are synced share the next sync."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from evaluation_pipelines.storage.received_files import ReceivedFiles, ReceivedRecord

_LOOK_SECONDS = 1.0


class Spool:
    """Writer of received records; all methods are for one event loop.

    A thread of its own writes, so that the loop can answer others meanwhile. Files that get nothing
    more are closed within about a second, whether records arrive or not.
    """

    def __init__(self, root: Path, max_file_bytes: int, clock: Callable[[], datetime]) -> None:
        self._files = ReceivedFiles(root, max_file_bytes, clock)
        self._waiting: list[tuple[ReceivedRecord, asyncio.Future[None]]] = []
        self._thread = ThreadPoolExecutor(1, "received-files")
        self._writer: asyncio.Task[None] | None = None
        self._next_look: asyncio.TimerHandle | None = None

    async def append(self, record: ReceivedRecord) -> None:
        """Return when a record is on disk.

        Raises:
            OSError: it is not, for example because the disk is full.
        """
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((record, done))
        if self._writer is None:  # it begins after the requests that have arrived, too
            self._writer = asyncio.create_task(self._write_waiting())
        # A client that hangs up cancels its request, not the writing of all.
        await done

    def close(self) -> None:
        """Close the files; nothing may be waiting."""
        if self._next_look is not None:
            self._next_look.cancel()
        self._thread.shutdown()
        self._files.close()

    async def _write_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            results: Sequence[Exception | None]
            try:
                records = [record for record, _ in batch]
                results = await loop.run_in_executor(self._thread, self._files.append, records)
            except Exception as error:  # noqa: BLE001 - raised in each request that waits for it
                results = [error] * len(batch)
            for (_, done), failure in zip(batch, results, strict=True):
                if done.cancelled():
                    continue
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)
        self._writer = None
        if self._next_look is None:
            self._next_look = loop.call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Close files that get nothing more, unless they are being written: then a bit later."""
        self._next_look = None
        if self._writer is not None or self._files.close_finished():
            loop = asyncio.get_running_loop()
            self._next_look = loop.call_later(_LOOK_SECONDS, self._look)
