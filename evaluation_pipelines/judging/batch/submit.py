"""Submission of batches: the open requests of many sessions in one file.

The order of the steps makes every one of them safe to interrupt: the batch is in the ledger before
its scorings name it, and it is ``submitting`` there before it is created at the provider.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from evaluation_pipelines.judging.batch.work import BatchWork
from evaluation_pipelines.judging.domain.batch.requests import (
    MAX_BYTES,
    MAX_REQUESTS,
    request_line,
)
from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.budget.pricing import worst_case_usd
from evaluation_pipelines.judging.domain.budget.run_budget import Budget, Deferred
from evaluation_pipelines.judging.endpoint.batch_api import BatchApiError
from evaluation_pipelines.judging.endpoint.configured import call_limits
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.errors import (
    DayBudgetReachedError,
)
from evaluation_pipelines.judging.runner.prompt_input import (
    PromptFailure,
    PromptInput,
    produce_prompts,
)
from evaluation_pipelines.judging.runner.run_report import LeftOpenReason
from evaluation_pipelines.judging.runner.starting import (
    NOT_OURS,
    Refusals,
    Starter,
)
from evaluation_pipelines.times import to_us

_CHECK_EVERY = 100
"""Sessions after which the lock is checked."""


@dataclass(slots=True)
class _File:
    """A file of requests for one model, and the batch that it becomes."""

    batch_id: str
    model: str
    path: Path
    content: BinaryIO
    requests: int = 0
    size: int = 0
    sessions: set[str] = field(default_factory=set)

    def has_room(self, lines: Sequence[bytes]) -> bool:
        """Return whether the lines still fit."""
        more = sum(map(len, lines))
        return self.requests + len(lines) <= MAX_REQUESTS and self.size + more <= MAX_BYTES


class Submission:
    """Submits candidates of one run."""

    def __init__(self, work: BatchWork, budget: Budget, triggered_by: str, folder: Path) -> None:
        self.work, self.budget = work, budget
        self._folder = folder
        self._files: dict[str, _File] = {}
        self._refusals = Refusals(work.report)
        self._starter = Starter(work.scores, triggered_by)
        self._rooms: dict[str, int | None] = {}
        self._stop_kind: str = "run_stopped"

    async def submit(self, candidates: Sequence[Candidate]) -> None:
        """Send the open requests of ``candidates``; end those that have all their replies.

        Those that do not fit into the budget are deferred.
        """
        report, settings, handled = self.work.report, self.work.stores.settings, 0
        self.work.progress.begin("writing requests", len(candidates))
        async for prompt in produce_prompts(self.work.stores.lake, settings, candidates):
            if report.stop_reason is not None:
                break
            handled += 1
            self.work.progress.advance(1)
            if isinstance(prompt, PromptInput):
                self._add(prompt)
            else:
                self._count_prompt_failure(prompt)
            if handled % _CHECK_EVERY == 0:
                self.work.hold.check()
        for file in list(self._files.values()):
            self._send(file)
        if rest := len(candidates) - handled:
            report.deferred[self._stop_kind] += rest

    def abandon(self) -> None:
        """Release the scorings of the files that were not sent; after an error or interruption."""
        for file in list(self._files.values()):
            self._drop(file, "the run ended before it was sent")

    def _add(self, prompt: PromptInput) -> None:
        """Add the open requests of a session to the file of its model."""
        settings, score_id = self.work.stores.settings, prompt.score_id
        model = prompt.candidate.plan.setup.model
        requests = prompt.conversation.open_requests()
        if not requests:
            self._end(prompt)
            return
        if not self._has_room(model):
            return
        limits = call_limits(settings)
        most_tokens, temperature = limits.max_output_tokens, limits.temperature
        form = self.work.form(model)
        bodies = [form.body(model, each.messages, most_tokens, temperature) for each in requests]
        lines = [
            request_line(score_id, each.turn, body)
            for each, body in zip(requests, bodies, strict=True)
        ]
        calls = prompt.open_calls(settings.judge_max_output_tokens)
        most = worst_case_usd(calls, self.work.price(model))
        reservation = self.budget.admit(most)
        if isinstance(reservation, Deferred):
            self._count_refusal(reservation)
            return
        file = self._file(model, lines)
        money = None
        if most is not None:
            # Reserved, not booked: it is free again if the batch is never created.
            money = DayReservation(0.0, most, settings.judge_max_cost_per_day_usd)
        try:
            start, now = self._starter.start, self.work.clock()
            start(prompt.candidate, score_id, now, prompt.facts, money, file.batch_id)
        except DayBudgetReachedError as error:
            reservation.close()
            self._count_refusal(error.refused)
            return
        except NOT_OURS:
            reservation.close()
            self.work.report.taken_by_another_run += 1
            return
        self._refusals.reset()
        file.content.writelines(lines)
        file.requests += len(lines)
        file.size += sum(map(len, lines))
        file.sessions.add(score_id)
        if (room := self._rooms[model]) is not None:
            self._rooms[model] = room - len(lines)

    def _has_room(self, model: str) -> bool:
        """Return whether the provider takes another session now; otherwise defer it."""
        if model not in self._rooms:
            self._rooms[model] = self.work.room(model)
        room = self._rooms[model]
        if room is None or room > 0:
            return True
        reason = f"no more requests to {model} until those at the provider have ended"
        self.work.report.count_deferred(LeftOpenReason.NO_ROOM, reason)
        return False

    def _file(self, model: str, lines: Sequence[bytes]) -> _File:
        """Return the file of a model that has room; one that is full is sent."""
        file = self._files.get(model)
        if file is not None and not file.has_room(lines):
            self._send(file)
            file = None
        if file is None:
            batch_id = str(uuid4())
            self.work.batches.begin(batch_id, model, self.work.clock())
            path = self._folder / f"{batch_id}.jsonl"
            file = self._files[model] = _File(batch_id, model, path, path.open("wb"))
        return file

    def _send(self, file: _File) -> None:
        """Upload a file and create its batch."""
        work, store = self.work, self.work.batches
        file.content.close()
        if not file.requests:
            self._drop(file, "nothing was left to send")
            return
        try:
            store.change(file.batch_id, requests=file.requests)
            file_id = work.api.upload(file.path, file.batch_id)
            now = work.clock()
            begun = {"state": "submitting", "submitting_at_us": to_us(now)}
            store.change(file.batch_id, input_file_id=file_id, **begun)
            self._files.pop(file.model)  # from here on it may exist, whatever happens
            created = work.api.create(file_id, file.batch_id)
            store.note_submitted(file.batch_id, created, work.clock())
        except BatchApiError as error:
            self._count_unsent(file, error)
        else:
            work.report.batches += 1
            work.report.calls += file.requests
            work.report.submitted += len(file.sessions)
        file.path.unlink(missing_ok=True)

    def _count_unsent(self, file: _File, error: BatchApiError) -> None:
        """Stop the run; without an answer the next run finds out whether the batch exists."""
        reason = f"no batch was created: {error.reason}"
        if error.is_refused or file.model in self._files:
            self._drop(file, error.reason)
        else:
            reason = f"the next run finds out whether a batch was created: {error.reason}"
        self._stop_kind, self.work.report.stop_reason = LeftOpenReason.ENDPOINT_DOWN, reason
        self.work.report.deferred[LeftOpenReason.ENDPOINT_DOWN] += len(file.sessions)

    def _drop(self, file: _File, reason: str) -> None:
        """Release the scorings of a file that certainly became no batch."""
        work, batch_id = self.work, file.batch_id
        file.content.close()
        file.path.unlink(missing_ok=True)
        self._files.pop(file.model, None)
        work.scores.release_batch(batch_id)
        ended = {"ended_at_us": to_us(work.clock()), "error_message": reason}
        try:
            work.api.delete_uploads(batch_id)
            work.batches.change(batch_id, state="discarded", **ended)
        except BatchApiError:  # the next run deletes the upload
            work.batches.change(batch_id, state="preparing", error_message=reason)

    def _end(self, prompt: PromptInput) -> None:
        """End a scoring that has all its replies."""
        outcome, score_id, work = prompt.conversation.outcome(), prompt.score_id, self.work
        try:
            start, now = self._starter.start, work.clock()
            start(prompt.candidate, score_id, now, prompt.facts)
            if outcome is not None:
                work.report.count_ended(work.end(score_id, outcome))
        except NOT_OURS:
            work.report.taken_by_another_run += 1

    def _count_prompt_failure(self, failed: PromptFailure) -> None:
        report, work = self.work.report, self.work
        match failed.kind:
            case "unreadable":
                report.unreadable[failed.candidate.window.session_date] = failed.reason
                report.count_deferred("unreadable", failed.reason)
            case "changed":
                report.changed += 1
            case "unusable":
                try:
                    report.count_ended(self._starter.fail(failed, work.clock()))
                except NOT_OURS:
                    report.taken_by_another_run += 1

    def _count_refusal(self, refused: Deferred) -> None:
        if (why := self._refusals.add(refused)) is not None:
            self._stop_kind, self.work.report.stop_reason = refused.limit, why


def temporary_folder() -> "tempfile.TemporaryDirectory[str]":
    """Return a private folder for the files until they are sent."""
    return tempfile.TemporaryDirectory(prefix="judge-batches-")
