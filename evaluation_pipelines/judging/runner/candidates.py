"""Scoring of candidates by one event loop."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from evaluation_pipelines.judging.domain.budget.run_budget import Budget
from evaluation_pipelines.judging.endpoint.client import Wire
from evaluation_pipelines.judging.endpoint.configured import SharedBreakers
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.score_records import Lease
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.runner.ledger_writer import LedgerWriter
from evaluation_pipelines.judging.runner.run_context import BudgetGate, RunContext
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.judging.runner.runner import Runner
from evaluation_pipelines.judging.termination import Interruption, terminated_as_interrupted
from evaluation_pipelines.progress import Progress
from evaluation_pipelines.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class RunStores:
    """Where a run reads sessions and writes scorings, and the lease that it holds on them.

    ``wire`` answers all requests in place of the endpoint, if given. ``interruption`` can end the
    run from another thread. ``breakers`` are those of the process, if it has several runs.
    """

    stores: Stores
    scores: ScoreStore
    lease: Lease
    clock: Callable[[], datetime]
    wire: Wire | None = None
    interruption: Interruption = field(default_factory=Interruption)
    breakers: SharedBreakers | None = None


@terminated_as_interrupted()
def judge_candidates(
    run: RunStores,
    budget: Budget,
    report: JudgeReport,
    candidates: Sequence[Candidate],
    triggered_by: str,
    progress: Progress,
) -> None:
    """Judge ``candidates`` within the budget and count the results in ``report``.

    After an error or an interruption their scorings are released, with the replies received so far.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    stores, lease = run.stores, run.lease
    ledger = LedgerWriter(run.scores)
    gate = BudgetGate(budget)
    ways = run.clock, run.wire, run.breakers
    context = RunContext(ledger, gate, stores.lake, stores.settings, lease, *ways)
    try:
        runner = Runner(context, report, triggered_by, progress)
        asyncio.run(run.interruption.guard(runner.judge(candidates)))
    except BaseExceptionGroup as group:  # of tasks: the first one ended all others
        raise _first(group) from group
    finally:
        ledger.close()
        run.scores.release(lease.owner)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
