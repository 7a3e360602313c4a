"""Forms of the pages: their fields, and the token that shows that a page of ours sent them."""

import hmac
import secrets
from typing import Annotated, TypeAlias
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from evaluation_pipelines.service.caller import KEY_COOKIE
from evaluation_pipelines.service.errors import ServiceError

TOKEN_FIELD = "form_token"  # noqa: S105 - the name of the field

_MAX_FIELDS = 50
_OF_PROCESS = secrets.token_hex(32)
"""Secret behind the tokens of whoever has not logged in."""


def form_token(connection: HTTPConnection) -> str:
    """Return the token of the forms of one browser: only who knows its cookie can make it."""
    secret = connection.cookies.get(KEY_COOKIE) or _OF_PROCESS
    return hmac.digest(secret.encode(), TOKEN_FIELD.encode(), "sha256").hex()


async def sent_fields(request: Request) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        ServiceError: 400, it is no form; 403, no page of ours sent it.
    """
    try:
        text = (await request.body()).decode()
        fields = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
    except ValueError as error:
        raise ServiceError(400, "invalid_request", "The form cannot be read.") from error
    if not hmac.compare_digest(fields.pop(TOKEN_FIELD, "").encode(), form_token(request).encode()):
        raise ServiceError(
            403,
            "form_expired",
            "This page is from before a restart of the service, or of another login.",
            "Go back, load the page again and send the form again.",
        )
    return fields


Fields: TypeAlias = Annotated[dict[str, str], Depends(sent_fields)]
