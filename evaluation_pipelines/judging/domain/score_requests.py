"""Requests for the score of one session: what is done, and how HTTP says it.

The terminal, the user interface and a service answer by the same table:

| existing | force | result | HTTP |
|---|---|---|---|
| none | any | new scoring | 202 |
| completed, failed | no | the existing one | 200 |
| pending, in_progress | no | the existing one | 202 |
| completed, failed | yes | new scoring | 202 |
| pending, in_progress | yes | refused: conflict | 409 |

Before it: an unknown session is 404, one that is still running 400.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evaluation_pipelines.judging.domain.score import OPEN, ScoreStatus

Action: TypeAlias = Literal["create", "existing", "conflict", "not_terminal", "unknown"]

UNAUTHORIZED = 401
STORE_FAILED = 500
"""After one more try."""


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """What to do with a request, and the status code that tells it."""

    action: Action
    http_status: int


def answer_request(
    existing: ScoreStatus | None, *, force: bool, is_known: bool = True, is_terminal: bool = True
) -> RequestAnswer:
    """Answer a request to score a session.

    Args:
        existing: status of the newest scoring of its current content by its current profile.
        force: score again although there is one that came to its end.
        is_known: whether there is such a session.
        is_terminal: whether it has ended.
    """
    if not is_known:
        return RequestAnswer("unknown", 404)
    if not is_terminal:
        return RequestAnswer("not_terminal", 400)
    if existing is None:
        return RequestAnswer("create", 202)
    if existing in OPEN:
        return RequestAnswer("conflict", 409) if force else RequestAnswer("existing", 202)
    return RequestAnswer("create", 202) if force else RequestAnswer("existing", 200)


def answer_lookup(existing: ScoreStatus | None) -> RequestAnswer:
    """Answer a request to see the score of a session; ``existing`` is that of its newest one."""
    return RequestAnswer("unknown", 404) if existing is None else RequestAnswer("existing", 200)
