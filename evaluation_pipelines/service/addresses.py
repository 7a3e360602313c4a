"""Addresses: which names lead here, which sites may ask, who is behind a proxy.

Every request asks several times, mostly for the same few clients: answers are cached. Others choose
the texts, so what is too long to be an address or a name takes no memory in a cache.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_LOCAL_NAME = "localhost"
_MAX_ADDRESS_CHARACTERS = 64
_MAX_HOST_CHARACTERS = 300  # a name has at most 253, then comes the port
_CACHED = 1024
_HOLDER_BITS = 64
_HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\s:/?#@\[\]\\]+))(:[0-9]{0,5})?")
"""A ``Host`` header in lower case: an IPv6 address or a name, and a port, without a user."""


def is_loopback(host: str) -> bool:
    """Return True if a host is this machine and no other can reach it."""
    return _is_in(host, ("127.0.0.0/8", "::1/128")) or host == _LOCAL_NAME


def is_known_host(header: str, names: Iterable[str]) -> bool:
    """Return True if a ``Host`` header names this service.

    An IP address always does: a page of another site can only come here by a name of its own.
    """
    return len(header) <= _MAX_HOST_CHARACTERS and _is_known(header, tuple(names))


@lru_cache(_CACHED)
def _is_known(header: str, names: tuple[str, ...]) -> bool:
    parts = _HOST.fullmatch(header.lower())
    if parts is None:
        return False
    if parts["address"] is not None:
        return _is_address(parts["address"])
    host = parts["name"]
    return _is_address(host) or host == _LOCAL_NAME or host in {name.lower() for name in names}


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
    while _is_in(address, trusted) and hops and _is_address(hops[-1]):
        address = hops.pop()
    return address


def holder_network(address: str) -> str:
    """Return what one holder has of addresses: the /64 network of an IPv6 one, an IPv4 one itself.

    What is no address is returned as it is.
    """
    return _network_of(address) if len(address) <= _MAX_ADDRESS_CHARACTERS else address


@lru_cache(_CACHED)
def _network_of(address: str) -> str:
    parsed = _parsed(address)
    if parsed is None:
        return address
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    return str(ip_network((parsed.packed, _HOLDER_BITS), strict=False))


def is_trusted(address: str, proxies: Iterable[str]) -> bool:
    """Return True if an address is one of the trusted proxies."""
    return _is_in(address, proxies)


def _is_in(address: str, networks: Iterable[str]) -> bool:
    return len(address) <= _MAX_ADDRESS_CHARACTERS and _is_in_any(address, tuple(networks))


@lru_cache(_CACHED)
def _is_in_any(address: str, networks: tuple[str, ...]) -> bool:
    parsed = _parsed(address)
    return parsed is not None and any(parsed in ip_network(each) for each in networks)


def _is_address(text: str) -> bool:
    return len(text) <= _MAX_ADDRESS_CHARACTERS and _parsed(text) is not None


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


def _without_default_port(authority: str) -> str:
    return authority.removesuffix(":443").removesuffix(":80")
