"""Resources shared by all judgments of one run: ledger, endpoint, budget, clock."""

import asyncio
import gc
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import ParamSpec, Self, TypeVar

from evaluation_pipelines.judging.domain.budget import (
    Budget,
    DayReservation,
    Deferred,
    Limit,
    PlannedCall,
    Pricing,
    Reservation,
    worst_case_usd,
)
from evaluation_pipelines.judging.endpoint.client import JudgeClient, Wire
from evaluation_pipelines.judging.endpoint.configured import (
    SharedBreakers,
    judge_client,
    judge_pricing,
)
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.lock import Hold

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


class BudgetGate:
    """Admission of sessions and further calls to the budget of the run.

    Once money is short, sessions in progress come first: each new one would leave another half
    done.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._released = asyncio.Event()
        self._open: set[Reservation] = set()
        self._between_calls: set[Reservation] = set()
        self._waiting: list[Reservation] = []
        self._further_calls = asyncio.Lock()
        self._is_short = False

    async def admit(self, most: float | None) -> Reservation | Deferred:
        """Reserve the maximum cost of the first calls of a session; ``close`` ends it.

        Waits if it fits only after other reservations are released.

        Args:
            most: US dollars; ``None`` if the price is unknown.

        Returns:
            The reservation, or the limit that the session does not fit into even when nothing else
            is reserved.
        """
        while True:
            released = self._released
            if not (self._is_short and self._between_calls):
                answer = self.budget.admit(most)
                if isinstance(answer, Reservation):
                    self._open.add(answer)
                    return answer
                if answer.limit is not Limit.RUN_COST or self.budget.reserved_usd == 0:
                    return answer
                self._is_short = True
            await released.wait()

    async def extend(
        self,
        reservation: Reservation,
        most: float,
        reserve_day: Callable[[float], Awaitable[Deferred | None]],
    ) -> Deferred | None:
        """Reserve the maximum cost of a further call of a session.

        Waits while other sessions of this run may release what it needs.

        Args:
            reservation: The reservation of the session.
            most: US dollars.
            reserve_day: Reserves the same amount in the daily budget.

        Returns:
            The limit that the call does not fit into; ``None`` if the amount is reserved.
        """
        self._between_calls.add(reservation)
        self._waiting.append(reservation)
        self.notify_released()
        try:
            async with self._further_calls:
                while True:
                    # Before the attempt: money that is released during it was not counted.
                    released, is_final = self._released, not self._may_release()
                    refused = await _reserve(reservation, most, reserve_day)
                    if refused is None:
                        return None
                    self._is_short = True
                    if is_final:
                        return refused
                    await released.wait()
        finally:
            self._waiting.remove(reservation)
            if reservation not in self._waiting:
                self._between_calls.discard(reservation)
            self.notify_released()

    def note_reply(self, reservation: Reservation) -> None:
        """Let the next call of a session, or its end, come before new sessions."""
        self._between_calls.add(reservation)

    def note_short(self) -> None:
        """Note that a session did not fit into the daily budget."""
        self._is_short = True

    def close(self, reservation: Reservation) -> None:
        """Release the rest of a session that has ended or was not begun, in the ledger too."""
        reservation.close()
        self._open.discard(reservation)
        self._between_calls.discard(reservation)
        self.notify_released()

    def notify_released(self) -> None:
        """Wake the waiting sessions after money was settled or released."""
        self._released.set()
        self._released = asyncio.Event()

    def _may_release(self) -> bool:
        """Return whether a call is in flight, or a session has yet to write what it cost."""
        return self.budget.reserved_usd > 0 or not self._open.issubset(self._waiting)


async def _reserve(
    reservation: Reservation,
    most: float,
    reserve_day: Callable[[float], Awaitable[Deferred | None]],
) -> Deferred | None:
    refused = reservation.extend(most)
    if refused is None and (refused := await reserve_day(most)) is not None:
        reservation.release(most)
    return refused


class PrioritySemaphore:
    """Semaphore that prefers the waiter with the most turns still to come.

    In any other order a run ends with a few long conversations while most permits are idle.
    """

    def __init__(self, permits: int) -> None:
        self._free = permits
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = 0

    @asynccontextmanager
    async def acquire(self, turns_left: int) -> AsyncIterator[None]:
        """Hold a permit; waiters with the most turns left get the next one."""
        await self._wait_for_permit(turns_left)
        try:
            yield
        finally:
            self._release()

    async def _wait_for_permit(self, turns_left: int) -> None:
        if self._free:
            self._free -= 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiters, (-turns_left, self._arrivals, granted))
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._release()  # the permit was granted before the cancellation
            raise

    def _release(self) -> None:
        while self._waiters:
            *_, granted = heapq.heappop(self._waiters)
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1


@dataclass(slots=True)
class RunContext:
    """Resources of one run; use as ``async with``.

    A client is opened for each model when it is first needed. ``call_semaphore`` limits the calls
    whose reply is not yet in the ledger. ``lets_go`` says why another judge is to have the lock.
    """

    ledger: LedgerWriter
    budget_gate: BudgetGate
    lake: Lake
    settings: Settings
    hold: Hold
    clock: Callable[[], datetime]
    wire: Wire | None = None
    breakers: SharedBreakers | None = None
    lets_go: str | None = None
    call_semaphore: PrioritySemaphore = field(init=False)
    _library_import: asyncio.Task[object] = field(init=False)
    _clients: dict[str, JudgeClient] = field(default_factory=dict)
    _prices: dict[str, Pricing] = field(default_factory=dict)
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)

    def __post_init__(self) -> None:
        self.call_semaphore = PrioritySemaphore(self.settings.judge_concurrency)

    async def __aenter__(self) -> Self:
        await self._open.__aenter__()
        # The import takes a second, in which the first sessions can be read.
        library = "openai" if self.wire is None else "json"
        self._library_import = asyncio.create_task(asyncio.to_thread(import_module, library))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._library_import
        await self._open.aclose()
        gc.unfreeze()

    def for_store(self, store: ScoreStore) -> "RunContext":
        """Return the same resources, with another store of scores."""
        other = copy(self)
        other.ledger = self.ledger.for_store(store)
        return other

    def with_own_budget(self, budget: Budget, permits: PrioritySemaphore) -> "RunContext":
        """Return the same resources, with a budget and permits of their own."""
        other = copy(self)
        other.budget_gate, other.call_semaphore = BudgetGate(budget), permits
        return other

    async def client(self, model: str) -> JudgeClient:
        """Return the open client of a model.

        Raises:
            RuntimeError: No endpoint is configured; check ``why_no_judge`` before a run.
        """
        await self._library_import
        if not self._clients:
            # Objects loaded by now stay loaded: scanning them in every garbage collection took a
            # tenth of the time of a run.
            gc.freeze()
        if model not in self._clients:
            client = judge_client(self.settings, self.clock(), model, self.wire, self.breakers)
            if client is None:
                raise RuntimeError(f"{self.settings.why_no_judge}")
            self._clients[model] = client
            await self._open.enter_async_context(client)
        return self._clients[model]

    @property
    def requests_sent(self) -> int:
        """Number of requests that all clients have sent."""
        return sum(client.requests_sent for client in self._clients.values())

    def worst_case_usd(self, model: str, *calls: PlannedCall) -> float | None:
        """Return the most that calls of a model can cost; ``None`` if its price is unknown."""
        return worst_case_usd(calls, self.price(model))

    def price(self, model: str) -> Pricing:
        """Return the price of direct calls of a model."""
        if model not in self._prices:
            self._prices[model] = judge_pricing(self.settings, model, self.clock())
        return self._prices[model]

    def day_reservation(self, model: str, calls: Sequence[PlannedCall]) -> DayReservation | None:
        """Return the reservation that calls of a model need; ``None`` if its price is unknown."""
        most = self.worst_case_usd(model, *calls)
        limit = self.settings.judge_max_cost_per_day_usd
        return None if most is None else DayReservation(most, max_day_usd=limit)
