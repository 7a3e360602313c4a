"""Answers to requests for the score of one session, with their HTTP status codes.

The command line, the user interface and a service follow the same table:

| existing | force | result | HTTP |
|---|---|---|---|
| none | any | new scoring | 202 |
| completed, failed | no | the existing one | 200 |
| pending, in_progress | no | the existing one | 202 |
| completed, failed | yes | new scoring | 202 |
| pending, in_progress | yes | refused: conflict | 409 |
| pending, left by a run that has ended | yes | the existing one, which becomes a request | 202 |

What a run has left is none until it is asked for.

Checked first: an unknown session is 404, a session that has not ended is 400. No new scoring is
created for a session whose texts have expired: 410.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evaluation_pipelines.schemas.judge_score import OPEN, ScoreStatus

Action: TypeAlias = Literal["create", "existing", "conflict", "not_terminal", "unknown", "expired"]

UNAUTHORIZED = 401
STORE_FAILED = 500
"""The ledger failed twice."""


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """Action for a request, and its HTTP status code."""

    action: Action
    http_status: int


def answer_request(
    existing: ScoreStatus | None,
    *,
    force: bool,
    is_held: bool = True,
    is_known: bool = True,
    is_terminal: bool = True,
    has_expired: bool = False,
) -> RequestAnswer:
    """Answer a request to score a session.

    Args:
        existing: Status of the newest scoring of its current content by its current profile.
        force: Whether to score again if a scoring has ended already.
        is_held: Whether an unfinished scoring is under way.
        is_known: Whether the session exists.
        is_terminal: Whether the session has ended.
        has_expired: Whether there is nothing left to judge.
    """
    if not is_known:
        return RequestAnswer("unknown", 404)
    if not is_terminal:
        return RequestAnswer("not_terminal", 400)
    if existing in OPEN:
        is_refused = force and is_held
        return RequestAnswer("conflict", 409) if is_refused else RequestAnswer("existing", 202)
    if existing is not None and not force:
        return RequestAnswer("existing", 200)
    return RequestAnswer("expired", 410) if has_expired else RequestAnswer("create", 202)


def answer_lookup(existing: ScoreStatus | None) -> RequestAnswer:
    """Answer a request to read a score; ``existing`` is the status of the newest scoring."""
    return RequestAnswer("unknown", 404) if existing is None else RequestAnswer("existing", 200)
