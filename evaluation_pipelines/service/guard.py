"""What every request passes first and every response last.

The ``Host`` and ``Origin`` of a request are checked, with and without keys, as is the request rate
of its address. Responses get headers that restrict browsers. Each is counted and logged, without
query, headers or body.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote, unquote_plus
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evaluation_pipelines.access.domain.keys import has_key
from evaluation_pipelines.service.errors import ServiceError, error_response
from evaluation_pipelines.service.installation import LOG, Installation
from evaluation_pipelines.service.limits import (
    MAX_BODY_BYTES,
    MAX_BODY_SECONDS,
    Limits,
    client_address,
    is_known_host,
    is_same_origin,
    is_trusted,
    limited,
)
from evaluation_pipelines.service.receiver.receiver import media_type_of, refused
from evaluation_pipelines.service.receiver.requests import RECEIVER_PATHS

ACCESS_LOG = logging.getLogger("evaluation_pipelines.service.access")

_CONTENT_SECURITY = (
    b"default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    b"frame-ancestors 'none'"
)
_SECURITY_HEADERS = (
    (b"content-security-policy", _CONTENT_SECURITY),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)
"""Headers added to every response that does not set them, in the form in which they are sent."""

_OTLP_PATHS = RECEIVER_PATHS | {"/health"}
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_MAX_LOGGED_CHARACTERS = 300


class Guard:
    """ASGI middleware around all routes; ``otlp_port`` is one that only receives telemetry."""

    def __init__(
        self, app: ASGIApp, installation: Installation, limits: Limits, otlp_port: int | None
    ) -> None:
        self._app, self._installation = app, installation
        self._limits, self._otlp_port = limits, otlp_port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on; let no error escape without a response."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        # The server leaves the body of a response to HEAD out.
        routed = {**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope
        routed["client_address"] = self._address(scope)
        answer = _Answer(scope, send)
        try:
            if refusal := self._refusal(routed):
                await _refused(refusal, scope)(scope, receive, answer.send)
            else:
                await self._app(routed, _within_limits(routed, receive), answer.send)
        except asyncio.CancelledError:  # by the server, which ends
            if scope["type"] != "http" or answer.status is not None:
                raise
            await _refused(_stopping(scope), scope)(scope, receive, answer.send)
        except Exception:  # noqa: BLE001 - logged; the client gets a number by which the log can be searched
            await self._answer_failure(scope, receive, answer)
        finally:
            self._record(routed, answer, scope.get("method", "WEBSOCKET"))

    def _refusal(self, scope: Scope) -> ServiceError | None:
        if self._is_elsewhere(scope):
            return ServiceError(404, "not_found", "This port only receives telemetry.")
        if too_many := self._limits.address_refusal(scope["client_address"]):
            return too_many
        hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
        host = hosts[0] if hosts else ""
        if len(hosts) > 1:
            return ServiceError(400, "invalid_request", "The request has several Host headers.")
        if not is_known_host(host, self._installation.settings.service_hosts):
            return ServiceError(
                403,
                "unknown_host",
                "The service does not answer to the name in the Host header.",
                "Use its IP address or localhost, or add the name to EVAL_SERVICE_HOSTS.",
            )
        if scope["query_string"] and has_key(unquote_plus(scope["query_string"].decode("latin-1"))):
            return ServiceError(
                400,
                "key_in_query",
                "The URL contains a key, and URLs end up in logs.",
                "Send Authorization: Bearer KEY, or log in at /login. Make another key, and revoke "
                "this one: evaluation-pipelines keys revoke NAME.",
            )
        changes = scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS
        if changes and origins and not is_same_origin(origins[0], host):
            return ServiceError(
                403,
                "foreign_origin",
                "A page of another site may not change anything here.",
                "Send the request from a page of the service, or without a browser.",
            )
        return None

    def _address(self, scope: Scope) -> str:
        """Return who sends a request, as far as trusted proxies know."""
        peer = scope["client"][0] if scope.get("client") else ""
        proxies = self._installation.settings.trusted_proxies
        if not is_trusted(peer, proxies):
            return peer
        return client_address(peer, Headers(scope=scope).get("x-forwarded-for"), proxies)

    def _is_elsewhere(self, scope: Scope) -> bool:
        """Return True if the port of the request has no such route."""
        port = scope["server"][1] if scope.get("server") else None
        return port is not None and port == self._otlp_port and scope["path"] not in _OTLP_PATHS

    async def _answer_failure(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        number = uuid4().hex[:12]
        LOG.exception("error %s", number)
        if answer.status is None and scope["type"] == "http":
            failure = ServiceError(
                500,
                "internal_error",
                f"The service failed. Its log has the reason as error {number}.",
                "Try again. If it fails again, give the operator of the service the number.",
            )
            await error_response(failure)(scope, receive, answer.send)

    def _record(self, scope: Scope, answer: "_Answer", method: str) -> None:
        seconds, status = time.perf_counter() - answer.began, answer.status or 0
        routine = scope.get("routine")  # the path of what agents do every few seconds
        route = routine or getattr(scope.get("route"), "path", "other")
        metrics = self._installation.metrics
        metrics.requests(method if route != "other" else "other", route, status).inc()
        if scope["type"] == "http":
            metrics.seconds(route).observe(seconds)
        caller = scope.get("caller")
        level = logging.DEBUG if routine and status < HTTPStatus.BAD_REQUEST else logging.INFO
        if not ACCESS_LOG.isEnabledFor(level):
            return  # skip formatting: agents send all the time
        ACCESS_LOG.log(
            level,
            "%s %s %s %s %d %d bytes %.1f ms",
            scope["client_address"] or "-",
            quote(caller.name) if caller else "-",
            method if method.isalpha() else "?",
            quote(scope["path"])[:_MAX_LOGGED_CHARACTERS],
            status,
            answer.sent_bytes,
            seconds * 1000,
        )


def _stopping(scope: Scope) -> ServiceError:
    """Return the answer to a request that the end of the service cuts off.

    Programs repeat it by themselves after ``Retry-After``: only if nothing can be done twice.
    """
    said = "The service stopped before it could answer."
    if scope["method"] in _SAFE_METHODS or scope["path"] in RECEIVER_PATHS:
        return ServiceError(503, "stopping", said, "Send the request again.", {"Retry-After": "1"})
    return ServiceError(
        503,
        "stopping",
        f"{said} The request may have been carried out.",
        "Check whether it was before you send it again.",
    )


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for header, value in scope["headers"] if header == name]


def _refused(error: ServiceError, scope: Scope) -> Response:
    """Return a refusal in the form of its route."""
    if scope["path"] not in RECEIVER_PATHS:
        return error_response(error)
    return refused(error, media_type_of(Headers(scope=scope)))


def _within_limits(scope: Scope, receive: Receive) -> Receive:
    if scope["type"] != "http" or scope["path"] in RECEIVER_PATHS:
        return receive
    return limited(receive, MAX_BODY_BYTES, MAX_BODY_SECONDS)


@dataclass(slots=True)
class _Answer:
    """A response as it is sent: its status and size, and the headers of every response."""

    scope: Scope
    forward: Send
    began: float = field(default_factory=time.perf_counter)
    status: int | None = None
    sent_bytes: int = 0

    async def send(self, message: Message) -> None:
        match message["type"]:
            case "http.response.start" | "websocket.http.response.start":
                self.status = message["status"]
                given = {name for name, _ in message["headers"]}
                added = [header for header in _SECURITY_HEADERS if header[0] not in given]
                message = {**message, "headers": [*message["headers"], *added]}
            case "http.response.body":
                self.sent_bytes += len(message.get("body", b""))
            case "websocket.accept":
                self.status = 101
            case "websocket.close":
                self.status = self.status or 403
        await self.forward(message)
