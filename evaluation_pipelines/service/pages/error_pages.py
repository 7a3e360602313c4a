"""Errors for people: the envelope of an error becomes a page where a browser asks."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evaluation_pipelines.service.pages.rendering import Frame, render

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
