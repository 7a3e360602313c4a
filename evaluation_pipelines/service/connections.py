"""Connections that are open: how many each address may have, and which end when there are more."""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Protocol

from evaluation_pipelines.service.addresses import holder_network, is_trusted

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
