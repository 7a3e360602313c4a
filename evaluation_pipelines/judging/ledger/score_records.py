"""Values that are written to ``session_scores``."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evaluation_pipelines.schemas.judge_score import LoggedTurn

Phase: TypeAlias = Literal["analyzing_methodology", "identifying_missing_tools"]


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
class Failure:
    """Reason of a failed scoring; ``retriable`` is true if another attempt may succeed."""

    reason: str
    retriable: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """Lease on scorings: its owner, and the seconds until it expires unless it is renewed."""

    owner: str
    seconds: float
