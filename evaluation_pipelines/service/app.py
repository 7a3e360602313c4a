"""The ASGI application of the service."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from evaluation_pipelines.access.domain.keys import parse_grants
from evaluation_pipelines.service.errors import add_error_handlers, add_feature_error_handlers
from evaluation_pipelines.service.guard import Guard
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.keeper import Keeper
from evaluation_pipelines.service.kept import Kept
from evaluation_pipelines.service.limits import Limits
from evaluation_pipelines.service.live import Live
from evaluation_pipelines.service.openapi import COMMON_ERRORS, describe
from evaluation_pipelines.service.pages import (
    agents,
    attention,
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
from evaluation_pipelines.service.pages.error_pages import ErrorPages
from evaluation_pipelines.service.receiver.receiver import Receiver
from evaluation_pipelines.service.routes import (
    evaluation,
    events,
    gateway,
    operation,
    reputation,
    scoring,
    sessions,
)

_ROUTERS = (
    operation.ROUTER,
    scoring.ROUTER,
    gateway.ROUTER,
    reputation.ROUTER,
    sessions.ROUTER,
    evaluation.ROUTER,
    events.ROUTER,
)
"""Routers of all groups of routes."""


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
    for router in (*_ROUTERS, *PAGE_ROUTERS):
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
    attention.ROUTER,
)
