"""A judge score as the ledger keeps it, and the states it goes through."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, TypeAlias

ScoreStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]

OPEN: tuple[ScoreStatus, ...] = ("pending", "in_progress")
"""A scoring that is still to come to its end; a session has one at most for a profile and model."""

TERMINAL: tuple[ScoreStatus, ...] = ("completed", "failed")
"""Nothing leaves these."""

Phase: TypeAlias = Literal["analyzing_methodology", "identifying_missing_tools"]


@dataclass(frozen=True, slots=True)
class LoggedTurn:
    """One reply of the judge, kept as soon as it arrived.

    ``cost_usd`` and token counts are None where the endpoint or the price table does not say;
    ``input_tokens`` leaves out those that were read from the cache.
    ``at_us`` is the time of arrival in microseconds since 1970.
    """

    turn: str
    text: str
    finish_reason: str
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float
    attempts: int
    at_us: int


@dataclass(frozen=True, slots=True)
class Score:
    """One row of ``session_scores``: a scoring of one content of one session window.

    Times are microseconds since 1970, money is USD, unknown is None. ``scored_at_us`` is when it
    was asked for. ``judge_cost_usd`` is what the replies cost; ``booked_cost_usd`` is what counts
    against the budget: with it what requests without a reply may have cost, those under way
    included. ``reserved_cost_usd`` is set aside for what has yet to be asked, and counts as long as
    the lease holds. ``booked_at_us`` is when either changed last.
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
    started_at_us: int | None = None
    completed_at_us: int | None = None
    booked_at_us: int | None = None
    takeovers: int = 0
    total_score: int | None = None
    criteria_scores: Mapping[str, int] | None = None
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
    lease_owner: str | None = None
    lease_expires_at_us: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is still to come to its end."""
        return self.status in OPEN

    def is_leased(self, now_us: int) -> bool:
        """Whether somebody is at work on it."""
        return self.lease_expires_at_us is not None and self.lease_expires_at_us > now_us


_FOR_THE_STORE = (
    "turn_log",
    "lease_owner",
    "lease_expires_at_us",
    "booked_cost_usd",
    "reserved_cost_usd",
    "booked_at_us",
    "takeovers",
)


def reader_record(score: Score, current_prompt_hash: str | None) -> dict[str, Any]:
    """Every field that concerns a reader, and whether the score was made by today's rubric.

    Args:
        score: the row.
        current_prompt_hash: hash of its rubric as it is now; None when there is no such rubric any
            more, so that the score cannot be of today's.
    """
    fields = {name: getattr(score, name) for name in score.__slots__ if name not in _FOR_THE_STORE}
    return fields | {"current_prompt_used": score.prompt_hash == current_prompt_hash}
