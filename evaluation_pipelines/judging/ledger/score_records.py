"""Values that are written to a table of scorings."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evaluation_pipelines.schemas.judge_score import LoggedTurn

Phase: TypeAlias = Literal["analyzing_methodology", "identifying_missing_tools"]


@dataclass(frozen=True, slots=True)
class ReceivedReply:
    """A reply of the judge to store; see ``ScoreStore.log_turn``.

    Attributes:
        score_id: The scoring.
        turn: The reply.
        unused_usd: What was booked for the scoring and is not needed anymore.
        next_phase: Phase that begins with the reply, for its event; ``None`` if none does.
        released_usd: What was reserved for it, of a batch.
    """

    score_id: str
    turn: LoggedTurn
    unused_usd: float = 0.0
    next_phase: Phase | None = None
    released_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason of a failed scoring; ``retriable`` is true if another attempt may succeed."""

    reason: str
    retriable: bool
