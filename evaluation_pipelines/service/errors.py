"""Errors of the service, all in one form: ``{"error": {"code", "message", "help"}}``."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from evaluation_pipelines.storage.ledger.errors import LedgerError


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
    """Return the answer for what does not exist, or belongs to another organization."""
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
                "Try again; the log of the service says why.",
                {"Retry-After": "5"},
            )
        )


def invalid_request(faults: Sequence[Mapping[str, Any]]) -> ServiceError:
    """Return the answer for a request with faults, as pydantic reports them; no value is shown."""
    places = [".".join(map(str, each["loc"])) for each in faults]
    reasons = [str(each["msg"]) for each in faults]
    listed = "; ".join(f"{place}: {why}" for place, why in zip(places, reasons, strict=True))
    return ServiceError(400, "invalid_request", listed, "See /openapi.json for what is allowed.")


def _as_service_error(error: HTTPException) -> ServiceError:
    if isinstance(error, ServiceError):
        return error
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_").replace("-", "_")
    headers = dict(error.headers or {})
    if headers.get("Allow") == "GET":
        headers["Allow"] = "GET, HEAD"
    return ServiceError(error.status_code, code, str(error.detail), None, headers)
