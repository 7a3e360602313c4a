"""Start of scorings, or why they do not start; the same for direct calls and batches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from evaluation_pipelines.judging.domain.budget.day_budget import DayReservation
from evaluation_pipelines.judging.domain.budget.run_budget import Deferred, Limit
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.errors import (
    ScoreEndedError,
    ScoringOpenError,
    UnknownScoreError,
)
from evaluation_pipelines.judging.ledger.score_records import Failure
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.runner.prompt_input import PromptFailure
from evaluation_pipelines.judging.runner.run_report import JudgeReport
from evaluation_pipelines.schemas.judge_score import Score

NOT_OURS = (ScoringOpenError, ScoreEndedError, UnknownScoreError)
"""A person has asked for it meanwhile, or its session was forgotten or has expired."""

_MAX_REFUSALS = 20
"""Sessions in a row that do not fit into the budget after which the run stops."""


@dataclass(frozen=True, slots=True)
class Starter:
    """Creates the scorings of a run in the ledger, or resumes unfinished ones."""

    store: ScoreStore
    triggered_by: str

    def start(
        self,
        candidate: Candidate,
        score_id: str,
        now: datetime,
        facts: Mapping[str, Any] | None = None,
        money: DayReservation | None = None,
        batch_id: str | None = None,
    ) -> Score:
        """Start a scoring. Raises as ``ScoreStore.create`` and ``ScoreStore.claim``."""
        if candidate.unfinished is not None:
            return self.store.claim(score_id, now, facts, money, batch_id)
        begun = {"status": "in_progress", "batch_id": batch_id, **(facts or {})}
        new = replace(candidate.new_score(score_id, self.triggered_by, now), **begun)
        return self.store.create(new, now, money, candidate.known_scorings)

    def fail(self, failed: PromptFailure, now: datetime) -> Score:
        """Start the scoring of a session without a prompt, and mark it as failed."""
        score_id = failed.candidate.score_id()
        self.start(failed.candidate, score_id, now)
        # Another version of this program may be able to resume a scoring that it started.
        failure = Failure(failed.reason, retriable=failed.candidate.unfinished is not None)
        return self.store.fail(score_id, failure, now)


@dataclass(slots=True)
class Refusals:
    """Sessions in a row that do not fit into the budget of a run."""

    report: JudgeReport
    _number: int = 0

    def reset(self) -> None:
        """Begin again: a session has fitted."""
        self._number = 0

    def add(self, refused: Deferred) -> str | None:
        """Count a deferred session; return why the run is to stop, ``None`` if it is not."""
        self.report.count_deferred(refused.limit, refused.reason)
        self._number += 1
        is_final = refused.limit in {Limit.MAX_SESSIONS, Limit.UNKNOWN_PRICE}
        # The reason of the first refusal: later ones differ only in their amounts.
        is_enough = is_final or self._number >= _MAX_REFUSALS
        return self.report.explanations[refused.limit] if is_enough else None
