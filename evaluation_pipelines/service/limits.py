"""Limits of requests per second: a token bucket in memory for each key and each address."""

import time
from collections.abc import Callable
from math import ceil
from threading import Lock

from evaluation_pipelines.service.addresses import holder_network, is_loopback
from evaluation_pipelines.service.errors import ServiceError

_MAX_BUCKETS = 10_000
_WRONG_KEYS, _WRONG_KEYS_PER_SECOND = 20, 1


class TokenBuckets:
    """Buckets that hold at most ``burst`` tokens and get ``per_second``; threads may share them.

    The names that ask least recently are forgotten first.
    """

    def __init__(
        self, per_second: float, burst: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second, self._burst, self._monotonic = per_second, burst, monotonic
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and when there were as many
        self._lock = Lock()

    def take(self, name: str) -> float:
        """Take a token and return 0, or without one the seconds until there is one."""
        with self._lock:
            now = self._monotonic()
            tokens, since = self._buckets.pop(name, (self._burst, now))
            tokens = min(self._burst, tokens + (now - since) * self._per_second)
            wait = max(0.0, (1 - tokens) / self._per_second)
            self._buckets[name] = (tokens if wait else tokens - 1, now)
            if len(self._buckets) > _MAX_BUCKETS:
                del self._buckets[next(iter(self._buckets))]
            return wait


class Limits:
    """The limits of one service; ``per_second`` requests are allowed at once, too.

    The addresses of one IPv6 network count as one.
    """

    def __init__(self, per_second: float) -> None:
        self._keys = TokenBuckets(per_second, max(per_second, 1))
        self._addresses = TokenBuckets(per_second, max(per_second, 1))
        self._wrong_keys = TokenBuckets(_WRONG_KEYS_PER_SECOND, _WRONG_KEYS)

    def check_key(self, key_id: str) -> None:
        """Count a request of a key; raise 429 if it sends too many."""
        _check(self._keys.take(key_id), "This key sends too many requests.")

    def address_refusal(self, address: str) -> ServiceError | None:
        """Count a request of an address; return 429 if it sends too many, but for this machine."""
        wait = 0.0 if is_loopback(address) else self._addresses.take(holder_network(address))
        return _too_many(wait, "This address sends too many requests.") if wait else None

    def check_wrong_key(self, address: str) -> None:
        """Count a wrong key; raise 429 if the address has sent too many. Right ones always pass."""
        wait = self._wrong_keys.take(holder_network(address))
        _check(wait, "This address sends too many wrong keys.")


def _check(wait_seconds: float, message: str) -> None:
    if wait_seconds:
        raise _too_many(wait_seconds, message)


def _too_many(wait_seconds: float, message: str) -> ServiceError:
    after = {"Retry-After": str(ceil(wait_seconds))}
    return ServiceError(429, "too_many_requests", message, "Send the request again later.", after)
