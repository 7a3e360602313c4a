"""A judge run: find the due sessions, end unfinished scorings, judge within the budget."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TypeVar

from evaluation_pipelines.judging.domain.budget.run_budget import Budget, BudgetLimits
from evaluation_pipelines.judging.domain.due import ExtraDue
from evaluation_pipelines.judging.endpoint.client import Wire
from evaluation_pipelines.judging.endpoint.configured import (
    SharedBreakers,
    judge_budget_limits,
)
from evaluation_pipelines.judging.find_due import DueSessions, find_due
from evaluation_pipelines.judging.ledger.errors import (
    ScoreEndedError,
    ScoreLeaseLostError,
    UnknownScoreError,
)
from evaluation_pipelines.judging.ledger.score_records import Failure, Lease
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import Plans
from evaluation_pipelines.judging.runner.candidates import (
    RunStores,
    judge_candidates,
)
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.judging.session_windows import WindowKey, window_key
from evaluation_pipelines.judging.termination import Interruption, terminated_as_interrupted
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.storage.lease_owner import new_owner
from evaluation_pipelines.storage.stores import Stores

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Request for a judge run.

    Attributes:
        triggered_by: A person, ``schedule``, ``sensor`` or the id of a Dagster run.
        extra: Sessions to judge in addition to the due ones.
        max_sessions: Tighter limit than that of the settings; ``None`` for no further limit.
        max_cost_usd: Tighter limit than that of the settings; ``None`` for no further limit.
        window: The only session window to judge; ``None`` for all.
    """

    triggered_by: str
    extra: ExtraDue = field(default_factory=ExtraDue)
    max_sessions: int | None = None
    max_cost_usd: float | None = None
    window: WindowKey | None = None

    @property
    def is_automatic(self) -> bool:
        """Whether no person has started the run."""
        return self.triggered_by in {"schedule", "sensor"}


@dataclass(slots=True)
class JudgeRun:
    """One judge run; create a new object for each run.

    Tests replace ``clock``. ``wire`` answers all requests in place of the endpoint, if given.
    ``interruption`` can end the run from another thread; it raises ``asyncio.CancelledError`` then.
    ``breakers`` are those of the process, if it has several runs.
    """

    stores: Stores
    plans: Plans
    request: RunRequest
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    progress: Progress = field(default_factory=Silent)
    wire: Wire | None = None
    interruption: Interruption = field(default_factory=Interruption)
    breakers: SharedBreakers | None = None
    _report: JudgeReport = field(default_factory=JudgeReport)

    @terminated_as_interrupted()
    def run(self, days: Sequence[date]) -> JudgeReport:
        """Judge the due sessions of the session dates ``days``.

        Without a configured judge the report only has a ``skip_reason``. After an error or an
        interruption the scorings of the run are released, with the replies received so far.

        Raises:
            LedgerError: The ledger cannot be used.
        """
        now, settings = self.clock(), self.stores.settings
        self._report.skip_reason = settings.why_no_judge
        if self._report.skip_reason is not None:
            return self._report
        ScoreStore(self.stores.ledger).reopen_abandoned(now)
        request = self.request
        found = find_due(self.stores, self.plans, days, now, request.extra, request.window)
        why_off = settings.why_no_automatic_judging if request.is_automatic else None
        if why_off is not None:
            found = found.requested()
            self._report.skip_reason = None if found.candidates or found.discarded else why_off
        self._report.states, self._report.unreadable = found.states, found.unreadable
        self._report.faults = found.faults
        self._report.excluded_flags = settings.judge_exclude_flagged
        for each in found.candidates:
            if (why := self.plans.why_not_counted(each.window, each.plan)) is not None:
                self._report.why_not_counted[window_key(each.window)] = why
        self._report.candidates, self._report.outdated = len(found.candidates), found.outdated
        lease = Lease(new_owner(), settings.judge_lease_seconds)
        self._fail_discarded(found, lease)
        if found.candidates:
            self._judge_all(found, lease)
        return self._report

    def interrupted_report(self) -> JudgeReport:
        """Return the counts of a run that raised ``KeyboardInterrupt``."""
        self._report.count_interrupted()
        return self._report

    def _judge_all(self, found: DueSessions, lease: Lease) -> None:
        budget = Budget(self._limits())
        by, scores = self.request.triggered_by, ScoreStore(self.stores.ledger)
        ways = self.clock, self.wire, self.interruption, self.breakers
        run_stores = RunStores(self.stores, scores, lease, *ways)
        try:
            judge_candidates(run_stores, budget, self._report, found.candidates, by, self.progress)
        finally:
            self._report.booked_usd = budget.spent_usd

    def _limits(self) -> BudgetLimits:
        limits = judge_budget_limits(self.stores.settings)
        return replace(
            limits,
            max_sessions=_tighter(limits.max_sessions, self.request.max_sessions),
            max_run_usd=_tighter(limits.max_run_usd, self.request.max_cost_usd),
        )

    def _fail_discarded(self, found: DueSessions, lease: Lease) -> None:
        """Mark unfinished scorings that cannot be resumed as failed."""
        scores = ScoreStore(self.stores.ledger)
        for score, reason in found.discarded:
            # Another run was faster, or the session was forgotten.
            with suppress(ScoreLeaseLostError, ScoreEndedError, UnknownScoreError):
                now = self.clock()
                scores.claim(score.score_id, lease, now)
                failure = Failure(
                    f"left unfinished and cannot be resumed: {reason}", retriable=True
                )
                failed = scores.fail(score.score_id, lease.owner, failure, now)
                self._report.count_discarded(failed, reason)


def _tighter(one: _Number | None, other: _Number | None) -> _Number | None:
    given = [each for each in (one, other) if each is not None]
    return min(given, default=None)
