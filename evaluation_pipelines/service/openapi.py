"""The OpenAPI document: what the framework derives, made right where the service differs."""

from typing import Any

from fastapi import FastAPI

from evaluation_pipelines.service.errors import ErrorEnvelope
from evaluation_pipelines.service.receiver.requests import RECEIVER_PATHS

COMMON_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorEnvelope, "description": meaning}
    for status, meaning in {
        400: "the request cannot be understood",
        401: "no accepted key",
        403: "the key's role does not allow it, or Host or Origin are those of another site",
        429: "the key or address sends too much. Retry-After says when to go on",
    }.items()
}
"""Errors of every route that needs a key."""

PATHS_WITHOUT_KEY = ("/health", "/ready", "/api")

_FOREIGN = "the Host header is that of another site"
_BODIES = {408: "the body did not arrive in time", 413: "the body is too large"}
_OTLP_ERRORS = {
    400: "it cannot be decoded, or was cut",
    415: "another format or compression",
    503: "it cannot be stored at the moment",
}
_RPC_STATUS = {
    "type": "object",
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
    "required": ["code", "message"],
}
_OTLP_RESPONSE = {
    "type": "object",
    "properties": {
        "partialSuccess": {
            "type": "object",
            "properties": {
                "rejectedLogRecords": {"type": "string"},
                "errorMessage": {"type": "string"},
            },
        }
    },
}
_OTLP_TEXT = """Store an OTLP request of {signal}, JSON or protobuf, plain, gzip, deflate or zstd.

Errors are a google.rpc.Status, in the format of the request.
"""


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        schemas = document["components"]
        schemas["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path, operations in document["paths"].items():
            for operation in operations.values():
                _correct(operation, needs_key=path not in PATHS_WITHOUT_KEY)
        document["paths"] |= {path: {"post": _otlp(path)} for path in sorted(RECEIVER_PATHS)}
    return app.openapi_schema or {}


def _correct(operation: dict[str, Any], *, needs_key: bool) -> None:
    responses = operation["responses"]
    responses.pop("422", None)  # invalid requests get 400 here
    if needs_key:
        operation["security"] = [{"key": []}]
    else:
        del responses["401"]
        responses["403"]["description"] = _FOREIGN
    if "requestBody" in operation:
        for status, meaning in _BODIES.items():
            responses[str(status)] = {**responses["400"], "description": meaning}


def _otlp(path: str) -> dict[str, Any]:
    signal = path.rpartition("/")[2]
    errors = {**{int(each): text["description"] for each, text in COMMON_ERRORS.items()}}
    errors |= _BODIES | _OTLP_ERRORS
    return {
        "tags": ["receiver"],
        "operationId": f"receive_{signal}",
        "description": _OTLP_TEXT.format(signal=signal),
        "security": [{"key": []}],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"type": "object"}},
                "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        "responses": {
            "200": _content("it is stored", _OTLP_RESPONSE),
            **{str(status): _content(text, _RPC_STATUS) for status, text in sorted(errors.items())},
        },
    }


def _content(meaning: str, schema: dict[str, Any]) -> dict[str, Any]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {"application/json": {"schema": schema}, "application/x-protobuf": binary}
    return {"description": meaning, "content": content}
