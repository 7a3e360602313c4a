"""Records on their way to disk: those that arrive while others are synced share the next sync."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias

from evaluation_pipelines.storage.received_files import ReceivedFiles, ReceivedRecord

_Batch: TypeAlias = list[tuple[ReceivedRecord, asyncio.Future[None]]]

_QUICK_SECONDS = 0.002
_SMALL_BYTES = 128 * 1024
_LOOK_SECONDS = 1.0


class Spool:
    """Writer of received records; all methods are for one event loop.

    A thread of its own writes, so that the loop can answer others meanwhile. On a disk whose last
    sync was quick a small record that comes alone is written by the loop itself: to wake the
    thread, and the loop again, would take about as long as the sync.

    Files that get nothing more are closed within about a second, whether records arrive or not.
    """

    def __init__(self, root: Path, max_file_bytes: int, clock: Callable[[], datetime]) -> None:
        self._files = ReceivedFiles(root, max_file_bytes, clock)
        self._waiting: _Batch = []
        self._is_writing = False
        self._is_quick = False
        self._batches: SimpleQueue[_Batch] = SimpleQueue()  # an empty one is the end
        self._thread: Thread | None = None
        self._next_look: asyncio.TimerHandle | None = None

    async def append(self, record: ReceivedRecord) -> None:
        """Return when a record is on disk.

        Raises:
            OSError: it is not, for example because the disk is full.
        """
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.append((record, done))
        if not self._is_writing:
            self._is_writing = True
            loop.call_soon(self._write_waiting)  # after the requests that have arrived, too
        # A client that hangs up cancels its request, not the writing of all.
        await done

    def close(self) -> None:
        """Close the files; nothing may be waiting."""
        if self._next_look is not None:
            self._next_look.cancel()
        if self._thread is not None:
            self._batches.put([])
            self._thread.join()
        self._files.close()

    def _write_waiting(self) -> None:
        batch, self._waiting = self._waiting, []
        self._is_writing = bool(batch)
        if len(batch) == 1 and self._is_quick and len(batch[0][0].content) <= _SMALL_BYTES:
            self._settle(batch, self._write(batch))
        elif batch:
            self._hand_over(batch)

    def _hand_over(self, batch: _Batch) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._write_batches, name="received-files", daemon=True)
            self._thread.start()
        self._batches.put(batch)

    def _write_batches(self) -> None:
        while batch := self._batches.get():
            results = self._write(batch)
            batch[0][1].get_loop().call_soon_threadsafe(self._settle, batch, results)

    def _write(self, batch: _Batch) -> Sequence[Exception | None]:
        """Write and sync; only one thread at a time is here."""
        began = time.perf_counter()
        try:
            return self._files.append([record for record, _ in batch])
        except Exception as error:  # noqa: BLE001 - raised in each request that waits for it
            return [error] * len(batch)
        finally:
            self._is_quick = time.perf_counter() - began <= _QUICK_SECONDS

    def _settle(self, batch: _Batch, results: Sequence[Exception | None]) -> None:
        for (_, done), error in zip(batch, results, strict=True):
            if done.cancelled():
                continue
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)
        if self._next_look is None:
            self._look_later()
        self._write_waiting()

    def _look_later(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Close files that get nothing more, unless they are being written: then a bit later."""
        self._next_look = None
        if self._is_writing or self._files.close_finished():
            self._look_later()
