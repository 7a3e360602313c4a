"""Sending of batches: the open requests of many sessions in one file.

The order of the steps makes every one of them safe to interrupt: the batch is in the ledger before
its judgments name it, and it is ``submitting`` there before it is created at the provider.

Earlier batches show how many requests may be at the provider at once: one that was too large for
its queue halves the number. After a batch that the endpoint spoiled, a few requests find out
whether it works again.
"""

import asyncio
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from evaluation_pipelines.judging.context import RunContext
from evaluation_pipelines.judging.domain.budget import BatchPrice, DayReservation, worst_case_usd
from evaluation_pipelines.judging.endpoint.batch_api import (
    MAX_BYTES,
    MAX_REQUESTS,
    BatchApi,
    BatchApiError,
    in_thread,
    request_line,
)
from evaluation_pipelines.judging.endpoint.configured import call_limits
from evaluation_pipelines.judging.endpoint.limits import MAX_FAILURES
from evaluation_pipelines.judging.endpoint.transport import RequestForm
from evaluation_pipelines.judging.ledger.batch_store import BatchStore, JudgeBatch
from evaluation_pipelines.judging.report import JudgeReport, LeftOpenReason
from evaluation_pipelines.judging.scoring import PromptInput
from evaluation_pipelines.times import to_us

_LEARNED_FOR = timedelta(days=30)
"""A refusal counts for so long: the endpoint may accept more by then, or be another one."""

_TOO_LARGE = re.compile(
    r"\benqueued\b|\btoken[ _]limit|\btoo (?:large|big|many)\b|\bqueue\b.{0,20}\bfull\b"
    r"|\bmaximum (?:size|number)\b",
    re.IGNORECASE,
)


@dataclass(slots=True)
class BatchFile:
    """A file of requests for one model, and the batch that it becomes."""

    batch_id: str
    model: str
    path: Path
    content: BinaryIO
    requests: int = 0
    size: int = 0
    reserved_usd: float = 0.0
    sessions: int = 0

    def has_room(self, lines: Sequence[bytes]) -> bool:
        """Return whether the lines still fit."""
        more = sum(map(len, lines))
        return self.requests + len(lines) <= MAX_REQUESTS and self.size + more <= MAX_BYTES

    def add(self, lines: Sequence[bytes], reserved_usd: float) -> None:
        """Add the requests of a session."""
        self.content.writelines(lines)
        self.requests += len(lines)
        self.size += sum(map(len, lines))
        self.sessions += 1
        self.reserved_usd += reserved_usd


