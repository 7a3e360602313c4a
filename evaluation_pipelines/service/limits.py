"""Limits of requests by their sender: rates, bodies, open connections, addresses.

A request asks several times which names lead here and who is behind a proxy, mostly for the same
few clients: answers are cached. Others choose the texts, so what is too long to be an address or a
name takes no memory in a cache.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from math import ceil
from threading import Lock
from typing import Protocol

from starlette.types import Message, Receive

from evaluation_pipelines.service.errors import ServiceError

SECONDS_TO_STOP = 3
"""Seconds in which requests are still answered after the signal to stop."""

_LOCAL_NAME = "localhost"
_MAX_ADDRESS_CHARACTERS = 64
_CACHED = 1024
_HOLDER_BITS = 64
_HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\s:/?#@\[\]\\]+))(:[0-9]{0,5})?")
"""A ``Host`` header in lower case: an IPv6 address or a name, and a port, without a user."""


def is_loopback(host: str) -> bool:
    """Return True if a host is this machine and no other can reach it."""
    return is_trusted(host, ("127.0.0.0/8", "::1/128")) or host == _LOCAL_NAME


def is_known_host(header: str, names: Iterable[str]) -> bool:
    """Return True if a ``Host`` header names this service.

    An IP address always does: a page of another site can only come here by a name of its own.
    """
    parts = _HOST.fullmatch(header.lower())
    if parts is None:
        return False
    if parts["address"] is not None:
        return _parsed(parts["address"]) is not None
    host = parts["name"]
    is_address = _parsed(host) is not None
    return is_address or host == _LOCAL_NAME or host in {name.lower() for name in names}


def is_same_origin(origin: str, host_header: str) -> bool:
    """Return True if a page of ``origin`` came from the host and port of ``host_header``.

    The scheme may differ: a proxy may speak TLS for us.
    """
    scheme, separator, authority = origin.lower().partition("://")
    return (
        bool(separator)
        and scheme in ("http", "https")
        and _without_default_port(authority) == _without_default_port(host_header.lower())
    )


def client_address(peer: str, forwarded_for: str | None, proxies: Iterable[str]) -> str:
    """Return who sent a request: ``peer``, or whom trusted proxies say they passed it on for.

    The header grows to the right; the last address that is no trusted proxy counts.
    """
    trusted = tuple(proxies)
    hops = [hop.strip() for hop in (forwarded_for or "").split(",") if hop.strip()]
    address = peer
    while is_trusted(address, trusted) and hops and _parsed(hops[-1]) is not None:
        address = hops.pop()
    return address


def holder_network(address: str) -> str:
    """Return what one holder has of addresses: the /64 network of an IPv6 one, an IPv4 one itself.

    What is no address is returned as it is.
    """
    parsed = _parsed(address)
    if parsed is None:
        return address
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    return str(ip_network((parsed.packed, _HOLDER_BITS), strict=False))


def is_trusted(address: str, proxies: Iterable[str]) -> bool:
    """Return True if an address is one of the trusted proxies."""
    parsed = _parsed(address)
    return parsed is not None and any(parsed in _network(proxy) for proxy in proxies)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    return _address(text) if len(text) <= _MAX_ADDRESS_CHARACTERS else None


@lru_cache(_CACHED)
def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


@lru_cache(_CACHED)
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text)


def _without_default_port(authority: str) -> str:
    return authority.removesuffix(":443").removesuffix(":80")


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


MAX_BODY_BYTES = 1024 * 1024
MAX_BODY_SECONDS = 30.0


def limited(receive: Receive, max_bytes: int, seconds: float) -> Receive:
    """Return a function that receives a body of at most ``max_bytes`` within ``seconds``.

    It raises ServiceError 413 or 408. What follows the body, a disconnect, is waited for forever.
    """
    end: float | None = None
    left, is_complete = max_bytes, False

    async def receive_within_limits() -> Message:
        nonlocal end, left, is_complete
        if is_complete:
            return await receive()
        now = asyncio.get_running_loop().time()
        end = now + seconds if end is None else end
        try:
            message = await asyncio.wait_for(receive(), max(end - now, 0))
        except TimeoutError:
            reason = f"The body did not arrive within {seconds:g} seconds."
            raise ServiceError(408, "too_slow", reason, None, {"Connection": "close"}) from None
        left -= len(message.get("body", b""))
        if left < 0:
            reason = f"A body may have {max_bytes} bytes."
            # The server reads on without keeping anything: a connection that ends while a client
            # writes is an error for it, and it would never see the reason.
            raise ServiceError(413, "too_large", reason)
        is_complete = not message.get("more_body", False)
        return message

    return receive_within_limits


MAX_CONNECTIONS = 2000
MAX_OF_ADDRESS = 500


class Connection(Hashable, Protocol):
    """One that can be ended."""

    def end(self) -> None:
        """End it."""


class Connections:
    """Open connections of one event loop.

    One that waits for a request costs nothing and may be ended at any time, as HTTP allows: beyond
    a limit the one that has waited longest makes room. Trusted proxies speak for many addresses and
    may have as many as all together.
    """

    def __init__(
        self,
        trusted_proxies: Iterable[str] = (),
        limit: int = MAX_CONNECTIONS,
        limit_of_address: int = MAX_OF_ADDRESS,
    ) -> None:
        self._trusted_proxies = tuple(trusted_proxies)
        self._limit, self._limit_of_address = limit, limit_of_address
        self._holders: dict[Connection, str] = {}
        self._open = Counter[str]()
        # The ones that wait, in the order in which they began to; all, and those of each holder.
        self._waiting: dict[Connection, None] = {}
        self._waiting_of: dict[str, dict[Connection, None]] = {}

    def admit(self, connection: Connection, address: str) -> bool:
        """Count a new connection that waits; return False if all others are at work."""
        holder = holder_network(address)
        limit = (
            self._limit if is_trusted(address, self._trusted_proxies) else self._limit_of_address
        )
        is_free = self._open[holder] < limit or self._end_one(self._waiting_of.get(holder, {}))
        is_free = is_free and (len(self._holders) < self._limit or self._end_one(self._waiting))
        if is_free:
            self._holders[connection] = holder
            self._open[holder] += 1
            self.waits(connection)
        return is_free

    def waits(self, connection: Connection) -> None:
        """Note that a connection waits for a request."""
        if connection in self._holders:
            self._waiting[connection] = None
            self._waiting_of.setdefault(self._holders[connection], {})[connection] = None

    def works(self, connection: Connection) -> None:
        """Note that a connection has a request under way."""
        self._waiting.pop(connection, None)
        if holder := self._holders.get(connection):
            self._waiting_of.get(holder, {}).pop(connection, None)

    def left(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self.works(connection)
        holder = self._holders.pop(connection, None)
        if holder is None:
            return
        self._open[holder] -= 1
        if not self._open[holder]:
            del self._open[holder]
            self._waiting_of.pop(holder, None)

    def _end_one(self, waiting: dict[Connection, None]) -> bool:
        longest = next(iter(waiting), None)
        if longest is None:
            return False
        self.left(longest)
        longest.end()
        return True
