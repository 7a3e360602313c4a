"""A ledger in PostgreSQL while people wait for answers: a server that is away is an error soon.

The limits of the server itself end a slow statement; a server that has stopped answering ends
nothing, so the client stops waiting, too. While it is away, one request in some seconds tries it.
"""

import select
import time
from collections.abc import Generator
from typing import Any

import sqlalchemy as sa

CONNECT_S = 2
"""Seconds for a connection: the least that the client library takes."""

STATEMENT_S = 3.0
_PATIENCE_S = STATEMENT_S + 0.5  # the limit of the server comes first
_TRY_AGAIN_S = 3.0
_NO_ANSWER = "it has not answered for some seconds"

OPTIONS = f"-c statement_timeout={STATEMENT_S * 1000:.0f}"
CONNECT_OPTIONS = {"connect_timeout": CONNECT_S, "tcp_user_timeout": int(STATEMENT_S * 1000)}


def limit_waiting(engine: sa.Engine) -> None:
    """Make connections that wait for no answer longer than ``STATEMENT_S``."""
    away = _Away()
    connect = _psycopg(away) if engine.dialect.driver == "psycopg" else _psycopg2(away)

    def do_connect(_dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
        error = engine.dialect.loaded_dbapi.OperationalError
        if away.is_noted():
            raise error(_NO_ANSWER)
        try:
            connection = connect(*arguments, **options)
        except error:
            away.note()
            raise
        away.until = 0.0
        return connection

    sa.event.listen(engine, "do_connect", do_connect)


class _Away:
    """Until when a server is not tried; threads may share one."""

    until = 0.0

    def note(self) -> None:
        self.until = time.monotonic() + _TRY_AGAIN_S

    def is_noted(self) -> bool:
        """Return True if the server is away; whoever may try it makes others wait."""
        if self.until and time.monotonic() > self.until:
            self.note()
            return False
        return bool(self.until)


def _psycopg(away: _Away) -> Any:
    import psycopg  # an extra

    class LimitedConnection(psycopg.Connection[Any]):
        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            return super().wait(self._limited(gen), *arguments, **options)

        def _limited(self, steps: Any) -> Generator[Any, Any, Any]:
            """Pass a generator of the driver on, which gets 0 each time nothing has arrived."""
            end = time.monotonic() + _PATIENCE_S
            try:
                wanted = next(steps)
                while True:
                    ready = yield wanted
                    if not ready and time.monotonic() > end:
                        away.note()
                        self.pgconn.finish()
                        raise psycopg.OperationalError(_NO_ANSWER)
                    wanted = steps.send(ready)
            except StopIteration as done:
                return done.value

    return LimitedConnection.connect


def _psycopg2(away: _Away) -> Any:
    import psycopg2  # type: ignore[import-untyped]  # an extra
    from psycopg2 import extensions

    def wait(connection: Any) -> None:
        end = time.monotonic() + _PATIENCE_S
        while (state := connection.poll()) != extensions.POLL_OK:
            waiting = ([connection], []) if state == extensions.POLL_READ else ([], [connection])
            left = end - time.monotonic()
            if left <= 0 or not any(select.select(*waiting, [], left)):
                away.note()  # the driver closes the connection, and holds its lock here
                raise psycopg2.OperationalError(_NO_ANSWER)

    extensions.set_wait_callback(wait)  # of all connections in the process; it opens no others
    return psycopg2.connect
