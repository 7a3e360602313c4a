"""Style sheet, script and icon of the pages: read once, cached by browsers until they change."""

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response

from evaluation_pipelines.reporting.pages import script, style_sheet
from evaluation_pipelines.service.errors import not_found

ROUTER = APIRouter(include_in_schema=False)

_FOLDER = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    "pages.css": "text/css",
    "pages.js": "text/javascript",
    "reviews.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def static_url(name: str) -> str:
    """Return the URL of a file; another content has another one."""
    return f"/static/{name}?{hashlib.sha256(_content(name)).hexdigest()[:12]}"


@ROUTER.get("/static/{name}")
def static_file(name: str) -> Response:
    """Return a file of the pages. Needs no key."""
    if name not in _MEDIA_TYPES:
        raise not_found("The file")
    kept = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(_content(name), media_type=_MEDIA_TYPES[name], headers=kept)


@cache
def _content(name: str) -> bytes:
    own = (_FOLDER / name).read_bytes()
    common = {"pages.css": style_sheet, "pages.js": script}.get(name)
    return own if common is None else common().encode() + own
