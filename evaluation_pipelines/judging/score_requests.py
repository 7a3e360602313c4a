"""Requests for the score of one session, and how an unfinished scoring goes on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, TypeVar
from uuid import uuid4

from evaluation_pipelines.judging.domain.due import (
    RequestAnswer,
    Window,
    answer_lookup,
    answer_request,
)
from evaluation_pipelines.judging.endpoint.client import endpoint_of
from evaluation_pipelines.judging.find_due import Candidate
from evaluation_pipelines.judging.ledger.batch_store import BatchStore
from evaluation_pipelines.judging.ledger.score_queries import ScoringOpenError
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import JudgeNotReadyError, JudgePlan, Plans
from evaluation_pipelines.judging.session_windows import window_key, window_of
from evaluation_pipelines.profiles.domain.registry import CARD_VERSION
from evaluation_pipelines.schemas import SCORECARDS
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.sessions.domain.find_session import (
    AmbiguousSessionError,
    SessionNotFoundError,
)
from evaluation_pipelines.sessions.find import SessionName, find
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines.storage.ledger.tables.people import SERVICE_EVENTS
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import from_us

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class RequestResult:
    """Answer to a request, with the window and the scoring if they exist."""

    answer: RequestAnswer
    window: Window | None
    score: Score | None


def request_score(
    stores: Stores,
    plans: Plans,
    query: SessionName,
    by: str,
    now: datetime,
    *,
    force: bool,
) -> RequestResult:
    """Request the score of a session.

    ``answer_request`` decides what happens; a new scoring is ``pending``. Concurrent requests for
    the same session get the same scoring.

    Args:
        stores: Lake, ledger and settings.
        plans: Plans of the run.
        query: The session.
        by: The requester.
        now: The time.
        force: Score the session again even if it is scored.

    Raises:
        AmbiguousSessionError: Several windows match.
        JudgeNotReadyError: No judge profile matches the session.
        LedgerError: The ledger failed twice.
        LakeError: A file cannot be read.
    """
    window = retry_once(lambda: _find_window(stores, query, now))
    if window is None:
        return RequestResult(answer_request(None, force=force, is_known=False), None, None)
    days = [window.session_date]
    cards = retry_once(lambda: stores.lake.read(SCORECARDS, days, list(CARD_VERSION)))
    plan = plans.for_windows([window], cards)[window_key(window)]
    if plan is None:
        label = window.classification_label
        raise JudgeNotReadyError(
            plans.faults_of([window], cards).get(window_key(window))
            or f"a judge profile must list the label {label!r} before its sessions can be judged"
        )
    return retry_once(lambda: _answer(stores, window, plan, by, now, force=force))


def look_up(stores: Stores, query: SessionName, now: datetime) -> RequestResult:
    """Return the newest scoring of a session by any profile.

    Raises:
        AmbiguousSessionError: Several windows match.
        LedgerError: The ledger failed twice.
        LakeError: A file cannot be read.
    """
    window = retry_once(lambda: _find_window(stores, query, now))
    if window is None:
        return RequestResult(answer_lookup(None), None, None)
    found = retry_once(
        lambda: ScoreStore(stores.ledger).by_session(window.organization_id, window.session_key)
    )
    newest = found[-1] if found else None
    return RequestResult(answer_lookup(None if newest is None else newest.status), window, newest)


def answer_without_judge(
    stores: Stores, query: SessionName, now: datetime, *, force: bool
) -> RequestResult:
    """Answer a request for a score where nothing can be scored.

    The caller refuses the action ``create``.

    Raises:
        AmbiguousSessionError: Several windows match.
        LedgerError: The ledger failed twice.
        LakeError: A file cannot be read.
    """
    found = look_up(stores, query, now)
    window, score = found.window, found.score
    if window is None:
        return RequestResult(answer_request(None, force=force, is_known=False), None, None)
    if score is not None and not score.is_open and score.content_hash != window.content_hash:
        score = None
    answer = answer_request(
        None if score is None else score.status,
        force=force,
        is_terminal=window.is_terminal,
        has_expired=window.expired is not None,
    )
    return RequestResult(answer, window, score)


def retry_once(step: Callable[[], _Result]) -> _Result:
    """Run an operation on the stores and repeat it once if it fails."""
    try:
        return step()
    except (LedgerError, LakeError):
        return step()


def _find_window(stores: Stores, query: SessionName, as_of: datetime) -> Window | None:
    """Return the session window of a request; ``None`` if it does not exist.

    Raises:
        AmbiguousSessionError: Several windows match.
    """
    try:
        return window_of(stores, find(stores, query), as_of)
    except AmbiguousSessionError:
        raise
    except SessionNotFoundError:
        return None


def _answer(
    stores: Stores, window: Window, plan: JudgePlan, by: str, now: datetime, *, force: bool
) -> RequestResult:
    """Answer by the status table, and create the scoring if it says so."""
    store, endpoint = ScoreStore(stores.ledger), endpoint_of(stores.settings)
    scores = store.by_session(window.organization_id, window.session_key)
    of_profile = [each for each in scores if each.judge_profile_id == plan.setup.profile_id]
    existing = _newest(of_profile, window, plan)
    answer = answer_request(
        None if existing is None else existing.status,
        force=force,
        is_held=existing is not None and not existing.is_left,
        is_terminal=window.is_terminal,
        has_expired=window.expired is not None,
    )
    if answer.action == "existing" and existing is not None and existing.is_open:
        asked = store.request(existing.score_id, by, now, endpoint)
        return RequestResult(answer, window, asked)
    if answer.action != "create":
        return RequestResult(answer, window, existing)
    new = Candidate(window, plan, None).new_score(str(uuid4()), by, now, by)
    try:
        new = replace(new, endpoint=endpoint)
        score = store.create(new, now, known_scorings=len(of_profile))
    except ScoringOpenError:
        # A concurrent request created a scoring, which decides the answer now.
        return _answer(stores, window, plan, by, now, force=force)
    return RequestResult(answer, window, score)


def _newest(of_profile: list[Score], window: Window, plan: JudgePlan) -> Score | None:
    """Return the newest scoring that is open or of the current content and profile version."""
    setup = plan.setup
    current = [
        each
        for each in of_profile
        if (each.is_open and each.judge_model == setup.model)
        or (
            each.content_hash == window.content_hash
            and each.judge_profile_version == setup.profile_version
        )
    ]
    return current[-1] if current else None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Mode of an unfinished scoring, and when its result is expected.

    Attributes:
        mode: Whether its requests are sent in a batch.
        expected_by: When the provider answers a turn of a batch, which another one may follow;
            ``None`` if that is not known.
        next_try_at: When it is tried again at the earliest; ``None`` as soon as a judge is free.
        deferred_because: Why it was left for later; ``None`` if it was not.
    """

    mode: Literal["direct", "batch"]
    expected_by: datetime | None = None
    next_try_at: datetime | None = None
    deferred_because: str | None = None

    @property
    def next_try(self) -> str:
        """Tell what a scoring that no judge works on waits for."""
        at = self.next_try_at
        when = "" if at is None else f", next try {at.astimezone(UTC):%H:%M} UTC"
        return f"It waits for the judge{when}"


def waiting(stores: Stores, score: Score) -> Waiting | None:
    """Return how an unfinished scoring is being judged; ``None`` if it has ended."""
    if not score.is_open:
        return None
    if score.batch_id is None:
        tried_at = None if score.next_try_at_us is None else from_us(score.next_try_at_us)
        return Waiting(
            "direct", next_try_at=tried_at, deferred_because=_why_deferred(stores, score)
        )
    batch = BatchStore(stores.ledger).get(score.batch_id)
    if batch is None or batch.expected_by_us is None:
        return Waiting("batch")
    return Waiting("batch", from_us(batch.expected_by_us))


def _why_deferred(stores: Stores, score: Score) -> str | None:
    """Return the reason in the newest event of a scoring, if that is a deferral."""
    if score.status != "pending":
        return None
    is_of_it = SERVICE_EVENTS.c.score_id == score.score_id
    newest = ServiceEvents(stores.ledger).newest(1, is_of_it)
    return newest[0].error_message if newest and newest[0].type == "scoring.deferred" else None
