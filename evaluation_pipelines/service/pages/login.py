"""Login with a key, logout, and errors as pages.

The envelope of an error becomes a page if a browser asks.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.service.caller import KEY_COOKIE, identify
from evaluation_pipelines.service.installation import installation_of
from evaluation_pipelines.service.limits import Limits
from evaluation_pipelines.service.pages.rendering import Fields, Frame, render

ROUTER = APIRouter(include_in_schema=False)

_SECONDS = 7 * 24 * 3600


@ROUTER.get("/login")
def login_page(request: Request) -> Response:
    """Show the form for a key; without keys there is nothing to log in to.

    Raises:
        ServiceError: 401, there are no keys, and the request is not of this machine.
    """
    target = _own_path(request.query_params.get("next"))
    if not installation_of(request).keys.has_keys():
        identify(request)
        return RedirectResponse(target, 303)
    return render(Frame(request), "login", {"target": target, "fault": None})


@ROUTER.post("/login")
def login(request: Request, fields: Fields) -> Response:
    """Remember an accepted key in a cookie that scripts cannot read."""
    target, text = _own_path(fields.get("next")), fields.get("key", "").strip()
    caller = installation_of(request).keys.caller(text)
    if caller is None:
        limits: Limits = request.app.state.limits
        limits.check_wrong_key(request.scope["client_address"])
    if caller is None or not caller.role.includes(Role.READER):
        fault = "This key is unknown, expired or revoked."
        if caller is not None:
            fault = "This key only writes telemetry. Pages require a reader key."
        return render(Frame(request), "login", {"target": target, "fault": fault}, 401)
    answer = RedirectResponse(target, 303)
    answer.set_cookie(
        KEY_COOKIE,
        text,
        max_age=_SECONDS,
        httponly=True,
        samesite="strict",
        secure=_is_encrypted(request),
    )
    return answer


@ROUTER.post("/logout")
def logout(_fields: Fields) -> Response:
    """Forget the key."""
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(KEY_COOKIE, httponly=True, samesite="strict")
    return answer


def _own_path(text: str | None) -> str:
    """Return a path of this service: the first page for anything else, such as another site."""
    is_own = text is not None and text.startswith("/") and text[1:2] not in {"/", "\\"}
    return text if text is not None and is_own and text.isprintable() else "/"


def _is_encrypted(request: Request) -> bool:
    """Return True if the browser speaks TLS, to us or to a proxy: its ``Origin`` says so."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")


LOGIN = "/login"
_UNAUTHORIZED, _FIRST_ERROR = 401, 400

_NOT_FOUND, _NO_PAGE = "Not Found", "There is no such page."
_HELP: Mapping[str, str | None] = {
    "not_found": None,  # the page that lists what there is is linked
    "invalid_request": "Go back and choose again, or open the page without its filters.",
    "ambiguous_agent": "Choose one of these organizations at the top of the page.",
}
"""Code of an error -> what people can do, where the help of programs names routes and fields."""


class ErrorPages:
    """ASGI middleware around everything, refusals of the guard included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; replace an error by a page if the client prefers pages."""
        is_page = scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", "")
        await self._app(scope, receive, _Replaced(scope, send).send if is_page else send)


class _Replaced:
    """An answer that is held back as long as it is an error."""

    def __init__(self, scope: Scope, forward: Send) -> None:
        self._scope, self._forward = scope, forward
        self._start: Message | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_error(message):
            self._start = message
        elif self._start is None:
            await self._forward(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send_page(self._start)

    async def _send_page(self, start: Message) -> None:
        error = json.loads(self._body).get("error")
        if error is None:  # what receivers of telemetry answer has another form
            await self._forward(start)
            await self._forward({"type": "http.response.body", "body": self._body})
            return
        page = _page(self._scope, start["status"], error)
        headers = MutableHeaders(scope=start)
        for name, value in page.headers.items():
            headers[name] = value
        await self._forward({**start, "status": page.status_code})
        await self._forward({"type": "http.response.body", "body": page.body})


def _is_error(start: Message) -> bool:
    kind = Headers(raw=start["headers"]).get("content-type", "")
    return start["status"] >= _FIRST_ERROR and kind == "application/json"


def _page(scope: Scope, status: int, error: dict[str, Any]) -> Response:
    request = HTTPConnection(scope)
    frame = Frame(request, scope.get("caller"))
    # Without keys there is nothing to log in with: that page says so.
    if status == _UNAUTHORIZED and scope["method"] == "GET" and scope["path"] != LOGIN:
        query = request.url.query
        target = f"{frame.path_url}?{query}" if query else frame.path_url
        return RedirectResponse(f"{LOGIN}?next={quote(target, safe='')}", 303)
    content = {
        "status": status,
        "message": _NO_PAGE if error["message"] == _NOT_FOUND else error["message"],
        "help": _HELP.get(error["code"], error["help"]),
        "candidates": scope.get("candidates", ()),
        "pages": [(title, url) for title, url, is_current in frame.navigation if is_current],
    }
    return render(frame, "error", content, status)
