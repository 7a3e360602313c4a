"""Scores of the judge on request."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, StrictBool, create_model

from evaluation_pipelines.access.domain.keys import Caller, Role
from evaluation_pipelines.judging.plans import JudgeNotReadyError, current_rubrics, load_plans
from evaluation_pipelines.judging.score_requests import (
    RequestResult,
    answer_without_judge,
    look_up,
    request_score,
    retry_once,
    waiting,
)
from evaluation_pipelines.schemas.judge_score import FIELDS, Score, ScoreStatus, reader_record
from evaluation_pipelines.scorecards.blind_reviews import note_request
from evaluation_pipelines.scorecards.domain.withheld import WAITS, without_scores
from evaluation_pipelines.service.caller import (
    caller_with,
    organization_of,
    sees_texts,
    waiting_for,
)
from evaluation_pipelines.service.errors import ErrorEnvelope, ServiceError, not_found
from evaluation_pipelines.service.installation import LOG, Installation
from evaluation_pipelines.service.live import Live, live_of
from evaluation_pipelines.service.routes.common import (
    JUDGE_TEXTS,
    Here,
    Organization,
    Reader,
    SessionPath,
)
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.errors import LedgerError

ROUTER = APIRouter(prefix="/api/v1/scoring", tags=["scoring"])

_Result = TypeVar("_Result")

_PATH = "/sessions/{session_id:path}/score"
_FIRST = (
    *("score_id", "session_id", "session_key", "organization_id", "status", "prompt_hash"),
    *("total_score", "score_analysis", "missing_tools_analysis", "error_message"),
    *("score_triggered_by", "started_at_us", "completed_at_us"),
)
"""Fields that an answer begins with; the others follow."""


class ScoreRequest(BaseModel):
    """A request for the score of a session."""

    model_config = ConfigDict(extra="forbid")

    force_rescore: StrictBool = False


class AcceptedScoring(BaseModel):
    """A judgment that is new or not finished."""

    score_id: str
    session_id: str
    status: ScoreStatus


_RECORD: dict[str, Any] = {
    name: (field.type_ | None if field.is_nullable else field.type_, ...)
    for name, field in FIELDS.items()
    if name in _FIRST
}

ScoreRecord = create_model(
    "ScoreRecord",
    __config__=ConfigDict(extra="allow"),
    __doc__="""A judgment in any status, with everything that the ledger has for a reader.

    Times are microseconds since 1970. ``current_prompt_used``: whether it was made with the
    current rubric. Keys of the role ``reader`` get null for the judge's text, others for all
    that it found while the session ``awaits_review``. An unfinished one also has its ``mode``,
    ``expected_by``, ``next_try_at`` and ``deferred_because``.
    """,
    **{name: _RECORD[name] for name in _FIRST},
    current_prompt_used=(bool, ...),
    awaits_review=(bool, ...),
)


def _described(**meanings: str) -> dict[int | str, dict[str, Any]]:
    return {
        int(status.removeprefix("http_")): {"model": ErrorEnvelope, "description": meaning}
        for status, meaning in meanings.items()
    }


_UNKNOWN = "the session is unknown, or another organization's"
_STORE_FAILED = "the store failed twice"


@ROUTER.post(
    _PATH,
    status_code=202,
    response_model=AcceptedScoring,
    responses={
        200: {"model": ScoreRecord, "description": "the score that exists"},
        202: {"description": "a new or unfinished judgment"},
        **_described(
            http_400="the session has not ended, or several sessions match",
            http_404=_UNKNOWN,
            http_409="forced while a judgment is in progress",
            http_410="its text has expired, so it is not judged anymore",
            http_500=_STORE_FAILED,
            http_503="no judge is configured",
        ),
    },
)
def score_session(
    request: Request,
    session_id: SessionPath,
    installation: Here,
    live: Annotated[Live, Depends(live_of)],
    caller: Annotated[Caller, Depends(caller_with(Role.OPERATOR))],
    body: ScoreRequest | None = None,
    organization: Organization = None,
) -> Response:
    """Request the score of a session, and return at once; the work follows."""
    query = score_query(caller, session_id, organization)
    force = body is not None and body.force_rescore
    result, score = requested(installation, caller, query, force=force)
    if result.answer.http_status == 200:
        return JSONResponse(_record(request, installation, result, score, caller))
    live.notify()
    accepted = AcceptedScoring(
        score_id=score.score_id, session_id=score.session_id, status=score.status
    )
    return JSONResponse(accepted.model_dump(), 202)


def requested(
    installation: Installation, caller: Caller, query: SessionName, *, force: bool
) -> tuple[RequestResult, Score]:
    """Request a score; return the answer and the judgment, which the worker is still to be told.

    Raises:
        ServiceError: 400, 404, 409, 500 or 503, see ``docs/service.md``.
    """
    stores = installation.stores
    why_not = stores.settings.why_no_judge

    def request() -> RequestResult:
        now = installation.clock()
        if why_not is not None:
            return answer_without_judge(stores, query, now, force=force)
        plans = retry_once(lambda: load_plans(stores, now))
        return request_score(stores, plans, query, caller.name, now, force=force)

    result = _explained(request)
    if why_not is not None and result.answer.action == "create":
        raise _no_judge(why_not)
    if result.score is None or result.answer.http_status >= 400:
        raise _refusal(result)
    if result.answer.http_status == 202:
        key = (result.score.organization_id, result.score.session_key)
        note_request(stores, caller.name, key, installation.clock())
    return result, result.score


@ROUTER.get(
    _PATH,
    response_model=ScoreRecord,
    responses=_described(
        http_400="several sessions match",
        http_404=f"{_UNKNOWN}, or it has no score",
        http_500=_STORE_FAILED,
    ),
)
def get_score(
    request: Request,
    session_id: SessionPath,
    installation: Here,
    caller: Reader,
    organization: Organization = None,
) -> Response:
    """Return the latest judgment of a session in any status."""
    stores, query = installation.stores, score_query(caller, session_id, organization)
    result = _explained(lambda: look_up(stores, query, installation.clock()))
    if result.score is None:
        raise _refusal(result)
    return JSONResponse(_record(request, installation, result, result.score, caller))


def score_query(caller: Caller, session_id: str, organization: str | None) -> SessionName:
    """Return the session that a caller names; raises ServiceError 404."""
    if "\0" in session_id:  # a database refuses it, and no session has one
        raise _unknown_session()
    return SessionName(session_id, organization_of(caller, organization))


def _record(
    request: Request, here: Installation, found: RequestResult, score: Score, caller: Caller
) -> dict[str, Any]:
    stores = here.stores
    label = "" if found.window is None else found.window.classification_label
    record = reader_record(score, current_rubrics(stores).prompt_hash(label))
    if not sees_texts(caller):
        record |= dict.fromkeys(JUDGE_TEXTS)
    awaits_review = (score.organization_id, score.session_key) in waiting_for(request, caller)
    record = {**(without_scores(record) if awaits_review else record), WAITS: awaits_review}
    first = {name: record[name] for name in ScoreRecord.model_fields}
    waits = waiting(stores, score)
    record |= {} if waits is None else asdict(waits)
    encoded: dict[str, Any] = jsonable_encoder(first | record)
    return encoded


def _explained(step: Callable[[], _Result]) -> _Result:
    """Run a step whose errors become answers."""
    try:
        return step()
    except JudgeNotReadyError as error:
        raise _no_judge(str(error)) from error
    except (LedgerError, LakeError) as error:
        LOG.exception("a score request failed twice")
        raise ServiceError(
            500,
            "store_failed",
            "The store failed twice.",
            "Try again. The log of the service has the reason.",
        ) from error


def _no_judge(reason: str) -> ServiceError:
    return ServiceError(503, "no_judge", f"Nothing can be scored: {reason}.")


def _refusal(result: RequestResult) -> ServiceError:
    match result.answer.action:
        case "conflict":
            return ServiceError(
                409,
                "scoring_under_way",
                "The session is being judged.",
                "Wait for the result, or do not force.",
            )
        case "not_terminal":
            return ServiceError(
                400,
                "session_not_ended",
                "The session has not ended.",
                "Try again when it has.",
            )
        case "expired":
            return ServiceError(
                410,
                "texts_expired",
                "The session's text has expired, so it is not judged anymore.",
                "A score that it has stays: GET it.",
            )
    if result.window is not None:
        return ServiceError(
            404,
            "not_scored",
            "The session is not scored.",
            "Request its score by POST.",
        )
    return _unknown_session()


def _unknown_session() -> ServiceError:
    return not_found("The session", "GET /api/v1/sessions lists them.")
