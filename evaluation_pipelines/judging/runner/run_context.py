"""What all scorings of one run share: the ledger, the endpoint, the money and the clock."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import Self

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.budget.pricing import PlannedCall, Pricing, most_usd
from evaluation_pipelines.judging.domain.budget.run_budget import (
    Budget,
    Deferred,
    Limit,
    Reservation,
)
from evaluation_pipelines.judging.endpoint.client import JudgeClient
from evaluation_pipelines.judging.endpoint.configured import judge_client, judge_pricing
from evaluation_pipelines.judging.ledger.score_records import Lease
from evaluation_pipelines.judging.runner.ledger_writer import LedgerWriter
from evaluation_pipelines.judging.runner.priority_semaphore import PrioritySemaphore
from evaluation_pipelines.judging.runner.prompt_input import PlannedCalls
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import Lake


class BudgetGate:
    """Admits sessions to the budget of the run.

    Who must wait waits until money has become free again.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._freed = asyncio.Event()

    async def admit(self, most: float | None) -> Reservation | Deferred:
        """Reserve the most that a session can cost, or say why it does not fit.

        Much of what is reserved for sessions under way is given back when they are done: only what
        does not fit beside nothing is deferred.
        """
        while True:
            freed = self._freed
            answer = self.budget.admit(most)
            if isinstance(answer, Reservation):
                return answer
            if answer.limit is not Limit.RUN_COST or self.budget.reserved_usd == 0:
                return answer
            await freed.wait()

    def note_freed(self) -> None:
        """Something was settled or given back: let those who wait try again."""
        self._freed.set()
        self._freed = asyncio.Event()


@dataclass(slots=True)
class RunContext:
    """One run's tools; use as ``async with``.

    There is one client a model, opened when it is needed first. ``slots`` bounds the calls whose
    reply is not in the ledger yet.
    """

    ledger: LedgerWriter
    till: BudgetGate
    lake: Lake
    settings: Settings
    lease: Lease
    clock: Callable[[], datetime]
    slots: PrioritySemaphore = field(init=False)
    _warm: asyncio.Task[object] = field(init=False)
    _clients: dict[str, JudgeClient] = field(default_factory=dict)
    _prices: dict[str, Pricing] = field(default_factory=dict)
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)

    def __post_init__(self) -> None:
        self.slots = PrioritySemaphore(self.settings.judge_concurrency)

    async def __aenter__(self) -> Self:
        await self._open.__aenter__()
        # It takes a second, in which the first sessions can be read.
        self._warm = asyncio.create_task(asyncio.to_thread(import_module, "openai"))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._warm
        await self._open.aclose()
        gc.unfreeze()

    async def client(self, model: str) -> JudgeClient:
        """Who asks that model.

        Raises:
            RuntimeError: no endpoint is configured; look at ``why_no_judge`` before a run.
        """
        await self._warm
        if not self._clients:
            # All that is loaded by now stays loaded: to look through it for garbage, again and
            # again while replies wait, took a tenth of the time of a run.
            gc.freeze()
        if model not in self._clients:
            made = judge_client(self.settings, self.clock(), model)
            if made is None:
                raise RuntimeError(f"{self.settings.why_no_judge}")
            self._clients[model] = made
            await self._open.enter_async_context(made)
        return self._clients[model]

    def most_usd(self, model: str, *calls: PlannedCall) -> float | None:
        """The most that calls of a model can cost; None when its price is unknown."""
        if model not in self._prices:
            self._prices[model] = judge_pricing(self.settings, model, self.clock())
        return most_usd(calls, self._prices[model])

    def stake(self, model: str, calls: PlannedCalls) -> DayReservation | None:
        """What calls of a model need to have set aside; None when its price is unknown."""
        now, later = self.most_usd(model, *calls.now), self.most_usd(model, *calls.later)
        if now is None or later is None:
            return None
        return DayReservation(now, later, self.settings.judge_max_cost_per_day_usd)
