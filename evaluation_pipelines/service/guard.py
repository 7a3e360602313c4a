"""What every request passes first and every answer last.

The ``Host`` and ``Origin`` of a request are checked, with and without keys; answers get headers
that restrict browsers; each is counted and logged, without query, headers or body.
"""

import logging
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evaluation_pipelines.service.addresses import client_address, is_known_host, is_same_origin
from evaluation_pipelines.service.body_limit import MAX_BODY_BYTES, MAX_BODY_SECONDS, limited
from evaluation_pipelines.service.errors import ServiceError, error_response
from evaluation_pipelines.service.installation import LOG, Installation
from evaluation_pipelines.service.receiver.requests import RECEIVER_PATHS

ACCESS_LOG = logging.getLogger("evaluation_pipelines.service.access")

_SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_MAX_LOGGED_CHARACTERS = 300


class Guard:
    """ASGI middleware around all routes."""

    def __init__(self, app: ASGIApp, installation: Installation) -> None:
        self._app, self._installation = app, installation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on; let no error escape without an answer."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send)
        try:
            if refusal := self._refusal(scope):
                await error_response(refusal)(scope, receive, answer.send)
            else:
                await self._app(scope, _within_limits(scope, receive), answer.send)
        except Exception:  # noqa: BLE001 - logged; the client gets a number by which the log can be searched
            await self._answer_failure(scope, receive, answer)
        finally:
            self._record(scope, answer)

    def _refusal(self, scope: Scope) -> ServiceError | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if len(headers.getlist("host")) > 1:
            return ServiceError(400, "invalid_request", "The request has several Host headers.")
        if not is_known_host(host, self._installation.settings.service_hosts):
            return ServiceError(
                403,
                "unknown_host",
                "The service is not known under the name in the Host header.",
                "Use its IP address or localhost, or add the name to EVAL_SERVICE_HOSTS.",
            )
        changes = scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS
        if changes and origin is not None and not is_same_origin(origin, host):
            return ServiceError(
                403,
                "foreign_origin",
                "A page of another site may not change anything here.",
                "Send the request from a page of the service, or without a browser.",
            )
        return None

    async def _answer_failure(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        number = uuid4().hex[:12]
        LOG.exception("error %s", number)
        if answer.status is None and scope["type"] == "http":
            failure = ServiceError(
                500,
                "internal_error",
                f"The service failed; its log has the reason as error {number}.",
                "Try again. If it fails again, tell whoever runs the service the number.",
            )
            await error_response(failure)(scope, receive, answer.send)

    def _record(self, scope: Scope, answer: "_Answer") -> None:
        seconds = time.perf_counter() - answer.began
        status, method = answer.status or 0, scope.get("method", "WEBSOCKET")
        routine = scope.get("routine")  # the path of what agents do every few seconds
        route = routine or getattr(scope.get("route"), "path", "other")
        metrics = self._installation.metrics
        metrics.requests.labels(method if route != "other" else "other", route, status).inc()
        if scope["type"] == "http":
            metrics.seconds.labels(route).observe(seconds)
        caller = scope.get("caller")
        peer = scope["client"][0] if scope.get("client") else "-"
        ACCESS_LOG.log(
            logging.DEBUG if routine and status < HTTPStatus.BAD_REQUEST else logging.INFO,
            "%s %s %s %s %d %d bytes %.1f ms",
            client_address(
                peer,
                Headers(scope=scope).get("x-forwarded-for"),
                self._installation.settings.trusted_proxies,
            ),
            quote(caller.name) if caller else "-",
            method if method.isalpha() else "?",
            quote(scope["path"])[:_MAX_LOGGED_CHARACTERS],
            status,
            answer.sent_bytes,
            seconds * 1000,
        )


def _within_limits(scope: Scope, receive: Receive) -> Receive:
    if scope["type"] != "http" or scope["path"] in RECEIVER_PATHS:
        return receive
    return limited(receive, MAX_BODY_BYTES, MAX_BODY_SECONDS)


@dataclass(slots=True)
class _Answer:
    """An answer as it is sent: its status and size, and the headers of every answer."""

    scope: Scope
    forward: Send
    began: float = field(default_factory=time.perf_counter)
    status: int | None = None
    sent_bytes: int = 0

    async def send(self, message: Message) -> None:
        match message["type"]:
            case "http.response.start" | "websocket.http.response.start":
                self.status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            case "http.response.body":
                self.sent_bytes += len(message.get("body", b""))
            case "websocket.accept":
                self.status = 101
            case "websocket.close":
                self.status = self.status or 403
        await self.forward(message)
