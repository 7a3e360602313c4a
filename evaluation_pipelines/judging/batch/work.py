"""Resources of the work on batches, shared by submission and collection."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from evaluation_pipelines.judging.batch.room import room_for
from evaluation_pipelines.judging.domain.batch.price import BatchPrice
from evaluation_pipelines.judging.domain.budget.pricing import Pricing
from evaluation_pipelines.judging.domain.conversation import FailedConversation, Judgment
from evaluation_pipelines.judging.endpoint.batch_api import BatchApi
from evaluation_pipelines.judging.endpoint.configured import judge_pricing
from evaluation_pipelines.judging.endpoint.request_form import RequestForm
from evaluation_pipelines.judging.ledger.batch_store import BatchStore, JudgeBatch
from evaluation_pipelines.judging.ledger.score_records import Failure
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import Plans
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.judging.runner.session_scoring import score_result
from evaluation_pipelines.progress import Progress, Silent
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.stores import Stores

_LEARNED_FOR = timedelta(days=30)
"""A refusal counts for so long: the endpoint may accept more by then, or be another one."""


@dataclass(slots=True)
class BatchWork:
    """Stores, endpoint, clock and report of one run, and the lock that it holds."""

    stores: Stores
    plans: Plans
    api: BatchApi
    clock: Callable[[], datetime]
    hold: Hold
    progress: Progress = field(default_factory=Silent)
    report: JudgeReport = field(default_factory=JudgeReport)
    batches: BatchStore = field(init=False)
    scores: ScoreStore = field(init=False)
    _prices: dict[str, Pricing] = field(default_factory=dict)
    _forms: dict[str, RequestForm] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.batches = BatchStore(self.stores.ledger, self.hold)
        self.scores = ScoreStore(self.stores.ledger, hold=self.hold)

    def price(self, model: str) -> Pricing:
        """Return the price of requests to a model in a batch."""
        if model not in self._prices:
            settings = self.stores.settings
            direct = judge_pricing(settings, model, self.clock())
            self._prices[model] = BatchPrice(direct, settings.judge_batch_price_factor)
        return self._prices[model]

    def form(self, model: str) -> RequestForm:
        """Return the form of requests to a model, as the batches it has refused ask for it."""
        if model not in self._forms:
            form = RequestForm()
            for batch in self._recent(model):
                form = form.instead_of(batch.error_message or "") or form
            # The results of a batch are no streams.
            self._forms[model] = replace(form, streams=False)
        return self._forms[model]

    def room(self, model: str) -> int | None:
        """Return how many more requests of a model may be sent; ``None`` if nothing limits them."""
        return room_for(self._recent(model), self.stores.settings.judge_breaker_failures)

    def _recent(self, model: str) -> list[JudgeBatch]:
        return self.batches.of_model(model, self.clock() - _LEARNED_FOR)

    def end(self, score_id: str, outcome: Judgment | FailedConversation) -> Score:
        """Complete a scoring, or mark it as failed. Raises as ``ScoreStore.complete``."""
        if isinstance(outcome, Judgment):
            turns = self.scores.get(score_id).turn_log
            is_estimated = any(each.is_usage_estimated for each in turns)
            result = score_result(outcome, estimated_usage=is_estimated)
            return self.scores.complete(score_id, result, self.clock())
        failure = Failure(outcome.reason, outcome.retriable)
        return self.scores.fail(score_id, failure, self.clock())


def body_bytes(body: object) -> bytes:
    """Return a decoded body as the bytes that ``read_completion`` parses."""
    return json.dumps(body).encode()
