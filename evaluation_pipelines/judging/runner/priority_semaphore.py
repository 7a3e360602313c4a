"""Slots for calls: so many at a time, and who has most left to ask goes first."""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PrioritySemaphore:
    """Bounds what is under way at the same time.

    Of those who wait, the one with the most turns still to come gets the next free slot. In any
    other order a run ends with a few long conversations alone while most slots are idle.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = 0

    @asynccontextmanager
    async def taken(self, turns_left: int) -> AsyncIterator[None]:
        """Hold a slot, for a conversation with so many turns to come."""
        await self._take(turns_left)
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, turns_left: int) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiting, (-turns_left, self._arrivals, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()  # it was ours already
            raise

    def _give_back(self) -> None:
        while self._waiting:
            *_, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
