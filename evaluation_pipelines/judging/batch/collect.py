"""Collection of batches: what the provider answered is stored, everything else is due again."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from evaluation_pipelines.judging.batch.problems import BatchProblems
from evaluation_pipelines.judging.batch.room import is_too_large
from evaluation_pipelines.judging.batch.usage import SentRequests
from evaluation_pipelines.judging.batch.work import BatchWork, body_bytes
from evaluation_pipelines.judging.domain.batch.requests import BatchResult, read_result
from evaluation_pipelines.judging.domain.conversation import (
    MISSING_TOOLS_TURN,
    Conversation,
    logged_turn,
)
from evaluation_pipelines.judging.domain.prompt.rubric import Prompts
from evaluation_pipelines.judging.endpoint.batch_api import BatchApiError, ProviderBatch
from evaluation_pipelines.judging.endpoint.errors import JudgeCallError
from evaluation_pipelines.judging.endpoint.replies import (
    CHARACTERS_PER_TOKEN,
    ParsedCompletion,
    read_completion,
    status_error,
)
from evaluation_pipelines.judging.endpoint.request_form import is_about_form
from evaluation_pipelines.judging.ledger.batch_store import JudgeBatch
from evaluation_pipelines.judging.ledger.errors import ScoreEndedError, UnknownScoreError
from evaluation_pipelines.judging.ledger.score_records import Failure, Phase, ReceivedReply
from evaluation_pipelines.judging.runner.prompt_input import replay
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.times import to_us

_Found = TypeVar("_Found")

_APPEARS_WITHIN = timedelta(minutes=10)
"""Time after which a batch that is not listed was never created."""

_CANCELED_WITHIN = timedelta(hours=24)
"""Time after which a batch that was to be canceled is given up."""

_GONE = (UnknownScoreError, ScoreEndedError)
"""Its session was forgotten or has expired meanwhile."""


class Collection:
    """Collects the batches of a run; every step may be repeated after a kill."""

    def __init__(self, work: BatchWork) -> None:
        """Collect with ``work``.

        ``refusal`` says why the endpoint is to blame for a batch, ``is_split`` that one was too
        large and is to be sent in parts.
        """
        self.work = work
        self.refusal: str | None = None
        self.is_split = False

    def run(self) -> None:
        """Poll all batches that are out there, and collect those that have ended.

        What cannot be reached now is left to the next run, with the reason in the report.
        """
        work = self.work
        for batch in work.batches.unfinished():
            try:
                self._continue(batch)
            except BatchApiError as error:
                work.report.stop_reason = f"batch {batch.batch_id}: {error.reason}"

    def _continue(self, batch: JudgeBatch) -> None:
        match batch.state:
            case "preparing":
                self._discard(batch, "its process ended before it was sent")
            case "submitting":
                self._find(batch)
            case "submitted" | "cancelling":
                self._poll(batch)
            case "collected":
                self._close(batch)

    def _find(self, batch: JudgeBatch) -> None:
        """Find out whether a batch was created before its process ended."""
        work, now = self.work, self.work.clock()
        try:
            found = work.api.find(batch.batch_id, batch.input_file_id)
            if found is None:
                # The account that was used has the file.
                work.api.check_file(batch.input_file_id or "unknown")
        except BatchApiError as error:
            if not error.is_missing:
                raise
            self._lose(batch)
            return
        if found is not None:
            work.batches.note_submitted(batch.batch_id, found, now)
            self._poll(replace(batch, provider_batch_id=found.id))
        elif to_us(now - _APPEARS_WITHIN) > (batch.submitting_at_us or 0):
            self._discard(batch, "the provider does not list it")

    def _discard(self, batch: JudgeBatch, reason: str) -> None:
        work = self.work
        # First: a request that is still on its way cannot create a batch without its file.
        _unless_missing(work.api.delete_uploads, batch.batch_id)
        work.scores.release_batch(batch.batch_id)
        ended = {"ended_at_us": to_us(work.clock()), "error_message": reason}
        work.batches.change(batch.batch_id, state="discarded", **ended)

    def _poll(self, batch: JudgeBatch) -> None:
        work = self.work
        found = _unless_missing(work.api.retrieve, batch.provider_batch_id or "")
        if found is None:
            self._lose(batch)
            return
        work.batches.note_polled(batch, found, work.clock())
        if not found.has_ended:
            if batch.is_late(work.clock()):
                self._hurry(batch)
            return
        results = self._collect(batch, found)
        if results < found.completed and not self._is_overdue(batch):
            # What is not there now would be sent, and paid for, once more.
            reason = f"its files have {results} of {found.completed} results: read again later"
            raise BatchApiError(reason, is_refused=False)
        released = work.scores.release_batch(batch.batch_id)
        files = [each for each in (found.output_file_id, found.error_file_id) if each]
        ended = {"ended_at_us": to_us(work.clock()), "output_file_ids": files}
        work.batches.change(batch.batch_id, state="collected", **ended)
        if found.errors and released > 1 and is_too_large(found.errors):
            self.is_split = True
        elif found.errors:
            self.refusal = f"the provider refused a batch: {found.errors}"
        self._close(replace(batch, input_file_id=found.input_file_id, output_file_ids=files))

    def _hurry(self, batch: JudgeBatch) -> None:
        """Cancel a batch that is late; give it up if it is late again.

        Raises:
            BatchApiError: It is canceled now.
        """
        work, now = self.work, self.work.clock()
        if batch.state == "cancelling":
            self.refusal = f"batch {batch.batch_id} did not end, even canceled: it is given up"
            work.batches.book_in_full(batch, now)
            self._discard(batch, "the provider did not end it")
            return
        with suppress(BatchApiError):  # not every provider can
            work.api.cancel(batch.provider_batch_id or "")
        expected_by_us = to_us(now + _CANCELED_WITHIN)
        changed = {"state": "cancelling", "expected_by_us": expected_by_us}
        work.batches.change(batch.batch_id, **changed)
        raise BatchApiError("it has not ended in time, and is canceled", is_refused=False)

    def _lose(self, batch: JudgeBatch) -> None:
        """Wait for a batch that the endpoint does not know; give it up when it has expired.

        Raises:
            BatchApiError: It has not expired: perhaps another address or key is set by mistake.
        """
        if not self._is_overdue(batch):
            reason = "the endpoint does not know it: check OPENAI_BASE_URL and OPENAI_API_KEY"
            raise BatchApiError(reason, is_refused=True, is_missing=True)
        self._discard(batch, "the provider does not know it")

    def _is_overdue(self, batch: JudgeBatch) -> bool:
        return to_us(self.work.clock()) >= batch.deadline_us

    def _close(self, batch: JudgeBatch) -> None:
        """Delete the files of a batch at the provider."""
        work = self.work
        for file_id in filter(None, (batch.input_file_id, *(batch.output_file_ids or ()))):
            work.api.delete(file_id)
        work.batches.change(batch.batch_id, state="closed")

    def _collect(self, batch: JudgeBatch, found: ProviderBatch) -> int:
        """Store all results and return their number. Those that are stored already are skipped."""
        most = self.work.stores.settings.judge_max_output_tokens
        sent = SentRequests(self.work.api, found.input_file_id, most)
        problems = BatchProblems(self.work.stores.settings.judge_breaker_failures)
        results, progress = 0, self.work.progress
        progress.begin("collecting replies", batch.requests)
        for results, result in enumerate(self._results(found), 1):
            if results % 100 == 0:
                self.work.hold.check()
            progress.advance(1)
            if result.status is None:
                continue
            try:
                completion = self._completion(result)
            except JudgeCallError as error:
                problems.add(result, error)
            else:
                if problems.note(result, completion):
                    with suppress(*_GONE):
                        self._store_reply(batch, result, completion, sent)
        self._settle(batch, problems, sent)
        return results

    def _settle(self, batch: JudgeBatch, problems: BatchProblems, sent: SentRequests) -> None:
        """End the scorings of sessions that are to blame; leave those of all others due."""
        failed, due = problems.settle()
        why_useless = problems.why_useless()
        if due:
            reasons = [error.reason for _, error in due]
            reason = next(filter(is_about_form, reasons), reasons[0])
            self.refusal = f"the endpoint refused a batch: {reason}"
            self._note_spoiled(batch, reason)
        elif why_useless is not None:
            self._note_spoiled(batch, why_useless)
        self.refusal = why_useless or self.refusal
        for result, error in failed:
            with suppress(*_GONE):
                self._store_failure(batch, result, error)
        for result, completion in problems.useless:
            with suppress(*_GONE):
                if why_useless is None:
                    self._store_reply(batch, result, completion, sent)
                else:
                    self._leave_charged(batch, result)
        for result, error in due:
            with suppress(*_GONE):
                if error.maybe_charged:
                    self._leave_charged(batch, result)

    def _note_spoiled(self, batch: JudgeBatch, reason: str) -> None:
        """Store why a batch was of no use: form and number of later requests depend on it."""
        self.work.batches.change(batch.batch_id, error_message=reason)

    def _results(self, found: ProviderBatch) -> Iterator[BatchResult]:
        for file_id in filter(None, (found.output_file_id, found.error_file_id)):
            for line in self.work.api.lines(file_id):
                if (result := read_result(line)) is not None:
                    yield result

    def _completion(self, result: BatchResult) -> ParsedCompletion:
        """Return the reply of a result.

        Raises:
            JudgeCallError: The request failed, or the answer is not a chat completion.
        """
        secret = self.work.api.secret
        if result.status != 200:
            raise _call_error(result, secret)
        most = self.work.stores.settings.judge_max_output_tokens * CHARACTERS_PER_TOKEN
        return read_completion(body_bytes(result.body), most, secret)

    def _store_reply(
        self,
        batch: JudgeBatch,
        result: BatchResult,
        completion: ParsedCompletion,
        sent: SentRequests,
    ) -> None:
        """Store a reply, and end its scoring if nothing is left to ask."""
        score = self._waiting(batch, result)
        if score is None:
            return
        work, held, price = self.work, score.reserved_cost_usd, self.work.price(score.judge_model)
        reported = completion.usage
        cost = None if reported is None else price.cost_usd(reported)
        is_too_dear = cost is not None and held is not None and cost > held
        usage, is_estimated = sent.checked(
            result.custom_id, completion.reply, reported, is_too_dear=is_too_dear
        )
        cost = None if usage is None else price.cost_usd(usage)
        turn = logged_turn(
            *(result.turn, completion.reply, usage, to_us(work.clock())),
            cost_usd=cost,
            latency_ms=None,
            attempts=1,
            is_usage_estimated=is_estimated,
        )
        conversation = self._conversation(score)
        if conversation is not None:
            conversation = conversation.with_reply(turn.turn, completion.reply)
        is_last = conversation is not None and MISSING_TOOLS_TURN in _open_turns(conversation)
        if cost is None:  # it counts as what was reserved
            work.scores.book_reserved(score.score_id, work.clock())
        phase: Phase | None = "identifying_missing_tools" if is_last else None
        work.scores.log_turn(ReceivedReply(score.score_id, turn, -(cost or 0.0), phase))
        work.report.collected += 1
        work.report.count_reply(turn)
        if conversation is not None:
            self._end_if_done(score, conversation)

    def _store_failure(self, batch: JudgeBatch, result: BatchResult, error: JudgeCallError) -> None:
        """End a scoring whose request was refused, as a direct call would."""
        score = self._waiting(batch, result)
        if score is None:
            return
        conversation = self._conversation(score)
        if conversation is None:
            return
        if result.turn == MISSING_TOOLS_TURN:
            self._end_if_done(score, conversation.with_missing_tools_failed(error.reason))
            return
        failure = Failure(f"{result.turn}: {error.reason}", error.retriable)
        if error.maybe_charged:
            self.work.scores.book_reserved(score.score_id, self.work.clock())
        self._count(self.work.scores.fail(score.score_id, failure, self.work.clock()))

    def _leave_charged(self, batch: JudgeBatch, result: BatchResult) -> None:
        """Leave a scoring due, and book what may have been charged for it."""
        score = self._waiting(batch, result)
        if score is not None:
            self.work.scores.book_reserved(score.score_id, self.work.clock())
            self.work.scores.leave(score.score_id, self.work.clock())

    def _end_if_done(self, score: Score, conversation: Conversation) -> None:
        outcome = conversation.outcome()
        if outcome is not None:
            self._count(self.work.end(score.score_id, outcome))

    def _count(self, ended: Score) -> None:
        self.work.report.candidates += 1
        self.work.report.count_ended(ended)

    def _waiting(self, batch: JudgeBatch, result: BatchResult) -> Score | None:
        """Return the scoring of a result if it still waits for it in this batch."""
        try:
            score = self.work.scores.get(result.score_id)
        except UnknownScoreError:
            return None
        is_ours = score.is_open and score.batch_id == batch.batch_id
        is_new = all(each.turn != result.turn for each in score.turn_log)
        return score if is_ours and is_new else None

    def _conversation(self, score: Score) -> Conversation | None:
        """Return the conversation of a scoring; its outcome does not depend on the prompts.

        ``None`` if its rubric has changed: the next run ends it with that reason.
        """
        plans = self.work.plans
        key = (score.judge_profile_id, score.judge_profile_version)
        plan = plans.by_version.get(key) or plans.by_version.get(plans.default_key)
        if plan is None:
            return None
        setup = plan.setup
        if (*key, score.prompt_hash) != (
            setup.profile_id,
            setup.profile_version,
            setup.prompt_hash,
        ):
            return None
        return replay(Conversation(Prompts("", ""), plan.criteria, score.samples), score.turn_log)


def _call_error(result: BatchResult, secret: str | None) -> JudgeCallError:
    body = result.body
    error = body.get("error") if isinstance(body, dict) else None
    return status_error(result.status or 0, error or body, None, secret)


def _unless_missing(call: Callable[[str], _Found], name: str) -> _Found | None:
    """Return what a call finds; ``None`` if the endpoint does not know the object or the route."""
    try:
        return call(name)
    except BatchApiError as error:
        if error.is_missing:
            return None
        raise


def _open_turns(conversation: Conversation) -> list[str]:
    return [each.turn for each in conversation.open_requests()]
