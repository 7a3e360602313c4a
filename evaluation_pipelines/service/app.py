"""The ASGI application of the service, and its OpenAPI document.

The framework derives the document, which is corrected where the service differs.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from evaluation_pipelines.access.domain.keys import parse_grants
from evaluation_pipelines.service.errors import (
    ErrorEnvelope,
    add_error_handlers,
    add_feature_error_handlers,
)
from evaluation_pipelines.service.guard import Guard
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.kept import Kept
from evaluation_pipelines.service.limits import Limits
from evaluation_pipelines.service.live import Keeper, Live
from evaluation_pipelines.service.pages import (
    agents,
    books,
    judge,
    login,
    models,
    operations,
    overview,
    rendering,
    reviews,
    session,
    session_list,
    tools,
    trends,
)
from evaluation_pipelines.service.pages.login import ErrorPages
from evaluation_pipelines.service.receiver.receiver import Receiver
from evaluation_pipelines.service.receiver.requests import RECEIVER_PATHS, Signal
from evaluation_pipelines.service.routes import (
    evaluation,
    events,
    gateway,
    operation,
    reputation,
    scoring,
    sessions,
    tables,
)
from evaluation_pipelines.service.routes.common import known_parameters

COMMON_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorEnvelope, "description": meaning}
    for status, meaning in {
        400: "the request cannot be understood",
        401: "no accepted key",
        403: "the key's role does not allow it, or Host or Origin is of another site",
        429: "the key or address sends too much. Retry-After has the seconds to wait",
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

_TRANSCRIPT_TEXT = """Store the numbers of an agent's transcript, plain or compressed.

Sent again, it counts once.
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
    errors = {**{int(status): text["description"] for status, text in COMMON_ERRORS.items()}}
    errors |= _BODIES | _OTLP_ERRORS
    other = "x-ndjson" if signal == Signal.TRANSCRIPTS else "x-protobuf"
    bodies = {
        "application/json": {"schema": {"type": "object"}},
        f"application/{other}": {"schema": {"type": "string", "format": "binary"}},
    }
    return {
        "tags": ["receiver"],
        "operationId": f"receive_{signal}",
        "description": _TRANSCRIPT_TEXT
        if signal == Signal.TRANSCRIPTS
        else _OTLP_TEXT.format(signal=signal),
        "security": [{"key": []}],
        "requestBody": {
            "required": True,
            "content": bodies,
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


_ROUTERS = (
    scoring.ROUTER,
    gateway.ROUTER,
    reputation.ROUTER,
    sessions.ROUTER,
    evaluation.ROUTER,
    tables.ROUTER,
    events.ROUTER,
)
"""Routers whose routes refuse parameters that they do not know."""


class _Application(FastAPI):
    """The framework's application, but for telemetry.

    Agents send it all the time, and the layers of the framework would take as long as the receiver:
    a request passes the guard alone. ``receiving`` has the endpoints by path.
    """

    receiving: Mapping[str, ASGIApp]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        endpoint = self.receiving.get(scope["path"]) if scope.get("method") == "POST" else None
        if endpoint is None:
            await super().__call__(scope, receive, send)
        else:
            scope["app"] = self
            await endpoint(scope, receive, send)


def create_app(
    installation: Installation,
    otlp_port: int | None = None,
    keeper: Keeper | None = None,
    grpc_address: str | None = None,
) -> FastAPI:
    """Return the application of an installation, whose stores stay open while it runs.

    On ``otlp_port`` it only receives telemetry, at ``grpc_address`` also over gRPC. ``keeper``
    keeps the data current meanwhile.
    """
    settings, receiver = installation.settings, Receiver(installation)
    kept = Kept(installation.stores)
    live = Live(installation, kept, keeper)
    limits = Limits(settings.service_requests_per_second)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with live.running(), receiver.over_grpc(app, grpc_address):
            yield
        receiver.close()

    app = _Application(
        lifespan=lifespan,
        title="evaluation-pipelines",
        version=version("evaluation-pipelines"),
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        responses=COMMON_ERRORS,
    )
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    app.state.installation, app.state.live = installation, live
    app.state.limits, app.state.grants = limits, parse_grants(settings.forwarded_groups)
    app.state.kept = kept
    app.router.routes.extend(receiver.routes())
    app.receiving = {
        route.path: Guard(route.app, installation, limits, otlp_port) for route in receiver.routes()
    }
    for router in _ROUTERS:
        app.include_router(router, dependencies=[Depends(known_parameters)])
    for router in (operation.ROUTER, *PAGE_ROUTERS):
        app.include_router(router)
    add_error_handlers(app)
    add_feature_error_handlers(app)
    app.add_middleware(Guard, installation=installation, limits=limits, otlp_port=otlp_port)
    app.add_middleware(ErrorPages)
    return app


PAGE_ROUTERS = (
    rendering.ROUTER,
    login.ROUTER,
    overview.ROUTER,
    session_list.ROUTER,
    session.ROUTER,
    models.ROUTER,
    agents.ROUTER,
    trends.ROUTER,
    tools.ROUTER,
    reviews.ROUTER,
    operations.ROUTER,
    books.ROUTER,
    judge.ROUTER,
)
