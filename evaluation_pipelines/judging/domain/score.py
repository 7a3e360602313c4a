"""Judge score as stored in the ledger, and its states."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, Self, TypeAlias

from evaluation_pipelines.judging.domain.budget.pricing import Usage
from evaluation_pipelines.judging.domain.prompt.messages import Reply

ScoreStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]

OPEN: tuple[ScoreStatus, ...] = ("pending", "in_progress")
"""States of a scoring in progress; a session has at most one per profile and model."""

TERMINAL: tuple[ScoreStatus, ...] = ("completed", "failed")
"""Final states."""

Phase: TypeAlias = Literal["analyzing_methodology", "identifying_missing_tools"]


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    """A reply of the judge, stored as soon as it arrives.

    ``cost_usd`` and the token counts are ``None`` if the endpoint or the price table does not
    provide them. ``latency_ms`` is ``None`` for a reply in a batch. ``input_tokens`` excludes
    tokens read from the cache. ``at_us`` is the time of arrival in microseconds since 1970.
    ``is_usage_estimated`` says that the reported counts were impossible and replaced.
    """

    turn: str
    text: str
    finish_reason: str
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float | None
    attempts: int
    at_us: int
    is_usage_estimated: bool = False

    @classmethod
    def of_reply(
        cls, turn: str, reply: Reply, usage: Usage | None, at_us: int, **others: Any
    ) -> Self:
        """Return the record of a reply and its tokens; ``others`` are the remaining fields."""
        tokens: tuple[int | None, int | None, int | None] = (None, None, None)
        if usage is not None:
            tokens = usage.input_tokens, usage.cached_tokens, usage.output_tokens
        return cls(turn, reply.text, reply.finish_reason, *tokens, at_us=at_us, **others)


@dataclass(frozen=True, slots=True)
class Score:
    """One row of ``session_scores``: a scoring of one content of one session window.

    Times are in microseconds since 1970, money is in USD, unknown values are ``None``. The columns
    of ``SCORE_FLAGS`` are set when the scoring is completed.

    Attributes:
        requested_by: Who asked for the score of this session; ``None`` if a run chose it.
        scored_at_us: Time of the request.
        judge_cost_usd: Cost of the replies.
        booked_cost_usd: Amount that counts against the budget: the cost of the replies, and the
            possible cost of requests without a reply, including those in flight.
        reserved_cost_usd: Amount reserved for requests that are not sent yet; it counts while the
            lease is valid.
        booked_at_us: Time of the last change of either amount.
    """

    score_id: str
    organization_id: str
    session_key: str
    session_id: str
    content_hash: str
    agent_id: str | None
    agent_model: str | None
    session_date: date
    judge_profile_id: str
    judge_profile_version: int
    judge_model: str
    rubric: str
    prompt_hash: str
    samples: int
    status: ScoreStatus
    score_triggered_by: str
    scored_at_us: int
    attempt: int
    requested_by: str | None = None
    started_at_us: int | None = None
    completed_at_us: int | None = None
    booked_at_us: int | None = None
    takeovers: int = 0
    total_score: int | None = None
    criteria_scores: Mapping[str, int | None] | None = None
    failure_tags: Sequence[str] | None = None
    sample_totals: Sequence[int] | None = None
    sample_errors: Sequence[str] | None = None
    score_spread: float | None = None
    score_analysis: str | None = None
    missing_tools_analysis: str | None = None
    missing_tools_error: str | None = None
    turn_log: tuple[LoggedTurn, ...] = ()
    retriable: bool | None = None
    error_message: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    judge_cost_usd: float | None = None
    booked_cost_usd: float | None = None
    reserved_cost_usd: float | None = None
    latency_ms: float | None = None
    content_level: str | None = None
    redactions: Mapping[str, int] | None = None
    truncated: bool | None = None
    injection_suspected: bool | None = None
    inconsistent_total: bool | None = None
    incomplete_criteria: bool | None = None
    short_analysis: bool | None = None
    numbers_from_reminder: bool | None = None
    estimated_usage: bool | None = None
    lease_owner: str | None = None
    lease_expires_at_us: int | None = None

    @property
    def is_open(self) -> bool:
        """True if the scoring has not ended."""
        return self.status in OPEN

    @property
    def is_request(self) -> bool:
        """True if a person waits for the scoring; a run's own ones stay due."""
        return self.requested_by is not None

    @property
    def is_left(self) -> bool:
        """True if a run that has ended left the scoring unfinished, and no person waits for it."""
        return self.status == "pending" and not self.is_request

    @property
    def failed_reply(self) -> str | None:
        """Last reply with text of a failed scoring, as the judge wrote it; it is not trusted."""
        texts = [each.text for each in self.turn_log if each.text.strip()]
        return texts[-1] if self.status == "failed" and texts else None

    def is_leased(self, now_us: int) -> bool:
        """Return whether a process holds a valid lease."""
        return self.lease_expires_at_us is not None and self.lease_expires_at_us > now_us


_INTERNAL_FIELDS = (
    "turn_log",
    "lease_owner",
    "lease_expires_at_us",
    "booked_cost_usd",
    "reserved_cost_usd",
    "booked_at_us",
    "takeovers",
)


def reader_record(score: Score, current_prompt_hash: str | None) -> dict[str, Any]:
    """Return the public fields of a score, ``failed_reply`` and ``current_prompt_used``.

    ``current_prompt_used`` says whether the rubric that would judge the session now made the score.

    Args:
        score: The row.
        current_prompt_hash: Hash of the rubric that would judge the session now; ``None`` if there
            is none.
    """
    fields = {
        name: getattr(score, name) for name in score.__slots__ if name not in _INTERNAL_FIELDS
    }
    return fields | {
        "failed_reply": score.failed_reply,
        "current_prompt_used": score.prompt_hash == current_prompt_hash,
    }
