"""Asynchronous access to the score store through one thread, by urgency."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count
from queue import PriorityQueue
from typing import ParamSpec, TypeVar

from evaluation_pipelines.judging.ledger.errors import (
    ScoreEndedError,
    ScoreLeaseLostError,
    UnknownScoreError,
)
from evaluation_pipelines.judging.ledger.score_records import ReceivedReply
from evaluation_pipelines.judging.ledger.score_store import ScoreStore

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_URGENT, _NORMAL, _LAST = range(3)


class LedgerWriter:
    """Runs methods of a score store one at a time.

    A method that was submitted runs even if its caller is canceled: a received reply is stored.
    """

    def __init__(self, store: ScoreStore) -> None:
        self.store = store
        self._calls: PriorityQueue[tuple[int, int, Callable[[], None] | None]] = PriorityQueue()
        self._sequence = count()
        self._replies: deque[tuple[ReceivedReply, Future[None]]] = deque()
        self._thread = threading.Thread(target=self._work, name="ledger")
        self._thread.start()

    async def run(
        self,
        method: Callable[_Parameters, _Result],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Result:
        """Run a method of the store and return its result."""
        return await self._submit(_NORMAL, partial(method, *args, **kwargs))

    async def run_urgent(
        self,
        method: Callable[_Parameters, _Result],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Result:
        """Run a method before all waiting ones, except replies that arrived earlier."""
        return await self._submit(_URGENT, partial(method, *args, **kwargs))

    async def log_reply(self, reply: ReceivedReply) -> None:
        """Store a reply before all waiting methods, since its call holds a permit until then.

        Replies that wait together are stored in one transaction. Raises as
        ``ScoreStore.log_turn``.
        """
        stored: Future[None] = Future()
        self._replies.append((reply, stored))
        self._put(_URGENT, self._log_replies)
        await asyncio.shield(asyncio.wrap_future(stored))

    def run_later(
        self,
        method: Callable[_Parameters, object],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> None:
        """Run a method after all others, for a caller that cannot wait.

        Nothing happens if another process holds the lease of the scoring by then, or it is gone.
        """

        def call() -> None:
            with suppress(ScoreLeaseLostError, ScoreEndedError, UnknownScoreError):
                method(*args, **kwargs)

        self._put(_LAST, call)

    def close(self) -> None:
        """Wait until all submitted methods have run."""
        self._put(_LAST, None)
        self._thread.join()

    def _log_replies(self) -> None:
        waiting = []
        with suppress(IndexError):
            while True:
                waiting.append(self._replies.popleft())
        if not waiting:
            return  # an earlier call has stored this reply as well
        try:
            problems = self.store.log_turns([reply for reply, _ in waiting])
        except Exception as error:  # noqa: BLE001 - raised in the coroutines that wait
            problems = [error] * len(waiting)
        for (_, stored), problem in zip(waiting, problems, strict=True):
            if problem is None:
                stored.set_result(None)
            else:
                stored.set_exception(problem)

    async def _submit(self, urgency: int, call: Callable[[], _Result]) -> _Result:
        result: Future[_Result] = Future()
        self._put(urgency, partial(_fulfill, result, call))
        return await asyncio.shield(asyncio.wrap_future(result))

    def _put(self, urgency: int, call: Callable[[], None] | None) -> None:
        self._calls.put((urgency, next(self._sequence), call))

    def _work(self) -> None:
        while (call := self._calls.get()[2]) is not None:
            call()


def _fulfill(result: Future[_Result], call: Callable[[], _Result]) -> None:
    try:
        result.set_result(call())
    except BaseException as error:  # noqa: BLE001 - raised in the coroutine that waits
        result.set_exception(error)
