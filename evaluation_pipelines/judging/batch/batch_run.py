"""A judge run in batch mode: collect what has ended, then submit what is due."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from evaluation_pipelines.judging.batch.collect import Collection
from evaluation_pipelines.judging.batch.submit import Submission, temporary_folder
from evaluation_pipelines.judging.batch.work import BatchWork
from evaluation_pipelines.judging.domain.budget.run_budget import Budget, BudgetLimits
from evaluation_pipelines.judging.endpoint.batch_api import BatchApi, BatchApiError
from evaluation_pipelines.judging.find_due import Candidate, DueSessions
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.runner.judge_run import JudgeRun
from evaluation_pipelines.judging.runner.run_report import JudgeReport, LeftOpenReason
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.stores import Stores


def needs_batches(stores: Stores) -> bool:
    """Return whether a run has to do with batches: by its mode, or because some are out there."""
    return stores.settings.judge_mode == "batch" or bool(BatchStore(stores.ledger).unfinished())


class BatchRun(JudgeRun):
    """One run that collects and submits batches.

    In direct mode it only collects batches that an earlier run has sent. Requests of people are
    judged directly in both modes.

    Attributes:
        only_continue: Submit only sessions that an earlier run has begun.
    """

    only_continue = False
    _collected: JudgeReport | None = None

    def _judge_days(self, days: Sequence[date], hold: Hold, budget: Budget) -> None:
        """Collect batches of any date, then judge what is due of ``days``."""
        settings = self.stores.settings
        endpoint = settings.judge_endpoint
        if endpoint is None:
            return super()._judge_days(days, hold, budget)
        with BatchApi(endpoint, settings.judge_timeout_seconds) as api:
            self._work = BatchWork(self.stores, self.plans, api, self.clock, hold, self.progress)
            collection = Collection(self._work)
            self._collected = collected = self._work.report
            collection.run()
            self._work.report = JudgeReport()
            self._refusal = collection.refusal
            collected.stop_reason = collected.stop_reason or collection.refusal
            if not self.only_continue or collected.collected or collection.is_split:
                super()._judge_days(days, hold, budget)
        self._report.add(collected)
        self._collected = None
        if collected.collected:
            self._report.skip_reason = None
        return None

    def interrupted_report(self) -> JudgeReport:
        """Return the counts of a run that raised ``KeyboardInterrupt``, with collected replies."""
        self._report.add(self._collected or JudgeReport())
        return super().interrupted_report()

    def _judge_all(self, found: DueSessions, hold: Hold, budget: Budget) -> None:
        direct, batched = self._split(found.candidates)
        super()._judge_all(replace(found, candidates=direct), hold, budget)
        if batched:
            self._submit(batched)

    def _split(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
        """Return the candidates that are judged directly, and those that go into a batch."""
        if self.only_continue:
            begun = [each for each in candidates if _is_begun(each)]
            self._report.candidates -= len(candidates) - len(begun)
            candidates = begun
        if self.stores.settings.judge_mode == "direct":
            return list(candidates), []
        return [], list(candidates)

    def _submit(self, candidates: Sequence[Candidate]) -> None:
        work, report = self._work, self._report
        if (refusal := self._refusal or _why_no_batches(work.api)) is not None:
            # Nothing was created: the sessions are due, as they were.
            report.count_deferred(LeftOpenReason.ENDPOINT_DOWN, refusal)
            report.deferred[LeftOpenReason.ENDPOINT_DOWN] += len(candidates) - 1
            report.stop_reason = refusal
            return
        budget = Budget(self._remaining_limits())
        with temporary_folder() as folder:
            submission = Submission(work, budget, self.request.triggered_by, Path(folder))
            try:
                asyncio.run(submission.submit(candidates))
            finally:
                submission.abandon()
                report.add(work.report)

    def _remaining_limits(self) -> BudgetLimits:
        """Return the limits without what the direct part of the run has used."""
        limits, report = self._limits(), self._report
        sessions, money = limits.max_sessions, limits.max_run_usd
        return replace(
            limits,
            max_sessions=None if sessions is None else max(sessions - report.handled, 0),
            max_run_usd=None if money is None else max(money - report.booked_usd, 0.0),
        )


def _why_no_batches(api: BatchApi) -> str | None:
    try:
        api.check()
    except BatchApiError as error:
        return error.reason
    return None


def _is_begun(candidate: Candidate) -> bool:
    """Return whether a batch had requests of a session, or a run its replies."""
    unfinished = candidate.unfinished
    return unfinished is not None and (bool(unfinished.turn_log) or not candidate.is_request)
