"""Collection of batches: replies go on as those of direct calls do, everything else is due again.

The lock is held to submit and to collect, never between. Every step may be repeated after a kill.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeAlias

from evaluation_pipelines.judging.batch.send import is_too_large
from evaluation_pipelines.judging.context import LedgerWriter
from evaluation_pipelines.judging.domain.budget import (
    BatchPrice,
    Budget,
    BudgetLimits,
    MeteredCall,
    Reservation,
)
from evaluation_pipelines.judging.domain.conversation import Conversation, why_useless
from evaluation_pipelines.judging.domain.prompt.messages import Message
from evaluation_pipelines.judging.domain.prompt.rubric import Prompts
from evaluation_pipelines.judging.endpoint.batch_api import (
    UNREADABLE,
    BatchApi,
    BatchApiError,
    BatchResult,
    ProviderBatch,
    in_thread,
    read_result,
)
from evaluation_pipelines.judging.endpoint.client import (
    JudgeAnswer,
    answer_of,
    exchange_of,
    sizes_of,
)
from evaluation_pipelines.judging.endpoint.limits import MAX_FAILURES, Blame, Suspect
from evaluation_pipelines.judging.endpoint.replies import (
    CHARACTERS_PER_TOKEN,
    Fault,
    JudgeCallError,
    ParsedCompletion,
    read_completion,
    status_error,
)
from evaluation_pipelines.judging.endpoint.transport import is_about_form
from evaluation_pipelines.judging.ledger.batch_store import BatchStore, JudgeBatch
from evaluation_pipelines.judging.ledger.score_queries import ScoreEndedError, UnknownScoreError
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import Plans
from evaluation_pipelines.judging.runner import Runner
from evaluation_pipelines.judging.scoring import SYMPTOMS, SessionScoring, replay
from evaluation_pipelines.schemas.judge_score import LoggedTurn, Score
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import to_us

_Failed: TypeAlias = tuple[BatchResult, JudgeCallError]


@dataclass(slots=True)
class BatchProblems:
    """Problems of one batch.

    Attributes:
        answered: Number of other replies.
        useless: Useless replies.
        charged: Failed requests that may have been charged, by judgment.
    """

    answered: int = 0
    useless: list[tuple[BatchResult, ParsedCompletion]] = field(default_factory=list)
    charged: Counter[str] = field(default_factory=Counter)
    _failed: dict[Suspect, _Failed] = field(default_factory=dict)

    def note(self, result: BatchResult, completion: ParsedCompletion) -> bool:
        """Note a reply; return whether it is of use."""
        if why_useless(completion.reply) is not None:
            self.useless.append((result, completion))
            return False
        self.answered += 1
        return True

    def add(self, result: BatchResult, error: JudgeCallError) -> None:
        """Note a failed request."""
        self.charged[result.score_id] += error.maybe_charged
        symptom = SYMPTOMS.get(error.fault, "other")
        suspect = Suspect(result.score_id, symptom, error.reason, error.retriable)
        self._failed.setdefault(suspect, (result, error))

    def why_useless(self) -> str | None:
        """Return why the endpoint is to blame for the useless replies; ``None`` if it is not."""
        number = len(self.useless)
        if number < MAX_FAILURES or number <= self.answered:
            return None
        last = why_useless(self.useless[-1][1].reply)
        return f"{number} of {number + self.answered} replies of a batch were unusable: {last}"

    def settle(self) -> tuple[list[_Failed], list[_Failed]]:
        """Return the failed requests of sessions to blame, and those of sessions that stay due."""
        errors = [error for _, error in self._failed.values()]
        blame = Blame()
        for suspect in self._failed:
            blame.add(suspect)
        is_down = any(self._is_general(error) for error in errors)
        faulty = sum(suspect.symptom == "faulty" for suspect in self._failed)
        if not is_down and self.answered >= max(faulty, 1):
            blame.note_reply(None)
        failed, due = blame.settle(is_endpoint_down=is_down)
        guilty = [*blame.take_guilty(), *failed]
        return [self._failed[request_id] for request_id in guilty], [
            self._failed[request_id] for request_id in due
        ]

    def _is_general(self, error: JudgeCallError) -> bool:
        """Return whether every request would get the same answer."""
        is_form = error.fault is Fault.REJECTED and is_about_form(error.reason)
        return error.fault is Fault.MISCONFIGURED or (is_form and not self.answered)


_APPEARS_WITHIN = timedelta(minutes=10)
"""Time after which a batch that is not listed was never created."""

_CANCELED_WITHIN = timedelta(hours=24)
"""Time after which a batch that was to be canceled is given up."""

_POLL_EVERY = timedelta(minutes=5)
_LINES = 100
"""Lines of a file that are read at a time."""

_UNKNOWN_BYTES = 10**15

_GONE = (UnknownScoreError, ScoreEndedError)
"""Its session was forgotten or has expired meanwhile."""


def has_work(stores: Stores, clock: Callable[[], datetime]) -> bool:
    """Return whether a run has something to collect, or a batch to find again or to cancel.

    Batches that were polled less than five minutes ago are not polled again.
    An endpoint that cannot be reached is polled again then.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    now, store = clock(), BatchStore(stores.ledger)
    recent_us = to_us(now - _POLL_EVERY)
    due = [batch for batch in store.unfinished() if (batch.polled_at_us or 0) <= recent_us]
    endpoint = stores.settings.judge_endpoint
    if endpoint is None or not due:
        return False
    if any(batch.state not in {"submitted", "cancelling"} for batch in due):
        return True
    with BatchApi(endpoint, stores.settings.judge_timeout_seconds) as api:
        return any([_has_ended(store, api, batch, now) for batch in due])  # noqa: C419 - polls all


