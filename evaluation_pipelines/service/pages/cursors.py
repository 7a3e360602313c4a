"""Cursors of lists of sessions: the key of the last row of a page."""

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

from evaluation_pipelines.service.errors import ServiceError
from evaluation_pipelines.service.pages.domain.session_lines import WindowKey


def cursor_of(key: WindowKey) -> str:
    """Return the cursor of the page that follows a row."""
    return urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def key_of(cursor: str | None) -> WindowKey | None:
    """Return the key of the row before a page; ``None`` for the first page.

    Raises:
        ServiceError: 400, it is no cursor.
    """
    if not cursor:
        return None
    try:
        organization, key = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, binascii.Error) as error:
        raise list_changed() from error
    return str(organization), str(key)


def list_changed() -> ServiceError:
    """Return the answer for a cursor whose row is not in the list."""
    return ServiceError(
        400, "invalid_cursor", "The list has changed meanwhile.", "Begin with its first page."
    )
