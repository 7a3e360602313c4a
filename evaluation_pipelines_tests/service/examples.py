"""An example request for every route: for the document of the API, and for the walk over all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import iter_route_contexts
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines_tests.service.answers import A1, C1, path_of

_SPAN = {"from": "2026-06-01T00:00:00Z", "to": "2026-07-01T00:00:00Z"}
_SPAN_QUERY = "from=2026-06-01T00:00:00Z&to=2026-07-01T00:00:00Z"
_OVERRIDE = {"annotator": "Ann Lee", "reason": "The plan was not found."}
_PROFILE = {
    "id": "few-calls",
    "name": "Few calls",
    "matchLabels": ["simple"],
    "criteria": [{"id": "tool_count"}],
}


@dataclass(frozen=True)
class Example:
    """A request to a route.

    Attributes:
        route: Method and path of the route.
        url: Path and query of the request.
        body: JSON of the request; ``None`` without.
        role: The role that it needs; ``None`` without a key.
        of_all: It needs a key of all organizations.
        names_session: It names a session of acme, so that others get 404.
    """

    route: str
    url: str
    body: Any = None
    role: Role | None = Role.READER
    of_all: bool = False
    names_session: bool = False

    def send(self, client: TestClient) -> Any:
        """Send it; return the response."""
        return client.request(self.route.partition(" ")[0], self.url, json=self.body)


def _get(path: str, url: str, role: Role | None = Role.READER, **more: Any) -> Example:
    return Example(f"GET {path}", url, None, role, **more)


def _call(name: str, role: Role = Role.READER, **more: Any) -> Example:
    params, of_all = more.pop("params", {}), more.pop("of_all", False)
    body = {"method": f"evaluation.{name}", "params": params}
    url = "/api/v1/gateway"
    return Example(f"POST {url}", url, body, role, of_all, names_session="runId" in params)


def _otlp(signal: str, resources: str, **content: Any) -> Example:
    owner = {"key": "organization.id", "value": {"stringValue": "acme"}}
    body = {resources: [{"resource": {"attributes": [owner]}, **content}]}
    return Example(f"POST /v1/{signal}", f"/v1/{signal}", body, Role.INGEST)


_PROMPT = {
    "timeUnixNano": "1780315200000000000",
    "body": {"stringValue": "claude_code.user_prompt"},
    "attributes": [{"key": "session.id", "value": {"stringValue": "sent-1"}}],
}

_LINE = {
    "type": "user",
    "sessionId": "sent-2",
    "uuid": "u1",
    "timestamp": "2026-06-01T12:00:00Z",
    "message": {"role": "user", "content": "hi"},
}

EXAMPLES = (
    _get("/health", "/health", None),
    _get("/ready", "/ready", None),
    _get("/api", "/api", None),
    _get("/metrics", "/metrics", of_all=True),
    _otlp("logs", "resourceLogs", scopeLogs=[{"logRecords": [_PROMPT]}]),
    _otlp("traces", "resourceSpans", scopeSpans=[]),
    _otlp("metrics", "resourceMetrics", scopeMetrics=[]),
    Example("POST /v1/transcripts", "/v1/transcripts", _LINE, Role.INGEST),
    _call("scorecards.query", params={"runId": "a1"}),
    _call(
        "scorecards.override",
        Role.REVIEWER,
        params={"runId": "a1", "overrideScore": 40, **_OVERRIDE},
    ),
    _call("judges.list"),
    _call("judges.set", Role.OPERATOR, params=_PROFILE, of_all=True),
    _call("model_comparison", params={"classificationLabel": "simple", **_SPAN}),
    _call("tool_report", params={"runId": A1}),
    Example(
        "POST /api/v1/scoring/sessions/{session_id}/score",
        f"/api/v1/scoring/sessions/{path_of(C1)}/score",
        {"force_rescore": False},
        Role.OPERATOR,
        names_session=True,
    ),
    _get(
        "/api/v1/scoring/sessions/{session_id}/score",
        f"/api/v1/scoring/sessions/{path_of(C1)}/score",
        names_session=True,
    ),
    Example(
        "POST /v1/evaluate",
        "/v1/evaluate",
        {"agent_id": "scout", "passed": True, "evaluation_id": "run-1", "latency_ms": 40},
        Role.INGEST,
    ),
    Example(
        "POST /api/v1/outcomes",
        "/api/v1/outcomes",
        {"session_id": "s-1", "kind": "merged", "value": True, "reference": "pull/12"},
        Role.INGEST,
    ),
    _get("/v1/reputation/{agent_id}", "/v1/reputation/scout"),
    _get("/api/v1/sessions", f"/api/v1/sessions?limit=1&{_SPAN_QUERY}"),
    _get("/api/v1/sessions/{session}", f"/api/v1/sessions/{path_of(A1)}", names_session=True),
    _get(
        "/api/v1/sessions/{session}/transcript",
        f"/api/v1/sessions/{path_of(A1)}/transcript",
        Role.REVIEWER,
        names_session=True,
    ),
    Example(
        "POST /api/v1/sessions/{session}/override",
        f"/api/v1/sessions/{path_of(A1)}/override",
        {"score": 40, **_OVERRIDE},
        Role.REVIEWER,
        names_session=True,
    ),
    _get("/api/v1/scorecards", f"/api/v1/scorecards?limit=1&{_SPAN_QUERY}"),
    _get("/api/v1/tables/{name}.arrow", "/api/v1/tables/sessions.arrow"),
    _get("/api/v1/profiles", "/api/v1/profiles"),
    _get("/api/v1/comparison", f"/api/v1/comparison?{_SPAN_QUERY}"),
    _get("/api/v1/tools/{session}", f"/api/v1/tools/{path_of(A1)}", names_session=True),
    _get("/api/v1/books/{session_date}", "/api/v1/books/2026-06-01?limit=1"),
    _get("/api/v1/evaluation-events", "/api/v1/evaluation-events?limit=1"),
    _get("/api/v1/alerts", "/api/v1/alerts", of_all=True),
)


EVENTS = "WEBSOCKET /api/v1/events"
NOT_DESCRIBED = frozenset({"GET /docs", "GET /openapi.json", EVENTS})
"""Routes that the OpenAPI document does not have."""

_RPC_CODES = {16: "no_key", 7: "role_lacking"}


def code_of(response: Any) -> str:
    """Return the code of an error; those of OTLP are numbers of gRPC."""
    body = response.json()
    return str(body["error"]["code"]) if "error" in body else _RPC_CODES[body["code"]]


def route_table(app: FastAPI | APIRouter) -> Iterator[str]:
    """Yield method and path of all routes of an application or router, whether described or not."""
    for route in iter_route_contexts(app.routes):
        methods = getattr(route, "methods", None) or {"WEBSOCKET"}
        yield from (f"{method} {route.path_format}" for method in methods - {"HEAD"})


def routes_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the operations of an OpenAPI document by method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
