"""Asynchronous access to the score store through one thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.storage.ledger.errors import LedgerError

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class LedgerWriter:
    """Runs methods of a score store one at a time.

    A method that was submitted runs even if its caller is canceled: a received reply is stored.
    """

    def __init__(self, store: ScoreStore, thread: ThreadPoolExecutor | None = None) -> None:
        self.store = store
        self._thread = thread or ThreadPoolExecutor(1, "ledger")

    def for_store(self, store: ScoreStore) -> "LedgerWriter":
        """Return the same for another store: its methods run in the same thread."""
        return LedgerWriter(store, self._thread)

    async def run(
        self,
        method: Callable[_Parameters, _Result],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> _Result:
        """Run a method of the store and return its result."""
        result = self._thread.submit(method, *args, **kwargs)
        return await asyncio.shield(asyncio.wrap_future(result))

    def run_later(
        self,
        method: Callable[_Parameters, object],
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> None:
        """Run a method for a caller that cannot wait; the next judge does what it could not."""

        def call() -> None:
            with suppress(LedgerError):
                method(*args, **kwargs)

        self._thread.submit(call)

    def close(self) -> None:
        """Wait until all submitted methods have run."""
        self._thread.shutdown()
