"""Log in with a key, and log out."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

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
