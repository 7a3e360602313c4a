"""A judge run: what is due of some dates, who is left unfinished, and what it may cost."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TypeVar

from evaluation_pipelines.judging.domain.budget.run_budget import Budget, BudgetLimits
from evaluation_pipelines.judging.endpoint.configured import judge_budget_limits
from evaluation_pipelines.judging.find_due import DueSessions, find_due
from evaluation_pipelines.judging.ledger.errors import ScoreEndedError, ScoreLeaseLostError
from evaluation_pipelines.judging.ledger.score_records import Failure, Lease
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import Plans
from evaluation_pipelines.judging.runner.ledger_writer import LedgerWriter
from evaluation_pipelines.judging.runner.run_context import BudgetGate, RunContext
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.judging.runner.run_request import RunRequest
from evaluation_pipelines.judging.runner.runner import Runner
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.storage.lease_owner import is_gone, new_owner
from evaluation_pipelines.storage.stores import Stores

_Number = TypeVar("_Number", int, float)


@dataclass(slots=True)
class JudgeRun:
    """Judges sessions; one object a run.

    ``clock`` gives the time; tests give it another.
    """

    stores: Stores
    plans: Plans
    order: RunRequest
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    progress: Progress = field(default_factory=Silent)
    _report: JudgeReport = field(default_factory=JudgeReport)

    def run(self, days: Sequence[date]) -> JudgeReport:
        """Judge what is due of some session dates; says why where no judge is configured.

        Whatever ends it, its scorings are free for others afterwards, with the replies they have.

        Raises:
            LedgerError: the ledger cannot be used.
        """
        now, settings = self.clock(), self.stores.settings
        self._report.skipped = settings.why_no_judge
        if self._report.skipped is not None:
            return self._report
        self._end_leases_of_the_dead(now)
        found = find_due(self.stores, self.plans, days, now, self.order.asked, self.order.chosen)
        self._report.states, self._report.unreadable = found.states, found.unreadable
        self._report.candidates = len(found.candidates)
        lease = Lease(new_owner(), settings.judge_lease_seconds)
        self._give_up_lost(found, lease)
        if found.candidates:
            self._judge_all(found, lease)
        return self._report

    def _end_leases_of_the_dead(self, now: datetime) -> None:
        """What dead processes held is free at once, with the money that they had set aside."""
        scores = ScoreStore(self.stores.ledger)
        for owner in filter(is_gone, scores.lease_owners()):
            scores.expire(owner, now)

    def _judge_all(self, found: DueSessions, lease: Lease) -> None:
        ledger = LedgerWriter(ScoreStore(self.stores.ledger))
        till = BudgetGate(Budget(self._limits()))
        desk = RunContext(ledger, till, self.stores.lake, self.stores.settings, lease, self.clock)
        try:
            shift = Runner(desk, self._report, self.order, self.progress)
            asyncio.run(shift.judge(found.candidates))
        except BaseExceptionGroup as group:  # of tasks: the first one ended all others
            raise _first(group) from group
        finally:
            ledger.close()
            ScoreStore(self.stores.ledger).release(lease.owner)
        self._report.booked_usd = till.budget.spent_usd

    def _limits(self) -> BudgetLimits:
        limits = judge_budget_limits(self.stores.settings)
        return replace(
            limits,
            max_sessions=_tighter(limits.max_sessions, self.order.max_sessions),
            max_run_usd=_tighter(limits.max_run_usd, self.order.max_cost_usd),
        )

    def _give_up_lost(self, found: DueSessions, lease: Lease) -> None:
        """Bring scorings to their end that somebody left unfinished and that cannot go on."""
        scores = ScoreStore(self.stores.ledger)
        for score, reason in found.lost:
            with suppress(ScoreLeaseLostError, ScoreEndedError):  # somebody else was faster
                now = self.clock()
                scores.claim(score.score_id, lease, now)
                what = Failure(f"left unfinished, and cannot go on: {reason}", retriable=True)
                failed = scores.fail(score.score_id, lease.owner, what, now)
                self._report.note_loss(failed, reason)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _tighter(one: _Number | None, other: _Number | None) -> _Number | None:
    given = [each for each in (one, other) if each is not None]
    return min(given, default=None)
