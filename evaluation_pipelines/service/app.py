"""The ASGI application of the service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI

from evaluation_pipelines.service.errors import ErrorEnvelope, add_error_handlers
from evaluation_pipelines.service.feature_errors import add_feature_error_handlers
from evaluation_pipelines.service.guard import Guard
from evaluation_pipelines.service.installation import Installation
from evaluation_pipelines.service.live import Live
from evaluation_pipelines.service.pages.all_pages import PAGE_ROUTERS
from evaluation_pipelines.service.pages.error_pages import ErrorPages
from evaluation_pipelines.service.receiver.receiver import Receiver
from evaluation_pipelines.service.recent_comparison import RecentComparison
from evaluation_pipelines.service.routes import (
    api_page,
    evaluation,
    events,
    gateway,
    operation,
    reputation,
    scoring,
    sessions,
)
from evaluation_pipelines.service.session_table import SessionTable

_ROUTERS = (
    operation.ROUTER,
    api_page.ROUTER,
    scoring.ROUTER,
    gateway.ROUTER,
    reputation.ROUTER,
    sessions.ROUTER,
    evaluation.ROUTER,
    events.ROUTER,
)
"""Routers of all groups of routes."""

_ERRORS = {
    400: "the request cannot be understood",
    401: "no accepted key",
    403: "the key's role does not allow it",
}


def create_app(installation: Installation) -> FastAPI:
    """Return the application of an installation, whose stores stay open while it runs."""
    receiver, live = Receiver(installation), Live(installation)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with live.running():
            yield
        receiver.close()

    app = FastAPI(
        lifespan=lifespan,
        title="evaluation-pipelines",
        version=version("evaluation-pipelines"),
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        responses={
            status: {"model": ErrorEnvelope, "description": meaning}
            for status, meaning in _ERRORS.items()
        },
    )
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    app.state.installation, app.state.live = installation, live
    app.state.session_table = SessionTable(installation.stores)
    app.state.recent_comparison = RecentComparison(installation.stores)
    app.router.routes.extend(receiver.routes())
    for router in (*_ROUTERS, *PAGE_ROUTERS):
        app.include_router(router)
    add_error_handlers(app)
    add_feature_error_handlers(app)
    app.add_middleware(Guard, installation=installation)
    app.add_middleware(ErrorPages)
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document; invalid requests get 400 here, not the 422 of the framework."""
    document = FastAPI.openapi(app)
    for path in document["paths"].values():
        for described in path.values():
            described["responses"].pop("422", None)
    return document
