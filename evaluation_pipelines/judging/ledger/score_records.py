"""The values that go into ``session_scores`` and ``scoring_events`` and come out of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from evaluation_pipelines.judging.domain.score import LoggedTurn, Phase


@dataclass(frozen=True, slots=True)
class NewScore:
    """A scoring about to begin: which content of which session, and by what it is judged.

    ``score_id`` is a new UUID. ``seen`` is how many scorings of the session by the profile its
    maker knows of: should there be another one by now, it is refused. None asks no such thing.
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
    seen: int | None = None


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """What is worth knowing of the transcript that the judge was shown."""

    content_level: str
    redactions: Mapping[str, int]
    truncated: bool
    injection_suspected: bool


@dataclass(frozen=True, slots=True)
class ReceivedReply:
    """A reply of the judge that is to be kept; see ``ScoreStore.log_turn``.

    ``booked_usd`` is all that is spent on the scoring by now, calls under way included, and
    ``reserved_usd`` what is set aside beside it; None is unknown.
    """

    score_id: str
    owner: str
    turn: LoggedTurn
    booked_usd: float | None = None
    reserved_usd: float | None = None
    next_phase: Phase | None = None


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """What a scoring that came to a good end says."""

    total_score: int
    criteria_scores: Mapping[str, int]
    failure_tags: Sequence[str] | None
    sample_totals: Sequence[int]
    sample_errors: Sequence[str]
    score_spread: float | None
    score_analysis: str
    missing_tools_analysis: str | None
    missing_tools_error: str | None
    inconsistent_total: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a scoring came to nothing, and whether another attempt may help."""

    reason: str
    retriable: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """Who is at work on a scoring, and for how many seconds without a sign of life."""

    owner: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ScoringEvent:
    """One event of a scoring; what does not belong to its type is None."""

    event_id: int
    type: str
    score_id: str
    session_id: str
    session_key: str
    timestamp_us: int
    phase: str | None
    total_score: int | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class WindowScorings:
    """How often a session window was scored, and for how much; None when a price is unknown."""

    organization_id: str
    session_key: str
    scorings: int
    cost_usd: float | None
