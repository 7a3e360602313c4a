"""Worker processes of this machine, for work that holds Python's lock."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

from evaluation_pipelines.engine.work import EngineError, Request, Result, Shared, Work
from evaluation_pipelines.engine.worker import LENGTH, send

_ATTEMPTS = 2
"""A process that was killed is replaced once for a request: the next one may be its fault."""


class _EndedError(Exception):
    """A worker process ended during a request."""


class Processes:
    """New interpreters that run requests; started at once, ended by ``close``.

    They are no forks: the threads of Polars do not survive that.
    """

    def __init__(self, count: int) -> None:
        self._workers = [_Worker() for _ in range(count)]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(count, "engine")
        self._closed = False

    def begin(
        self, work: Work[Shared, Request, Result], request: Request, shared: Shared
    ) -> Future[Result]:
        """Run a request as soon as a process is idle."""
        return self._threads.submit(self._run, work, request, shared)

    def _run(self, work: Work[Shared, Request, Result], request: Request, shared: Shared) -> Result:
        """Run in a thread; with one thread per process, at least one process is idle."""
        worker = self._idle.get()
        try:
            for _ in range(_ATTEMPTS):
                try:
                    return cast(Result, worker.answer(work.function, shared, request))
                except _EndedError:
                    if self._closed:
                        break
                    ended = worker.restart()
            else:
                raise EngineError(_advice(work.name, ended))
            raise EngineError(f"{work.name} was stopped, because the program ends.")
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """End the processes."""
        self._closed = True
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.kill()  # it may have been started again meanwhile
            worker.close()


def _advice(name: str, status: int) -> str:
    how = f"signal {-status}" if status < 0 else f"exit code {status}"
    return (
        f"A worker process ended with {how} during {name}, and so did the one in its place. "
        "Nothing of that step was stored. If memory was short, set EVAL_INGEST_PROCESSES=1 or a "
        "smaller EVAL_BATCH_BYTES; then run the step again."
    )


class _Worker:
    """A process, and the unnamed file in which it returns results."""

    def __init__(self) -> None:
        self._replies = cast(BinaryIO, TemporaryFile())  # noqa: SIM115 - closed with it
        self._shared: object = self  # none was sent yet
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        number = self._replies.fileno()
        command = (sys.executable, "-m", "evaluation_pipelines.engine.worker", str(number))
        return subprocess.Popen(  # noqa: S603 - the command is fixed
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(number,)
        )

    def answer(self, function: Callable[[Any, Any], Any], shared: object, request: object) -> Any:
        """Return the result of a request, or raise its error."""
        lengths = cast(BinaryIO, self._process.stdout)
        try:
            requests = cast(BinaryIO, self._process.stdin)
            if self._shared is not shared:
                send(requests, (True, (function, shared)))
                self._shared = shared
            send(requests, (False, request))
            prefix = lengths.read(LENGTH.size)
        except BrokenPipeError as error:
            raise _EndedError from error
        if len(prefix) < LENGTH.size:
            raise _EndedError
        (length,) = LENGTH.unpack(prefix)
        # The worker is ours, and nothing else has the file.
        is_result, answer = pickle.loads(os.pread(self._replies.fileno(), length, 0))  # noqa: S301
        if not is_result:
            raise answer
        return answer

    def restart(self) -> int:
        """Start another process in place of one that ended; return the status of that one."""
        self.kill()
        status = self._process.wait()
        self._close_pipes()
        self._shared = self
        self._process = self._start()
        return status

    def kill(self) -> None:
        """End the process."""
        self._process.kill()

    def close(self) -> None:
        """Release the process, which was killed, and its file."""
        self._process.wait()
        self._close_pipes()
        self._replies.close()

    def _close_pipes(self) -> None:
        cast(BinaryIO, self._process.stdout).close()
        with suppress(BrokenPipeError):  # it ended before it had read everything
            cast(BinaryIO, self._process.stdin).close()
