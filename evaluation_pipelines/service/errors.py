"""Errors of the service, all in one form: ``{"error": {"code", "message", "help"}}``."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from evaluation_pipelines.comparison.domain.groups import GroupingError
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.domain.registry import ProfileRefusedError
from evaluation_pipelines.reporting.books import BeingBuiltError
from evaluation_pipelines.reputation.submitted import (
    AmbiguousAgentError,
    EvaluationConflictError,
    EvaluationError,
)
from evaluation_pipelines.scorecards.overrides import OverrideError
from evaluation_pipelines.scorecards.scorecard_queries import (
    EmptyTimeRangeError,
    QueryTooWideError,
)
from evaluation_pipelines.service.installation import LOG
from evaluation_pipelines.sessions.domain.find_session import (
    AmbiguousSessionError,
    SessionNotFoundError,
)
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.views.listing import CursorError


class ErrorDetail(BaseModel):
    """What went wrong: a word for programs, a sentence for people, and what to do."""

    code: str
    message: str
    help: str | None = None


class ErrorEnvelope(BaseModel):
    """Body of every answer that is an error."""

    error: ErrorDetail


class ServiceError(HTTPException):
    """An answer that is an error. ``help_text`` says what to do about it."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        help_text: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.code, self.help_text = code, help_text


def not_found(what: str, help_text: str | None = None) -> ServiceError:
    """Return a 404 for something that does not exist, or belongs to another organization."""
    return ServiceError(404, "not_found", f"{what} does not exist.", help_text)


def error_response(error: ServiceError) -> JSONResponse:
    """Return an error as a response."""
    detail = ErrorDetail(code=error.code, message=error.detail, help=error.help_text)
    content = ErrorEnvelope(error=detail).model_dump()
    return JSONResponse(content, error.status_code, dict(error.headers or {}))


def add_error_handlers(app: FastAPI) -> None:
    """Give all errors of an app the same form."""

    @app.exception_handler(HTTPException)
    def _http(_request: Request, error: HTTPException) -> JSONResponse:
        return error_response(_as_service_error(error))

    @app.exception_handler(RequestValidationError)
    def _invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(invalid_request(error.errors()))

    @app.exception_handler(LedgerError)
    def _ledger(_request: Request, _error: LedgerError) -> JSONResponse:
        return error_response(
            ServiceError(
                503,
                "ledger_unavailable",
                "The ledger cannot be used at the moment.",
                "Try again. The log of the service has the reason.",
                {"Retry-After": "5"},
            )
        )


def invalid_request(faults: Sequence[Mapping[str, Any]]) -> ServiceError:
    """Return the answer for a request with faults, as pydantic reports them; no value is shown."""
    places = [".".join(map(str, fault["loc"])) for fault in faults]
    reasons = [str(fault["msg"]) for fault in faults]
    listed = "; ".join(f"{place}: {why}" for place, why in zip(places, reasons, strict=True))
    return ServiceError(400, "invalid_request", listed, "See /openapi.json for allowed values.")


def _as_service_error(error: HTTPException) -> ServiceError:
    if isinstance(error, ServiceError):
        return error
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_").replace("-", "_")
    headers = dict(error.headers or {})
    if headers.get("Allow") == "GET":
        headers["Allow"] = "GET, HEAD"
    return ServiceError(error.status_code, code, str(error.detail), None, headers)


_STATUS: tuple[tuple[type[UserError], int, str], ...] = (
    (ProfileRefusedError, 409, "profile_refused"),
    (ProfileError, 400, "invalid_profile"),
    (EvaluationConflictError, 409, "evaluation_conflict"),
    (EvaluationError, 400, "invalid_evaluation"),
    (OverrideError, 400, "invalid_override"),
    (CursorError, 400, "invalid_cursor"),
    (GroupingError, 400, "invalid_grouping"),
)
"""Errors whose message is for the caller, most specific first."""


def add_feature_error_handlers(app: FastAPI) -> None:
    """Return feature errors in the common form."""

    @app.exception_handler(UserError)
    def _failed(request: Request, error: UserError) -> JSONResponse:
        if isinstance(error, AmbiguousSessionError):
            request.scope["candidates"] = error.candidates  # for pages, which link to them
        return error_response(as_answer(error))


def as_answer(error: UserError) -> ServiceError:
    """Return the answer for an error of a feature.

    Messages that name commands, options or paths of the server are reworded.
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
            return ServiceError(400, "empty_time_range", "The time range ends before it starts.")
        case LakeError():
            return _lake(error)
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            return ServiceError(status, code, str(error))
    LOG.error("%s", error)
    return ServiceError(500, "internal_error", "The service failed. Its log has the reason.")


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
        "Run evaluation-pipelines doctor: it names the file and the command to run.",
    )


def _ambiguous(error: AmbiguousSessionError) -> ServiceError:
    candidates = "; ".join(f"{key} of {organization}" for key, organization in error.candidates)
    return ServiceError(
        400, "ambiguous_session", "Several sessions have this id.", f"Name one of: {candidates}"
    )