@dataclass(slots=True)
class BatchFiles:
    """What carries the requests of a run in batch mode."""

    context: RunContext
    report: JudgeReport
    batches: BatchStore
    api: BatchApi
    folder: Path
    _files: dict[str, BatchFile] = field(default_factory=dict)
    _forms: dict[str, RequestForm] = field(default_factory=dict)
    _rooms: dict[str, int | None] = field(default_factory=dict)

    async def has_room(self, model: str) -> bool:
        """Return whether the provider takes more requests to a model now."""
        if model not in self._rooms:
            since, form = self.context.clock() - _LEARNED_FOR, RequestForm()
            recent = await self.context.ledger.run(self.batches.of_model, model, since)
            self._rooms[model] = room_for(recent)
            for batch in recent:
                form = form.alternative(batch.error_message or "") or form
            # The results of a batch are no streams.
            self._forms[model] = replace(form, streams=False)
        room = self._rooms[model]
        return room is None or room > 0

    def reservation(self, prompt: PromptInput) -> DayReservation | None:
        """Return the money for the open requests of a session; ``None`` if it is unknown.

        It is reserved, not booked: it is free again if the batch is never created.
        """
        settings, model = self.context.settings, prompt.candidate.plan.setup.model
        calls = prompt.open_calls(settings.judge_max_output_tokens)
        price = BatchPrice(self.context.price(model), settings.judge_batch_price_factor)
        most = worst_case_usd(calls, price)
        limit = settings.judge_max_cost_per_day_usd
        return None if most is None else DayReservation(0.0, most, limit)

    def lines(self, prompt: PromptInput) -> list[bytes]:
        """Return the open requests of a session as lines of a file, after ``has_room``."""
        limits, model = call_limits(self.context.settings), prompt.candidate.plan.setup.model
        form, how = self._forms[model], (limits.max_output_tokens, limits.temperature)
        return [
            request_line(prompt.score_id, request.turn, form.body(model, request.messages, *how))
            for request in prompt.conversation.open_requests()
        ]

    async def file(self, model: str, lines: Sequence[bytes]) -> BatchFile:
        """Return the file of a model that has room; one that is full is sent.

        Raises:
            BatchApiError: It could not be sent.
        """
        file = self._files.get(model)
        if file is not None and not file.has_room(lines):
            await self._send(file)
            file = None
        if file is None:
            batch_id = str(uuid4())
            begin, now = self.batches.begin, self.context.clock()
            await self.context.ledger.run(begin, batch_id, model, now)
            path = self.folder / f"{batch_id}.jsonl"
            file = self._files[model] = BatchFile(batch_id, model, path, path.open("wb"))
        return file

    def add(self, file: BatchFile, lines: Sequence[bytes], reserved_usd: float) -> None:
        """Add the requests of a session, whose judgment names the batch already."""
        file.add(lines, reserved_usd)
        if (room := self._rooms[file.model]) is not None:
            self._rooms[file.model] = room - len(lines)

    async def send_all(self) -> None:
        """Send what is not sent yet. Raises as ``file``."""
        for file in list(self._files.values()):
            await self._send(file)

    def abandon(self) -> None:
        """Release the judgments of the files that were not sent; after an error or interruption.

        The next run deletes what was uploaded: an upload may still be on its way.
        """
        for file in self._files.values():
            self._take_back(file)
            reason = "the run ended before it was sent"
            # After what waits in the ledger's thread: judgments that are just being created.
            self.context.ledger.run_later(self._release, file.batch_id, reason)

    async def _send(self, file: BatchFile) -> None:
        """Upload a file and create its batch."""
        write, batch_id = self.context.ledger.run, file.batch_id
        file.content.close()
        if not file.requests:
            await self._drop(file, "nothing was left to send")
            return
        try:
            await write(self.batches.change, batch_id, requests=file.requests)
            # The lock is kept until it has ended: the next run could not delete the file before.
            file_id = await asyncio.to_thread(self.api.upload, file.path, batch_id)
            begun = {"input_file_id": file_id, "submitting_at_us": to_us(self.context.clock())}
            await write(self.batches.change, batch_id, state="submitting", **begun)
            self._files.pop(file.model)  # from here on it may exist, whatever happens
            created = await in_thread(self.api.create, file_id, batch_id)
            await write(self.batches.note_submitted, batch_id, created, self.context.clock())
        except BatchApiError as error:
            reason = f"the next run finds out whether a batch was created: {error.reason}"
            if error.is_refused or file.model in self._files:
                await self._drop(file, error.reason)
                reason = f"no batch was created: {error.reason}"
            self.report.deferred[LeftOpenReason.ENDPOINT_DOWN] += file.sessions
            raise BatchApiError(reason, is_refused=error.is_refused) from error
        finally:
            file.path.unlink(missing_ok=True)
        self.report.batches += 1
        self.report.calls += file.requests
        self.report.submitted += file.sessions

    async def _drop(self, file: BatchFile, reason: str) -> None:
        """Release the judgments of a file that certainly became no batch."""
        self._files.pop(file.model, None)
        self._take_back(file)
        write, batch_id = self.context.ledger.run, file.batch_id
        await write(self._release, batch_id, reason)
        with suppress(BatchApiError):  # the next run deletes the upload
            await in_thread(self.api.delete_uploads, batch_id)
            await write(self.batches.discard, batch_id, reason, self.context.clock())

    def _take_back(self, file: BatchFile) -> None:
        file.content.close()
        self.context.budget_gate.budget.take_back(file.reserved_usd)

    def _release(self, batch_id: str, reason: str) -> None:
        self.context.ledger.store.release_batch(batch_id)
        self.batches.change(batch_id, state="preparing", error_message=reason)


@contextmanager
def batch_files(
    context: RunContext, report: JudgeReport, batches: BatchStore, api: BatchApi
) -> Iterator[BatchFiles]:
    """Open the transport of a run; files that are not sent in the end are given up."""
    with tempfile.TemporaryDirectory(prefix="judge-batches-") as folder:
        files = BatchFiles(context, report, batches, api, Path(folder))
        try:
            yield files
        finally:
            files.abandon()


def is_too_large(refusal: str) -> bool:
    """Return whether a provider refused a batch because of its size."""
    return _TOO_LARGE.search(refusal) is not None


def room_for(batches: Sequence[JudgeBatch]) -> int | None:
    """Return how many more requests of a model may be sent; ``None`` if nothing limits them.

    A batch that the endpoint spoiled is followed by a probe of MAX_FAILURES requests.

    Args:
        batches: Batches of the model, old ones left out.
    """
    out = sum(batch.requests for batch in batches if batch.ended_at_us is None)
    refused = [batch for batch in batches if _was_too_large(batch)]
    limits = [max(_requests_out_at(batch, batches) // 2, 1) for batch in refused]
    ended = [batch for batch in batches if batch.provider_batch_id and batch.ended_at_us]
    last = max(ended, key=lambda batch: batch.ended_at_us or 0, default=None)
    if last is not None and last.error_message and last not in refused:
        limits.append(MAX_FAILURES)
    return min(limits) - out if limits else None


def _was_too_large(batch: JudgeBatch) -> bool:
    # Batches that were accepted have errors of single requests.
    is_refused = batch.provider_batch_id is None or batch.provider_status == "failed"
    return is_refused and is_too_large(batch.error_message or "")


def _requests_out_at(refused: JudgeBatch, batches: Sequence[JudgeBatch]) -> int:
    """Return the requests that were at the provider with a batch that it refused."""
    begun_us = refused.created_at_us
    return sum(
        batch.requests
        for batch in batches
        if batch.created_at_us <= begun_us
        and (batch is refused or batch.ended_at_us is None or batch.ended_at_us > begun_us)
    )
