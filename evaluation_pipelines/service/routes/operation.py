"""Routes for the operator of the service: health, readiness, metrics, and the page of the API."""

import os
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from evaluation_pipelines.access.domain.keys import Caller, Role
from evaluation_pipelines.service.caller import unrestricted_caller
from evaluation_pipelines.service.errors import ErrorEnvelope, ServiceError
from evaluation_pipelines.service.installation import Installation, installation_of
from evaluation_pipelines.service.pages.rendering import static_url
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.tables.people import ACCESS_KEYS

ROUTER = APIRouter(tags=["operation"])

_TRIED_BYTES = 64 * 1024


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """The ledger and the landing folder can be used."""

    status: Literal["ready"] = "ready"


@ROUTER.get("/health")
def health() -> Health:
    """Check that the service is running. Needs no key."""
    return Health()


@ROUTER.get(
    "/ready",
    responses={503: {"model": ErrorEnvelope, "description": "telemetry cannot be stored now"}},
)
def ready(installation: Annotated[Installation, Depends(installation_of)]) -> Readiness:
    """Say whether telemetry could be received now: 503 if not. Needs no key."""
    landing = installation.stores.landing.folder
    if landing is not None:
        _check_room(landing)
    with reading(installation.stores.ledger.engine) as connection:
        connection.execute(sa.select(ACCESS_KEYS.c.key_id).limit(1))
    return Readiness()


def _check_room(landing: Path) -> None:
    """Write and sync as for a record: only this shows a full disk, a quota, or lacking rights."""
    try:
        landing.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=landing, prefix=".") as file:
            file.write(bytes(_TRIED_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ServiceError(
            503,
            "not_ready",
            f"The landing folder cannot be written: {error.strerror or error}.",
            "Make room on its disk, or see who may write there. evaluation-pipelines doctor helps.",
        ) from None


@ROUTER.get("/metrics", response_class=Response)
def metrics(
    installation: Annotated[Installation, Depends(installation_of)],
    _caller: Annotated[Caller, Depends(unrestricted_caller(Role.READER))],
) -> Response:
    """Return the metrics of the service in the text format of Prometheus."""
    return Response(installation.metrics.text(), media_type=CONTENT_TYPE_LATEST)


_PAGE = Environment(autoescape=True).from_string(
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="icon" href="{{ static_url('icon.svg') }}">
<link rel="stylesheet" href="{{ static_url('pages.css') }}">
<title>API - {{ title }}</title></head><body>
<main class="routes"><p class="small"><a href="/">Overview</a></p>
<h1>API of {{ title }} {{ version }}</h1>
<p>The whole document, for programs: <a href="openapi.json">openapi.json</a>.
Errors have the form <code>{"error": {"code", "message", "help"}}</code>.</p>
{% for route in routes %}<section><h2><code>{{ route.name }}</code></h2>
<p>{% for part in route.text.split("``") %}{% if loop.index0 is odd %}<code>{{ part }}</code>
{%- else %}{{ part }}{% endif %}{% endfor %}</p>
{% if route.parameters %}<dl>{% for parameter in route.parameters %}
<dt><code>{{ parameter.name }}</code> in {{ parameter.in }}{{
  ", required" if parameter.required else "" }}</dt>
{% if parameter.description %}<dd>{{ parameter.description }}</dd>{% endif %}{% endfor %}</dl>
{% endif %}<p class="small muted">
{% for status, meaning in route.statuses %}{{ status }}: {{ meaning }}. {% endfor %}</p>
</section>
{% endfor %}</main></body></html>
"""
)


@ROUTER.get("/api", response_class=HTMLResponse)
def api_page(request: Request) -> str:
    """Show all routes as a page. Needs no key."""
    document = request.app.openapi()
    info = document["info"]
    return _PAGE.render(
        title=info["title"],
        version=info["version"],
        routes=list(_routes(document)),
        static_url=static_url,
    )


@ROUTER.get("/docs", include_in_schema=False)
def docs() -> RedirectResponse:
    """Lead to the page of the API, which many look for here."""
    return RedirectResponse("/api")


def _routes(document: dict[str, Any]) -> Any:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            responses = operation["responses"].items()
            yield {
                "name": f"{method.upper()} {path}",
                "text": operation.get("description", ""),
                "parameters": operation.get("parameters", []),
                "statuses": [
                    (status, response["description"]) for status, response in sorted(responses)
                ],
            }
