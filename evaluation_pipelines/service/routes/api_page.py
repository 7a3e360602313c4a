"""Page of the API for people: every route, from the OpenAPI document, without scripts."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment

from evaluation_pipelines.service.pages.static_files import static_url

ROUTER = APIRouter(tags=["operation"])

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
<p>{% for part in route.text.split("``") %}{% if loop.index0 % 2 %}<code>{{ part }}</code>
{%- else %}{{ part }}{% endif %}{% endfor %}</p>
{% if route.parameters %}<dl>{% for each in route.parameters %}
<dt><code>{{ each.name }}</code> in {{ each.in }}{{ ", required" if each.required else "" }}</dt>
{% if each.description %}<dd>{{ each.description }}</dd>{% endif %}{% endfor %}</dl>
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
                "statuses": [(status, each["description"]) for status, each in sorted(responses)],
            }
