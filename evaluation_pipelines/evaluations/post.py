"""Posting to addresses that people configured, which are secrets: errors never show them."""

import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from time import monotonic

_TIMEOUT_S = 10
_LONGEST_ANSWER = 64 * 1024


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an error: following it would send GET without the body."""

    def redirect_request(self, *_: object) -> None:
        return None


_open = urllib.request.build_opener(_NoRedirects).open


class NotDeliveredError(Exception):
    """An address did not accept a request. The message has the reason, without the address.

    ``status`` is that of the answer, None without one. ``retry_after_s`` is the pause it asked for.
    """

    def __init__(self, reason: str, status: int | None = None, retry_after_s: float = 0) -> None:
        super().__init__(reason)
        self.status, self.retry_after_s = status, retry_after_s


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of an address that accepted something."""

    body: bytes
    media_type: str


def post(url: str, body: bytes, headers: Mapping[str, str], what: str) -> Answer:
    """Post to an HTTP address, and give up after ten seconds.

    Of an answer it reads 64 KiB.

    Args:
        url: The address, whose scheme the settings have checked.
        body: Content of the request.
        headers: With its content type.
        what: Name of the other side, for the error.

    Raises:
        NotDeliveredError: It answered with an error or not at all.
    """
    # Not httpx: its errors contain the URL, which is a secret.
    request = urllib.request.Request(url, body, dict(headers))  # noqa: S310 - see above
    deadline, found = monotonic() + _TIMEOUT_S, bytearray()
    try:
        with _open(request, timeout=_TIMEOUT_S) as answer:
            while (left := _LONGEST_ANSWER - len(found)) and (piece := answer.read1(left)):
                found += piece
                if monotonic() > deadline:
                    raise TimeoutError
            return Answer(bytes(found), answer.headers.get_content_type())
    except urllib.error.HTTPError as error:
        after = error.headers.get("Retry-After", "")
        retry_s = float(after) if after.isdecimal() and len(after) < 7 else 0.0
        reason = f"the {what} answered with {error.code}"
        raise NotDeliveredError(reason, error.code, retry_s) from None
    except (OSError, HTTPException, ValueError) as error:
        # Refused, timed out, closed early, no HTTP at all. Not its text: it may have the URL.
        raise NotDeliveredError(_reason(error)) from None


def _reason(error: BaseException) -> str:
    match error:
        case urllib.error.URLError() if isinstance(error.reason, OSError):
            return f"{type(error.reason).__name__}: {error.reason.strerror or 'no answer'}"
        case OSError() if error.strerror:
            return f"{type(error).__name__}: {error.strerror}"
    return type(error).__name__
