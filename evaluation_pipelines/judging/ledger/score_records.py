"""Values that are written to ``session_scores``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from evaluation_pipelines.judging.domain.score import LoggedTurn, Phase


@dataclass(frozen=True, slots=True)
class NewScore:
    """A scoring to create: the session, its content and the judge.

    Attributes:
        score_id: A new UUID.
        known_scorings: Number of scorings of the session by the profile that the caller has seen.
            If the ledger has another number by then, the scoring is refused. ``None`` skips this
            check. Not a column.
        requested_by: Who asked for the score of this session; ``None`` if a run chose it.
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
    score_triggered_by: str
    known_scorings: int | None = None
    requested_by: str | None = None


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """Properties of the transcript that was sent to the judge."""

    content_level: str
    redactions: Mapping[str, int]
    truncated: bool
    injection_suspected: bool


@dataclass(frozen=True, slots=True)
class ReceivedReply:
    """A reply of the judge to store; see ``ScoreStore.log_turn``.

    Attributes:
        score_id: The scoring.
        owner: The lease owner that stores the reply.
        turn: The reply.
        booked_usd: Cost of the scoring so far, requests in flight included; ``None`` if unknown.
        reserved_usd: Money reserved in addition to ``booked_usd``; ``None`` if unknown.
        next_phase: Phase that begins with the reply, for its event; ``None`` if none does.
    """

    score_id: str
    owner: str
    turn: LoggedTurn
    booked_usd: float | None = None
    reserved_usd: float | None = None
    next_phase: Phase | None = None


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """Result of a completed scoring."""

    total_score: int
    criteria_scores: Mapping[str, int | None]
    failure_tags: Sequence[str] | None
    sample_totals: Sequence[int]
    sample_errors: Sequence[str]
    score_spread: float | None
    score_analysis: str
    missing_tools_analysis: str | None
    missing_tools_error: str | None
    inconsistent_total: bool
    incomplete_criteria: bool = False
    short_analysis: bool = False
    numbers_from_reminder: bool = False
    estimated_usage: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason of a failed scoring; ``retriable`` is true if another attempt may succeed."""

    reason: str
    retriable: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """Lease on scorings: its owner, and the seconds until it expires unless it is renewed."""

    owner: str
    seconds: float
