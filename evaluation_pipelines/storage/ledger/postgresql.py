"""How long a connection to PostgreSQL waits for a server that does not answer.

The limits of the server itself end a slow statement; a server that has stopped answering ends
nothing, so the client stops waiting, too. Where people wait for answers, a server that is away is
an error soon, and one request in some seconds tries it again.
"""

import math
import select
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa

NO_ANSWER = "it has not answered for some time"
_TRY_AGAIN_S = 3.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for a connection (two are the least that libpq takes), and for a statement."""

    connect_s: int
    statement_s: float
    patience_s: float
    """Seconds after which the client stops waiting: the limit of the server comes first."""

    @property
    def options(self) -> str:
        """Options of the server."""
        return f"-c statement_timeout={self.statement_s * 1000:.0f}"

    @property
    def connect_options(self) -> dict[str, str]:
        """Options of the client library; a dead machine is noticed by its network."""
        values = {
            "connect_timeout": self.connect_s,
            "tcp_user_timeout": round(self.patience_s * 1000),
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
        }
        return {name: str(value) for name, value in values.items()}


SERVED = Limits(2, 3.0, 3.5)
"""While people wait for answers."""


def limit_waiting(engine: sa.Engine, limits: Limits) -> None:
    """Make connections wait no longer than the limits say."""
    is_served = limits is SERVED
    away = _Away()
    make = _psycopg if engine.dialect.driver == "psycopg" else _psycopg2
    connect = make(away, limits)

    def do_connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        error = engine.dialect.loaded_dbapi.OperationalError
        if is_served and away.is_noted():
            raise error(NO_ANSWER)
        try:
            connection = connect(*arguments, **options)
        except error:
            away.note()
            raise
        away.until = 0.0
        return connection

    sa.event.listen(engine, "do_connect", do_connect)


def wait_for_ever(connection: sa.Connection) -> None:
    """Set no limit to the next statements of a connection, which is closed afterwards."""
    cast(Any, connection.connection.driver_connection).patience_s = math.inf
    connection.detach()
    connection.exec_driver_sql("SET statement_timeout = 0")


class _Away:
    """Until when a server is not tried; threads may share one."""

    until = 0.0

    def note(self) -> None:
        self.until = time.monotonic() + _TRY_AGAIN_S

    def is_noted(self) -> bool:
        """Return True if the server is away; the process that tries it makes others wait."""
        if self.until and time.monotonic() > self.until:
            self.note()
            return False
        return bool(self.until)


def _psycopg(away: _Away, limits: Limits) -> Any:
    import psycopg  # an extra

    class LimitedConnection(psycopg.Connection[Any]):
        patience_s = limits.patience_s

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            return super().wait(self._limited(gen), *arguments, **options)

        def _limited(self, steps: Any) -> Generator[Any, Any, Any]:
            """Pass a generator of the driver on, which gets 0 each time nothing has arrived."""
            end = time.monotonic() + self.patience_s
            try:
                wanted = next(steps)
                while True:
                    ready = yield wanted
                    if ready:
                        end = time.monotonic() + self.patience_s
                    elif time.monotonic() > end:
                        away.note()
                        self.pgconn.finish()
                        raise psycopg.OperationalError(NO_ANSWER)
                    wanted = steps.send(ready)
            except StopIteration as done:
                return done.value

    return LimitedConnection.connect


def _psycopg2(away: _Away, limits: Limits) -> Any:
    import psycopg2  # type: ignore[import-untyped]  # an extra
    from psycopg2 import extensions

    class LimitedConnection(extensions.connection):  # type: ignore[misc] # it has no types
        patience_s = float(limits.connect_s)  # here the driver leaves its own limit to the waiting

        def give_up(self) -> None:
            away.note()  # the driver closes the connection, and holds its lock here
            raise psycopg2.OperationalError(NO_ANSWER)

    def connect(*arguments: Any, **options: Any) -> Any:
        connection = psycopg2.connect(*arguments, connection_factory=LimitedConnection, **options)
        connection.patience_s = limits.patience_s
        return connection

    extensions.set_wait_callback(_wait)  # of all connections in the process, also those of Dagster
    return connect


def _wait(connection: Any) -> None:
    """Wait for a connection of psycopg2; one that is not ours has no limit."""
    from psycopg2 import extensions

    patience_s = getattr(connection, "patience_s", math.inf)
    while (state := connection.poll()) != extensions.POLL_OK:
        waiting = ([connection], []) if state == extensions.POLL_READ else ([], [connection])
        if not any(select.select(*waiting, [], None if patience_s == math.inf else patience_s)):
            connection.give_up()
