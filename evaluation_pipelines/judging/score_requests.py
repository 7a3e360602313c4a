"""Requests for the score of one session, as the terminal, the interface or a service make them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import uuid4

from evaluation_pipelines.judging.domain.due import Window
from evaluation_pipelines.judging.domain.score import Score
from evaluation_pipelines.judging.domain.score_requests import (
    RequestAnswer,
    answer_lookup,
    answer_request,
)
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.errors import ScoringOpenError
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import JudgeNotReadyError, JudgePlan, Plans
from evaluation_pipelines.judging.session_windows import key_of, read_windows
from evaluation_pipelines.sessions.score import SessionNotFoundError
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.session_index import SessionIndex

_Got = TypeVar("_Got")


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which session somebody asks about.

    ``session`` is a session key, or a session id that has one window; ``organization_id`` is needed
    where several organizations have it.
    """

    session: str
    organization_id: str | None = None


@dataclass(frozen=True, slots=True)
class RequestResult:
    """What became of a request: its answer, and the scoring it is about, if there is one."""

    answer: RequestAnswer
    window: Window | None
    score: Score | None


def find_window(stores: Stores, wanted: SessionQuery, as_of: datetime) -> Window | None:
    """The session window that somebody asks about; None when there is none.

    Raises:
        SessionNotFoundError: several windows fit; the message names them.
    """
    asked = wanted.session
    session_ids = {asked, asked.rpartition("#")[0]}
    places = SessionIndex(stores.ledger).dates_by_session_id(session_ids)
    days = {day for pairs in places.values() for _, day in pairs}
    idle = stores.settings.session_idle_minutes
    windows = [
        each
        for each in read_windows(stores.lake, sorted(days), as_of, idle, session_ids)
        if wanted.organization_id in {None, each.organization_id}
    ]
    for named in (
        [each for each in windows if each.session_key == asked],
        [each for each in windows if each.session_id == asked],
    ):
        if len(named) > 1:
            keys = ", ".join(f"{each.session_key} of {each.organization_id}" for each in named)
            raise SessionNotFoundError(f"{asked} has several windows; name one of: {keys}")
        if named:
            return named[0]
    return None


def request_score(
    stores: Stores, plans: Plans, wanted: SessionQuery, by: str, now: datetime, *, force: bool
) -> RequestResult:
    """Ask for the score of a session, by the status table; a new scoring waits as ``pending``.

    Somebody who makes the same request at the same moment gets the same scoring.

    Raises:
        SessionNotFoundError: several windows fit.
        JudgeNotReadyError: no judge profile is for such a session.
        LedgerError: the ledger failed twice.
        LakeError: a file cannot be read.
    """
    window = find_window(stores, wanted, now)
    if window is None:
        return RequestResult(answer_request(None, force=force, is_known=False), None, None)
    plan = plans.of([window])[key_of(window)]
    if plan is None:
        label = window.classification_label
        raise JudgeNotReadyError(f"no judge profile lists {label!r}: no rubric to judge it by")
    return retry_once(lambda: _request(stores, window, plan, by, now, force=force))


def look_up(stores: Stores, wanted: SessionQuery, now: datetime) -> RequestResult:
    """The newest scoring of a session, whatever its profile.

    Raises:
        SessionNotFoundError: several windows fit.
        LedgerError: the ledger failed twice.
        LakeError: a file cannot be read.
    """
    window = find_window(stores, wanted, now)
    if window is None:
        return RequestResult(answer_lookup(None), None, None)
    found = retry_once(
        lambda: ScoreStore(stores.ledger).by_session(window.organization_id, window.session_key)
    )
    newest = found[-1] if found else None
    return RequestResult(answer_lookup(None if newest is None else newest.status), window, newest)


def retry_once(step: Callable[[], _Got]) -> _Got:
    """Do something with the ledger, once more if that fails."""
    try:
        return step()
    except LedgerError:
        return step()


def _request(
    stores: Stores, window: Window, plan: JudgePlan, by: str, now: datetime, *, force: bool
) -> RequestResult:
    judging = plan.judging
    scores = ScoreStore(stores.ledger).by_session(window.organization_id, window.session_key)
    own = [each for each in scores if each.judge_profile_id == judging.profile_id]
    existing = _newest(own, window, plan)
    answer = answer_request(
        None if existing is None else existing.status, force=force, is_terminal=window.is_terminal
    )
    if answer.action != "create":
        return RequestResult(answer, window, existing)
    candidate = Candidate(window, plan, len(own))
    try:
        made = ScoreStore(stores.ledger).create(candidate.new_score(str(uuid4()), by), now)
    except ScoringOpenError:
        # Somebody asked at the same moment: theirs is there now, and decides.
        return _request(stores, window, plan, by, now, force=force)
    return RequestResult(answer, window, made)


def _newest(own: list[Score], window: Window, plan: JudgePlan) -> Score | None:
    """The newest scoring of the content as it is, by the plan as it is; an open one in any case."""
    judging = plan.judging
    current = [
        each
        for each in own
        if (each.is_open and each.judge_model == judging.model)
        or (
            each.content_hash == window.content_hash
            and each.judge_profile_version == judging.profile_version
        )
    ]
    return current[-1] if current else None
