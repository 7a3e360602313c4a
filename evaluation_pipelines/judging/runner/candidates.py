"""Scoring of candidates by one event loop, and of what people ask for meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from evaluation_pipelines.judging.domain.budget.run_budget import Budget, BudgetLimits
from evaluation_pipelines.judging.endpoint.client import Wire
from evaluation_pipelines.judging.endpoint.configured import SharedBreakers
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import Plans
from evaluation_pipelines.judging.runner.ledger_writer import LedgerWriter
from evaluation_pipelines.judging.runner.requests import RequestLane
from evaluation_pipelines.judging.runner.run_context import BudgetGate, RunContext
from evaluation_pipelines.judging.runner.run_report import JudgeReport, LeftOpenReason
from evaluation_pipelines.judging.runner.runner import Runner
from evaluation_pipelines.judging.termination import Interruption, terminated_as_interrupted
from evaluation_pipelines.progress import Progress
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.stores import Stores

_REQUESTS_BESIDE_A_RUN = 4
"""Requests of people that are served at a time while a run has sessions of its own."""


@dataclass(frozen=True, slots=True)
class RunStores:
    """Where a run reads sessions and writes scorings, and the lock that it holds.

    ``wire`` answers all requests in place of the endpoint, if given. ``interruption`` can end the
    run from another thread. ``breakers`` are those of the process, if it has several runs.
    ``let_go_for`` has the requests for other judges that the lock was left to already, ``served``
    counts what was judged on request.
    """

    stores: Stores
    plans: Plans
    scores: ScoreStore
    hold: Hold
    clock: Callable[[], datetime]
    wire: Wire | None = None
    interruption: Interruption = field(default_factory=Interruption)
    breakers: SharedBreakers | None = None
    let_go_for: set[str] = field(default_factory=set)
    served: JudgeReport = field(default_factory=JudgeReport)


def judge_candidates(
    run: RunStores,
    budget: Budget,
    report: JudgeReport,
    candidates: Sequence[Candidate],
    triggered_by: str,
    progress: Progress,
) -> None:
    """Judge ``candidates`` within the budget, as ``judge_by`` does."""
    judge_by(run, budget, report, triggered_by, progress, lambda runner: runner.judge(candidates))


@terminated_as_interrupted()
def judge_by(
    run: RunStores,
    budget: Budget,
    report: JudgeReport,
    triggered_by: str,
    progress: Progress,
    work: Callable[[Runner], Awaitable[None]],
    *,
    is_for_requests: bool = False,
) -> None:
    """Do some work of a judge within the budget, and count its results and all calls.

    Requests of people are served meanwhile, and then until none is left. After an error or an
    interruption the scorings wait for the next judge, with the replies received so far.

    Args:
        run: Stores, plans and the lock.
        budget: Budget of the work.
        report: Counts it.
        triggered_by: As in ``RunRequest``.
        progress: Shows it.
        work: What is done.
        is_for_requests: Whether there is no other work.

    Raises:
        LedgerError: The ledger cannot be used.
        LockLostError: Another process may judge now.
    """
    ledger = LedgerWriter(run.scores)
    ways = run.clock, run.wire, run.breakers
    stores = run.stores
    context = RunContext(ledger, BudgetGate(budget), stores.lake, stores.settings, run.hold, *ways)
    runner = Runner(context, report, triggered_by, progress)

    async def serve() -> None:
        concurrency = stores.settings.judge_concurrency
        most = concurrency if is_for_requests else min(_REQUESTS_BESIDE_A_RUN, concurrency)

        def let_go(reason: str) -> None:
            context.lets_go = reason
            report.explanations.setdefault(LeftOpenReason.YIELDED, reason)
            runner.stop(LeftOpenReason.YIELDED, reason)

        async with context:
            lane = request_lane(context, stores, run.plans, most, let_go, run.let_go_for)
            try:
                async with lane.serving():
                    await work(runner)
            finally:
                run.served.add(lane.report)
                report.calls += context.requests_sent

    try:
        asyncio.run(run.interruption.guard(serve()))
    except BaseExceptionGroup as group:  # of tasks: the first one ended all others
        raise _first(group) from group
    finally:
        ledger.close()
        run.scores.release()


@asynccontextmanager
async def serving_requests(
    stores: Stores, plans: Plans, hold: Hold, clock: Callable[[], datetime]
) -> AsyncIterator[None]:
    """Serve requests of people during a block that holds the lock and judges nothing itself."""
    scores = ScoreStore(stores.ledger, hold=hold)
    ledger, gate = LedgerWriter(scores), BudgetGate(Budget(BudgetLimits()))
    context = RunContext(ledger, gate, stores.lake, stores.settings, hold, clock)
    lane = request_lane(context, stores, plans, _REQUESTS_BESIDE_A_RUN, None, set())
    try:
        async with context, lane.serving():
            yield
    finally:
        ledger.close()
        scores.release()


def request_lane(
    context: RunContext,
    stores: Stores,
    plans: Plans,
    most: int,
    let_go: Callable[[str], None] | None,
    others: set[str],
) -> RequestLane:
    """Return what serves requests of people next to a run, up to ``most`` at a time."""
    scores = ScoreStore(stores.ledger, hold=context.hold)
    return RequestLane(context.for_store(scores), stores, plans, most, let_go, others)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
