"""Memory that requests hold while they are received: limited for each caller, and for all."""

from typing import Self

from evaluation_pipelines.service.errors import ServiceError

_LEAST_BYTES = 64 * 1024
"""What a request counts at least, so that many small ones are limited, too."""

_SHARE_OF_CALLER = 4
_RETRY_SECONDS = "2"


class InFlight:
    """Bytes of requests under way; one caller may hold a quarter of ``max_bytes``."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._of_caller: dict[str, int] = {}
        self.total_bytes = 0

    def claim(self, caller: str) -> "Claim":
        """Return the claim of a new request.

        Raises:
            ServiceError: 429 or 503, as ``Claim.grow`` does.
        """
        claim = Claim(self, caller)
        claim.grow(_LEAST_BYTES)
        return claim

    def add(self, caller: str, size_bytes: int) -> None:
        """Count bytes; negative ones are given back.

        Raises:
            ServiceError: 429, the caller holds too many; 503, all together do.
        """
        of_caller, total = (
            self._of_caller.get(caller, 0) + size_bytes,
            self.total_bytes + size_bytes,
        )
        if size_bytes > 0 and of_caller > self._max_bytes // _SHARE_OF_CALLER:
            raise _too_much(429, "too_many_requests", "This key or address sends")
        if size_bytes > 0 and total > self._max_bytes:
            raise _too_much(503, "overloaded", "All clients together send")
        self.total_bytes = total
        if of_caller:
            self._of_caller[caller] = of_caller
        else:
            self._of_caller.pop(caller, None)


class Claim:
    """What one request holds. Use it in a ``with`` block, which gives it back."""

    def __init__(self, in_flight: InFlight, caller: str) -> None:
        self._in_flight, self._caller, self._size_bytes = in_flight, caller, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Give all of it back."""
        self._in_flight.add(self._caller, -self._size_bytes)

    def grow(self, size_bytes: int) -> None:
        """Hold more.

        Raises:
            ServiceError: 429 or 503, too much is under way; the claim is as before.
        """
        self._in_flight.add(self._caller, size_bytes)
        self._size_bytes += size_bytes


def _too_much(status: int, code: str, who: str) -> ServiceError:
    return ServiceError(
        status,
        code,
        f"{who} more at once than can be taken.",
        "Send the request again later.",
        {"Retry-After": _RETRY_SECONDS},
    )
