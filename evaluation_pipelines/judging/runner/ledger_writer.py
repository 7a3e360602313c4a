"""The score store for coroutines: one thread that does what is asked, the urgent first."""

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

from evaluation_pipelines.judging.ledger.errors import ScoreEndedError, ScoreLeaseLostError
from evaluation_pipelines.judging.ledger.score_records import ReceivedReply
from evaluation_pipelines.judging.ledger.score_store import ScoreStore

_Given = ParamSpec("_Given")
_Got = TypeVar("_Got")

_URGENT, _USUAL, _LAST = range(3)


class LedgerWriter:
    """Runs methods of a score store, one at a time.

    What was asked for is done, whoever is cancelled meanwhile: a reply that has arrived is kept.
    """

    def __init__(self, store: ScoreStore) -> None:
        self.store = store
        self._steps: PriorityQueue[tuple[int, int, Callable[[], None] | None]] = PriorityQueue()
        self._order = count()
        self._replies: deque[tuple[ReceivedReply, Future[None]]] = deque()
        self._thread = threading.Thread(target=self._work, name="ledger")
        self._thread.start()

    async def do(
        self, step: Callable[_Given, _Got], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> _Got:
        """Run a method of the store."""
        return await self._done(_USUAL, partial(step, *args, **kwargs))

    async def soon(
        self, step: Callable[_Given, _Got], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> _Got:
        """The same before all else that waits, replies apart that came earlier."""
        return await self._done(_URGENT, partial(step, *args, **kwargs))

    async def keep(self, arrived: ReceivedReply) -> None:
        """Keep a reply, before all else that waits: a slot is held meanwhile.

        Replies that wait together are kept in one transaction. Raises as ``ScoreStore.log_turn``.
        """
        answer: Future[None] = Future()
        self._replies.append((arrived, answer))
        self._put(_URGENT, self._keep_replies)
        await asyncio.shield(asyncio.wrap_future(answer))

    def later(
        self, step: Callable[_Given, object], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> None:
        """Run a method of the store after all others, for one who cannot wait.

        Should the scoring be somebody else's by then, there is nothing left to do.
        """

        def do_it() -> None:
            with suppress(ScoreLeaseLostError, ScoreEndedError):
                step(*args, **kwargs)

        self._put(_LAST, do_it)

    def close(self) -> None:
        """Wait until everything that was asked for is done."""
        self._put(_LAST, None)
        self._thread.join()

    def _keep_replies(self) -> None:
        waiting = []
        with suppress(IndexError):
            while True:
                waiting.append(self._replies.popleft())
        if not waiting:
            return  # those before us have kept ours, too
        try:
            problems = self.store.log_turns([arrived for arrived, _ in waiting])
        except Exception as error:  # noqa: BLE001 - whoever waits for the answer gets it
            problems = [error] * len(waiting)
        for (_, answer), problem in zip(waiting, problems, strict=True):
            if problem is None:
                answer.set_result(None)
            else:
                answer.set_exception(problem)

    async def _done(self, urgency: int, step: Callable[[], _Got]) -> _Got:
        answer: Future[_Got] = Future()
        self._put(urgency, partial(_fulfil, answer, step))
        return await asyncio.shield(asyncio.wrap_future(answer))

    def _put(self, urgency: int, step: Callable[[], None] | None) -> None:
        self._steps.put((urgency, next(self._order), step))

    def _work(self) -> None:
        while (step := self._steps.get()[2]) is not None:
            step()


def _fulfil(answer: Future[_Got], step: Callable[[], _Got]) -> None:
    try:
        answer.set_result(step())
    except BaseException as error:  # noqa: BLE001 - whoever waits for the answer gets it
        answer.set_exception(error)