def _has_ended(store: BatchStore, api: BatchApi, batch: JudgeBatch, now: datetime) -> bool:
    try:
        found = api.retrieve(batch.provider_batch_id or "")
    except BatchApiError:
        return False
    store.note_polled(batch, found, now)
    return found.has_ended or batch.is_late(now)


@dataclass(slots=True)
class Collection:
    """Collects the batches of a run.

    Attributes:
        plans: Plans of the run.
        batches: Batches in the ledger.
        refusal: Why the endpoint is to blame for a batch.
        is_split: Whether a batch was too large and is to be sent in parts.
        api: Batches at the provider.
        runner: What ends judgments and counts them.
    """

    plans: Plans
    batches: BatchStore
    refusal: str | None = None
    is_split: bool = False
    api: BatchApi = field(init=False)
    runner: Runner = field(init=False)
    _sizes: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)

    async def run(self, api: BatchApi, runner: Runner) -> None:
        """Poll all open batches, and collect those that have ended.

        What cannot be reached now is left to the next run, with the reason in the report.
        """
        self.api, self.runner = api, runner
        for batch in await self._ledger.run(self.batches.unfinished):
            try:
                await self._continue(batch)
            except BatchApiError as error:
                self.runner.report.stop_reason = f"batch {batch.batch_id}: {error.reason}"

    async def _continue(self, batch: JudgeBatch) -> None:
        match batch.state:
            case "preparing":
                await self._discard(batch, "its process ended before it was sent")
            case "submitting":
                await self._find(batch)
            case "submitted" | "cancelling":
                await self._poll(batch)
            case "collected":
                await self._close(batch)

    async def _find(self, batch: JudgeBatch) -> None:
        """Find out whether a batch was created before its process ended."""
        now, file_id = self._now(), batch.input_file_id
        try:
            found = await in_thread(self.api.find, batch.batch_id, file_id)
            if found is None:
                # The account that was used has the file.
                await in_thread(self.api.check_file, file_id or "unknown")
        except BatchApiError as error:
            if not error.is_missing:
                raise
            await self._lose(batch)
            return
        if found is not None:
            await self._ledger.run(self.batches.note_submitted, batch.batch_id, found, now)
            await self._poll(replace(batch, provider_batch_id=found.id))
        elif to_us(now - _APPEARS_WITHIN) > (batch.submitting_at_us or 0):
            await self._discard(batch, "the provider does not list it")

    async def _discard(self, batch: JudgeBatch, reason: str, *, is_charged: bool = False) -> None:
        """Leave the judgments of a batch due; with ``is_charged`` what it may cost is booked."""
        # First: a request that is still on its way cannot create a batch without its file.
        with _unless_missing():
            await in_thread(self.api.delete_uploads, batch.batch_id)
        charged_at = self._now() if is_charged else None
        await self._ledger.run(self._store.release_batch, batch.batch_id, charged_at)
        await self._ledger.run(self.batches.discard, batch.batch_id, reason, self._now())

    async def _poll(self, batch: JudgeBatch) -> None:
        found: ProviderBatch | None = None
        with _unless_missing():
            found = await in_thread(self.api.retrieve, batch.provider_batch_id or "")
        if found is None:
            await self._lose(batch)
            return
        await self._ledger.run(self.batches.note_polled, batch, found, self._now())
        batch = replace(batch, input_file_id=found.input_file_id or batch.input_file_id)
        if not found.has_ended:
            if batch.is_late(self._now()):
                await self._hurry(batch)
            return
        results = await self._collect(batch, found)
        if results < found.completed and not self._is_overdue(batch):
            # What is not there now would be sent, and paid for, once more.
            reason = f"its files have {results} of {found.completed} results: read again later"
            raise BatchApiError(reason, is_refused=False)
        released = await self._ledger.run(self._store.release_batch, batch.batch_id)
        ended = {"ended_at_us": to_us(self._now()), "output_file_ids": found.result_files}
        await self._ledger.run(self.batches.change, batch.batch_id, state="collected", **ended)
        if found.errors and released > 1 and is_too_large(found.errors):
            self.is_split = True
        elif found.errors:
            self.refusal = f"the provider refused a batch: {found.errors}"
        await self._close(replace(batch, output_file_ids=found.result_files))

    async def _hurry(self, batch: JudgeBatch) -> None:
        """Cancel a batch that is late; give it up if it is late again.

        Raises:
            BatchApiError: It is canceled now.
        """
        if batch.state == "cancelling":
            self.refusal = f"batch {batch.batch_id} did not end, even canceled: it is given up"
            await self._discard(batch, "the provider did not end it", is_charged=True)
            return
        with suppress(BatchApiError):  # not every provider can
            await in_thread(self.api.cancel, batch.provider_batch_id or "")
        expected_by_us = to_us(self._now() + _CANCELED_WITHIN)
        changed = {"state": "cancelling", "expected_by_us": expected_by_us}
        await self._ledger.run(self.batches.change, batch.batch_id, **changed)
        raise BatchApiError("it has not ended in time, and is canceled", is_refused=False)

    async def _lose(self, batch: JudgeBatch) -> None:
        """Wait for a batch that the endpoint does not know; give it up when it has expired.

        Raises:
            BatchApiError: It has not expired: perhaps another address or key is set by mistake.
        """
        if not self._is_overdue(batch):
            reason = "the endpoint does not know it: check OPENAI_BASE_URL and OPENAI_API_KEY"
            raise BatchApiError(reason, is_refused=True, is_missing=True)
        await self._discard(batch, "the provider does not know it")

    def _is_overdue(self, batch: JudgeBatch) -> bool:
        return to_us(self._now()) >= batch.deadline_us

    async def _close(self, batch: JudgeBatch) -> None:
        """Delete the files of a batch at the provider."""
        for file_id in filter(None, (batch.input_file_id, *(batch.output_file_ids or ()))):
            await in_thread(self.api.delete, file_id)
        await self._ledger.run(self.batches.change, batch.batch_id, state="closed")

    async def _collect(self, batch: JudgeBatch, found: ProviderBatch) -> int:
        """Store all results and return their number. Those that are stored already are skipped."""
        problems = BatchProblems()
        results, progress = 0, self.runner.progress
        progress.begin("collecting replies", batch.requests)
        for file_id in found.result_files:
            lines = self.api.lines(file_id)
            while (chunk := await in_thread(_results, lines)) is not None:
                results += len(chunk)
                await self._ledger.run(self.runner.context.hold.check)
                for result in chunk:
                    await self._take(batch, result, problems)
                    progress.advance(1)
        await self._settle(batch, problems)
        return results

    async def _take(self, batch: JudgeBatch, result: BatchResult, problems: BatchProblems) -> None:
        if result.status is None:
            return
        try:
            completion = self._completion(result)
        except JudgeCallError as error:
            problems.add(result, error)
        else:
            if problems.note(result, completion):
                await self._go_on(batch, result, completion)

    async def _settle(self, batch: JudgeBatch, problems: BatchProblems) -> None:
        """End the judgments of sessions that are to blame; leave those of all others due."""
        failed, due = problems.settle()
        why_useless = problems.why_useless()
        spoiled = why_useless
        if due:
            reasons = [error.reason for _, error in due]
            spoiled = next(filter(is_about_form, reasons), reasons[0])
            self.refusal = f"the endpoint refused a batch: {spoiled}"
        if spoiled is not None:  # form and number of later requests depend on it
            await self._ledger.run(self.batches.change, batch.batch_id, error_message=spoiled)
        self.refusal = why_useless or self.refusal
        charged = problems.charged
        if why_useless is None:
            for result, completion in problems.useless:
                await self._go_on(batch, result, completion)
        else:
            charged.update(result.score_id for result, _ in problems.useless)
        # Last: the first of these ends or leaves a judgment, and books what the others cost.
        for result, error in failed:
            await self._go_on(batch, result, error, charged[result.score_id])
        for result, _ in (*due, *problems.useless):
            await self._go_on(batch, result, None, charged[result.score_id])

    def _completion(self, result: BatchResult) -> ParsedCompletion:
        """Return the reply of a result.

        Raises:
            JudgeCallError: The request failed, or the answer is not a chat completion.
        """
        secret, body = self.api.secret, result.body
        if result.status != 200:
            error = body.get("error") if isinstance(body, dict) else None
            raise status_error(result.status or 0, error or body, None, secret)
        most = self.runner.context.settings.judge_max_output_tokens * CHARACTERS_PER_TOKEN
        return read_completion(json.dumps(body).encode(), most, secret)

    async def _go_on(
        self,
        batch: JudgeBatch,
        result: BatchResult,
        came: ParsedCompletion | JudgeCallError | None,
        charged: int = 1,
    ) -> None:
        """Go on with the judgment of a result as after a direct call, and end it if that was all.

        Args:
            batch: The batch.
            result: The result.
            came: The reply, or why there is none; ``None`` leaves the judgment due.
            charged: Number of its requests that may be charged now.
        """
        found = await self._waiting(batch, result, charged)
        if found is None:
            return
        scoring, suspect = found.scoring, None
        with suppress(*_GONE):
            match came:
                case ParsedCompletion():
                    answer = await self._answer(batch, result, came, found)
                    found.call.settle(answer.cost_usd)
                    released_usd = found.call.worst_case_usd or 0.0
                    if not found.is_current and answer.cost_usd is not None:
                        released_usd = answer.cost_usd
                    await scoring.receive(
                        *(result.turn, answer, released_usd), is_current=found.is_current
                    )
                    self.runner.report.collected += 1
                case JudgeCallError() if found.is_current:
                    found.call.settle(None if charged else 0.0)
                    suspect = await scoring.refuse(result.turn, came)
                case _ if charged:
                    found.call.settle(None)
                    await scoring.leave()
            outcome = scoring.conversation.outcome()
            if isinstance(suspect, Suspect):
                await self.runner.fail_sessions([suspect])
            elif found.is_current and outcome is not None:
                self.runner.report.count_ended(await scoring.end(outcome))
        self.runner.context.budget_gate.close(scoring.reservation)

    async def _answer(
        self,
        batch: JudgeBatch,
        result: BatchResult,
        completion: ParsedCompletion,
        found: "_Waiting",
    ) -> JudgeAnswer:
        """Return a reply with its cost; only suspicious counts are compared with the request."""
        context, usage = self.runner.context, completion.usage
        price = BatchPrice(
            context.price(found.scoring.score.judge_model),
            context.settings.judge_batch_price_factor,
        )
        most = context.settings.judge_max_output_tokens
        exchange = exchange_of(_UNKNOWN_BYTES, 0, completion.reply, most)
        cost = None if usage is None else price.cost_usd(usage)
        held_usd = found.call.worst_case_usd
        is_too_dear = cost is not None and held_usd is not None and cost > held_usd
        if usage is not None and (is_too_dear or not exchange.is_possible(usage)):
            batch_sizes = self._sizes.get(batch.batch_id)
            if batch_sizes is None:
                batch_sizes = await in_thread(self._read_sizes, batch.input_file_id)
                self._sizes = {batch.batch_id: batch_sizes}
            if (sizes := batch_sizes.get(result.custom_id)) is None:
                completion = replace(completion, usage=None)
            else:
                exchange = exchange_of(*sizes, completion.reply, most)
        return answer_of(completion, exchange, price)

    def _read_sizes(self, file_id: str | None) -> dict[str, tuple[int, int]]:
        """Return the sizes of the requests of a batch by their ids, from the file as it was sent.

        Raises:
            BatchApiError: The file cannot be read now.
        """
        sizes: dict[str, tuple[int, int]] = {}
        with _unless_missing():
            for line in () if file_id is None else self.api.lines(file_id):
                with suppress(*UNREADABLE):
                    request = json.loads(line)
                    sent = [Message(**message) for message in request["body"]["messages"]]
                    sizes[request["custom_id"]] = sizes_of(sent)
        return sizes

    async def _waiting(
        self, batch: JudgeBatch, result: BatchResult, requests: int
    ) -> "_Waiting | None":
        """Return the judgment of a result if it still waits for it in this batch.

        Its call holds the money of that number of requests.
        """
        context = self.runner.context
        try:
            score = await self._ledger.run(self._store.get, result.score_id)
        except UnknownScoreError:
            return None
        is_ours = score.is_open and score.batch_id == batch.batch_id
        if not is_ours or any(turn.turn == result.turn for turn in score.turn_log):
            return None
        conversation, is_current = self._conversation(score, score.turn_log)
        held_usd = score.reserved_cost_usd
        if held_usd is not None:
            share = requests / self._requests_out(batch, score, result.turn)
            held_usd *= min(share, 1.0)
        reservation = Budget(BudgetLimits()).admit(held_usd)
        assert isinstance(reservation, Reservation)  # noqa: S101 - there are no limits
        scoring = SessionScoring(
            context, score, conversation, reservation, self.runner.report, self.runner.blame
        )
        return _Waiting(scoring, MeteredCall(reservation, held_usd), is_current)

    def _requests_out(self, batch: JudgeBatch, score: Score, turn: str) -> int:
        """Return how many requests of a judgment are without a reply, that of ``turn`` among them.

        Its first reply may ask for a reminder, which is in no batch yet. If its rubric has changed,
        all its money counts as that of one request: its other requests are not known.
        """
        begun_us = batch.submitting_at_us or batch.created_at_us
        before = [turn for turn in score.turn_log if turn.at_us <= begun_us]
        conversation, is_current = self._conversation(score, before)
        if not is_current:
            return 1
        sent = {request.turn for request in conversation.open_requests()}
        return len((sent | {turn}) - {logged_turn.turn for logged_turn in score.turn_log})

    def _conversation(self, score: Score, turns: Sequence[LoggedTurn]) -> tuple[Conversation, bool]:
        """Return the conversation of a judgment after some replies, whatever its prompts are.

        The flag says whether its rubric is the same still: if not, the next run ends the judgment
        with that reason.
        """
        key = (score.judge_profile_id, score.judge_profile_version)
        plans = self.plans.by_version
        plan = plans.get(key) or plans.get(self.plans.default_key)
        empty = Conversation(Prompts("", ""), () if plan is None else plan.criteria, score.samples)
        if plan is None or plan.setup.identity != (*key, score.prompt_hash):
            return empty, False
        return replay(empty, turns), True

    @property
    def _ledger(self) -> LedgerWriter:
        return self.runner.context.ledger

    @property
    def _store(self) -> ScoreStore:
        return self._ledger.store

    def _now(self) -> datetime:
        return self.runner.context.clock()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A judgment that waits for a reply.

    ``call`` books what its requests have cost; ``is_current`` as in ``Collection._conversation``.
    """

    scoring: SessionScoring
    call: MeteredCall
    is_current: bool


def _results(lines: Iterator[str]) -> list[BatchResult] | None:
    """Return the results in the next lines of a file; ``None`` at its end."""
    chunk = list(islice(lines, _LINES))
    return [result for result in map(read_result, chunk) if result is not None] if chunk else None


@contextmanager
def _unless_missing() -> Iterator[None]:
    """Go on after a call for something that the endpoint does not know."""
    try:
        yield
    except BatchApiError as error:
        if not error.is_missing:
            raise
