"""Errors of features as answers: which status, which code, and texts for programs."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.domain.registry import ProfileRefusedError
from evaluation_pipelines.reporting.reconciliation import BeingBuiltError
from evaluation_pipelines.reputation.domain.submitted import (
    AmbiguousAgentError,
    EvaluationConflictError,
    EvaluationError,
)
from evaluation_pipelines.scorecards.overrides import OverrideError
from evaluation_pipelines.scorecards.scorecard_queries import (
    EmptyTimeRangeError,
    QueryTooWideError,
)
from evaluation_pipelines.service.errors import ServiceError, error_response, not_found
from evaluation_pipelines.service.installation import LOG
from evaluation_pipelines.sessions.domain.find_session import (
    AmbiguousSessionError,
    SessionNotFoundError,
)
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.views.listing import CursorError

_STATUS: tuple[tuple[type[UserError], int, str], ...] = (
    (ProfileRefusedError, 409, "profile_refused"),
    (ProfileError, 400, "invalid_profile"),
    (EvaluationConflictError, 409, "evaluation_conflict"),
    (EvaluationError, 400, "invalid_evaluation"),
    (OverrideError, 400, "invalid_override"),
    (CursorError, 400, "invalid_cursor"),
)
"""Errors whose message is for the caller, the most special first."""


def add_feature_error_handlers(app: FastAPI) -> None:
    """Answer the errors that features raise in the form of all errors."""

    @app.exception_handler(UserError)
    def _failed(request: Request, error: UserError) -> JSONResponse:
        if isinstance(error, AmbiguousSessionError):
            request.scope["candidates"] = error.candidates  # for pages, which link to them
        return error_response(as_answer(error))


def as_answer(error: UserError) -> ServiceError:
    """Return the answer for an error of a feature.

    Messages that name commands, options or paths of the server are worded anew.
    """
    match error:
        case AmbiguousSessionError():
            return _ambiguous(error)
        case AmbiguousAgentError():
            named = f"Add ?organization=, one of: {', '.join(error.organizations)}"
            return ServiceError(400, "ambiguous_agent", f"{error}.", named)
        case SessionNotFoundError():
            return not_found("The session", "GET /api/v1/sessions lists them.")
        case QueryTooWideError():
            return ServiceError(
                400, "query_too_wide", "Name at least one of a session, an agent or a time range."
            )
        case EmptyTimeRangeError():
            return ServiceError(400, "empty_time_range", "The time range ends before it begins.")
        case LakeError():
            return _lake(error)
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            return ServiceError(status, code, str(error))
    LOG.error("%s", error)
    return ServiceError(500, "internal_error", "The service failed; its log says why.")


def _lake(error: LakeError) -> ServiceError:
    if isinstance(error, BeingBuiltError):
        return ServiceError(
            503,
            "being_built",
            "The tables of this day are being built.",
            "Try again in a few seconds.",
            {"Retry-After": "5"},
        )
    LOG.error("%s", error)
    return ServiceError(
        503,
        "lake_unavailable",
        "A file of the lake cannot be read.",
        "evaluation-pipelines doctor names it, and the command that helps.",
    )


def _ambiguous(error: AmbiguousSessionError) -> ServiceError:
    candidates = "; ".join(f"{key} of {organization}" for key, organization in error.candidates)
    return ServiceError(
        400, "ambiguous_session", "Several sessions have this id.", f"Name one of: {candidates}"
    )
