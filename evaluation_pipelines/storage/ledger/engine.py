"""Database engine of the ledger: the only module that knows which database it is.

SQLite is the default, PostgreSQL serves larger installations. A write transaction takes SQLite's
write lock at its beginning (``BEGIN IMMEDIATE``): two writers then wait for each other, where a
transaction that reads first and writes later would fail.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from evaluation_pipelines.storage.ledger.errors import (
    LedgerConflictError,
    LedgerDiskFullError,
    LedgerError,
    LedgerLockedError,
    LedgerNotWritableError,
    LedgerUnavailableError,
    LedgerUrlError,
    NoLedgerError,
    NotALedgerError,
)
from evaluation_pipelines.storage.ledger.postgresql import (
    NO_ANSWER,
    SERVED,
    Limits,
    limit_waiting,
    wait_for_ever,
)
from evaluation_pipelines.storage.store import refuse_link

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

_Value = TypeVar("_Value")
_log = logging.getLogger(__name__)

_WRITES = "ledger_writes"
_NO_TRANSACTION = "ledger_no_transaction"
_ANSWERED = "ledger_answered"
AWAY_S = 120.0
"""Seconds that a step waits for a server that has gone away."""

NO_ANSWER_S = 60.0
"""Seconds that a step waits for a server that can be reached, but does not answer."""

_TRY_AGAIN_S = 1.0
_CONNECT_S = 10
_SILENCE = (NO_ANSWER, "timeout expired")
_BOUND_AT_ONCE = 5_000  # SQLite refuses more than 32 766
# Arbitrary numbers, the same in every process.
_MIGRATION_LOCK = 5_270_321
_BUDGET_LOCK = 5_270_322
_MANIFEST_LOCK = 5_270_323
_EVENTS_LOCK = 5_270_324
_FORGOTTEN_LOCK = 5_270_325

_FAILURES: dict[int, tuple[type[LedgerError], str]] = {
    sqlite3.SQLITE_BUSY: (
        LedgerLockedError,
        "another process has kept it locked for too long. Find the run that hangs, or try again",
    ),
    sqlite3.SQLITE_NOTADB: (
        NotALedgerError,
        "it is not a database. Name another file, or restore it from a backup",
    ),
    sqlite3.SQLITE_CORRUPT: (NotALedgerError, "it is damaged. Restore it from a backup"),
    sqlite3.SQLITE_CANTOPEN: (
        LedgerNotWritableError,
        "it cannot be opened. Check that the folder exists and that you may write to it",
    ),
    sqlite3.SQLITE_READONLY: (
        LedgerNotWritableError,
        "it cannot be written. Check the permissions of the file and of its folder",
    ),
    sqlite3.SQLITE_IOERR: (
        LedgerNotWritableError,
        "the disk did not read or write. Check the disk and its quota",
    ),
    sqlite3.SQLITE_FULL: (LedgerDiskFullError, "the disk is full. Free some space and run again"),
}

_POSTGRESQL_FAILURES: dict[str, tuple[type[LedgerError], str]] = {
    "55P03": _FAILURES[sqlite3.SQLITE_BUSY],
    "53100": _FAILURES[sqlite3.SQLITE_FULL],
    "57014": (
        LedgerUnavailableError,
        "the server has not finished it in time. See what it is busy with, and run the step again",
    ),
    "25006": (LedgerNotWritableError, "the server only reads. Name the one that writes"),
    "42501": (LedgerNotWritableError, "the user lacks a right. Grant it"),
}
"""SQLSTATE of PostgreSQL -> error."""

_CUT = (
    "the connection failed. Check that the server runs, then run the step again: committed work "
    "is not repeated"
)

_ALIVE = (
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
    "SET tcp_user_timeout = 60000",
    "SET idle_session_timeout = 0",
)
"""The server notices within a minute that a client is dead, and ends no idle connection."""

_URL_ADVICE = "Use sqlite:///path/to/ledger.db or postgresql+psycopg://user@host/database"


def create_ledger_engine(
    url: str,
    lock_timeout: float,
    *,
    create: bool = True,
    is_known: bool = False,
    is_served: bool = False,
) -> sa.Engine:
    """Prepare connections to the ledger's database; create the folder of a SQLite file.

    Args:
        url: ``sqlite:///path/to/file`` or a PostgreSQL URL.
        lock_timeout: Seconds to wait for another writer.
        create: Whether to create a missing SQLite file and its folder.
        is_known: True if the server has answered another process: it is waited for.
        is_served: True if people wait for answers: a server that is away is an error soon.

    Raises:
        LedgerUrlError: the URL is malformed or names a database that cannot hold a ledger.
        NoLedgerError: the file does not exist and ``create`` is False.
        LedgerNotWritableError: the folder cannot be created.
    """
    parsed = _parsed(url)
    match parsed.get_backend_name():
        case "sqlite" if parsed.database not in (None, "", ":memory:"):
            if not create and not Path(str(parsed.database)).exists():
                raise no_ledger(parsed)
            return _sqlite_engine(parsed, lock_timeout)
        case "postgresql":
            return _postgresql_engine(parsed, lock_timeout, is_known=is_known, is_served=is_served)
    raise LedgerUrlError(f"A ledger cannot be kept in {_shown(parsed)}. {_URL_ADVICE}.")


def _parsed(url: str) -> sa.URL:
    advice = (
        f"{_URL_ADVICE}. In user and password write / ? # @ % : as %2F %3F %23 %40 %25 %3A. "
        "A port is a number."
    )
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        # The cause may quote a part of the password, which was taken for a port.
        raise LedgerUrlError(f"The ledger's URL cannot be read. {advice}") from None
    if "@" in (parsed.host or ""):  # of the password, and shown with the host
        raise LedgerUrlError(f"The ledger's URL has more than one @. {advice}")
    return parsed


def no_ledger(url: sa.URL) -> NoLedgerError:
    """Return the error of a missing ledger, with the absolute path of a file."""
    is_file = url.get_backend_name() == "sqlite"
    place = Path(str(url.database)).absolute() if is_file else _shown(url)
    return NoLedgerError(f"There is no ledger {place} yet: nothing has been ingested.")


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Open a read transaction: one snapshot, never blocked by a writer."""
    with _explained(engine), _connected(engine) as connection:
        if connection.dialect.name == "postgresql":  # by default each statement has its own
            connection.execution_options(isolation_level="REPEATABLE READ")
        yield connection


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Open a write transaction: committed at the end, rolled back on any exception."""
    with _explained(engine), _connected(engine) as connection:
        connection.execution_options(**{_WRITES: True})
        with connection.begin():
            yield connection


@contextmanager
def outside_transactions(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Open a connection whose statements are no part of a transaction."""
    with _explained(engine), _connected(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execution_options(isolation_level="AUTOCOMMIT")
            wait_for_ever(connection)
        else:
            connection.execution_options(**{_NO_TRANSACTION: True})
        yield connection


@contextmanager
def lone_connection(engine: sa.Engine) -> Iterator[tuple[Callable[..., Any], int]]:
    """Open a connection to PostgreSQL of its own, which never reconnects by itself.

    The server ends it within a minute after this machine has died. Yield a function that runs a
    statement with values and returns the first row, and the number of the server's process as the
    server named it at the beginning.
    """
    error = engine.dialect.loaded_dbapi.Error
    with _explained(engine):
        opened = _connected(engine)
    connection = cast(Any, opened.connection.driver_connection)
    opened.detach()  # the pool neither keeps nor replaces it
    connection.rollback()
    connection.autocommit = True

    def run(statement: str, *values: object) -> Any:
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute(statement, values or None)
                return cursor.fetchone() if cursor.description else None
        except error as failure:
            raise LedgerUnavailableError(_cut(engine, failure)) from failure

    try:
        for statement in _ALIVE:
            run(statement)
        yield run, connection.info.backend_pid
    finally:
        opened.close()


def _cut(engine: sa.Engine, error: Exception) -> str:
    what = str(error).strip().partition("\n")[0]
    return f"The ledger {_shown(engine.url)} failed ({what}): {_CUT}."


def _connected(engine: sa.Engine) -> sa.Connection:
    """Connect; wait for a server that has answered before and is away, for example restarted.

    Nothing was begun yet, so nothing can be done twice.
    """
    began = time.monotonic()
    is_told = False
    while True:
        try:
            return engine.connect()
        except sa.exc.OperationalError as error:
            if not engine.dialect.name == "postgresql" or not _has_answered(engine):
                raise
            is_silent = any(sign in str(error.orig) for sign in _SILENCE)
            if time.monotonic() - began > (NO_ANSWER_S if is_silent else AWAY_S):
                raise
            if not is_told:
                what = f"The ledger {_shown(engine.url)} cannot be reached"
                _log.warning("%s (%s): waiting up to %g s", what, _first_line(error), AWAY_S)
            is_told = True
        time.sleep(_TRY_AGAIN_S)


def _has_answered(engine: sa.Engine) -> bool:
    """Return True if a connection was made before: then the URL is right."""
    return bool(engine.get_execution_options().get(_ANSWERED, []))


def insert_into(connection: sa.Connection, table: sa.Table) -> "sqlite.Insert | postgresql.Insert":
    """Return an INSERT that supports ``on_conflict_do_...``."""
    if connection.dialect.name != "postgresql":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # slow to import

    return postgresql.insert(table)


def chunks(values: Collection[_Value]) -> Iterator[list[_Value]]:
    """Cut values into lists that are short enough to bind in one statement."""
    remaining = iter(values)
    while chunk := list(islice(remaining, _BOUND_AT_ONCE)):
        yield chunk


def lock_for_migration(connection: sa.Connection) -> None:
    """Take the migration lock until the transaction ends, which may take its time."""
    if connection.dialect.name == "postgresql":
        wait_for_ever(connection)
    _lock(connection, _MIGRATION_LOCK)


def lock_for_budget(connection: sa.Connection) -> None:
    """Take the budget lock until the transaction ends.

    Take it before any row is locked: in another order two processes could deadlock.
    """
    _lock(connection, _BUDGET_LOCK)


def lock_for_manifest(connection: sa.Connection) -> None:
    """Take the lock of the manifest until the transaction ends, as with the budget lock."""
    _lock(connection, _MANIFEST_LOCK)


def lock_for_forgotten(connection: sa.Connection) -> None:
    """Take the lock of what was forgotten until the transaction ends, before any other lock."""
    _lock(connection, _FORGOTTEN_LOCK)


def lock_for_events(connection: sa.Connection) -> None:
    """Take the lock of events until the transaction ends.

    Take it after every row is locked, just before the commit, unlike the other locks.
    """
    _lock(connection, _EVENTS_LOCK)


def _lock(connection: sa.Connection, number: int) -> None:
    """Take a lock in PostgreSQL; in SQLite every write transaction is exclusive."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(number)))


def _sqlite_engine(url: sa.URL, lock_timeout: float) -> sa.Engine:
    folder = Path(str(url.database)).parent
    refuse_link(Path(str(url.database)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerNotWritableError(
            f"The folder {folder} of the ledger cannot be created ({error.strerror}). "
            "Correct its permissions, or set another place for the ledger."
        ) from error
    # Bound values are of sessions, and errors are printed and logged.
    engine = sa.create_engine(url, connect_args={"timeout": lock_timeout}, hide_parameters=True)

    def set_up(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun explicitly
        _switch_to_wal(connection, lock_timeout)
        connection.execute("PRAGMA synchronous = FULL")  # a commit survives a power cut
        connection.execute("PRAGMA foreign_keys = ON")

    sa.event.listen(engine, "connect", set_up)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _switch_to_wal(connection: sqlite3.Connection, lock_timeout: float) -> None:
    """Switch to the write-ahead log, so that readers never wait.

    On a new file the switch fails while another process writes; SQLite does not wait, so this does.
    """
    deadline = time.monotonic() + lock_timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        else:
            return
        time.sleep(0.02)


def _begin_sqlite(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    if options.get(_NO_TRANSACTION, False):
        return
    writes = options.get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgresql_engine(
    url: sa.URL, lock_timeout: float, *, is_known: bool = False, is_served: bool = False
) -> sa.Engine:
    statement_s = max(NO_ANSWER_S, lock_timeout + 1)
    limits = SERVED if is_served else Limits(_CONNECT_S, statement_s, statement_s + 1)
    # Options in the user's URL come later and win.
    given = url.normalized_query.get("options", ())
    options = " ".join([f"-c lock_timeout={int(lock_timeout * 1000)}", limits.options, *given])
    ours = {name: value for name, value in limits.connect_options.items() if name not in url.query}
    answered = [True] if is_known else []
    try:
        engine = sa.create_engine(
            url,
            connect_args={**ours, "options": options},
            pool_pre_ping=True,
            hide_parameters=True,
            execution_options={_ANSWERED: answered},
        )
    except ModuleNotFoundError as error:
        raise LedgerUrlError(
            f"The ledger is in PostgreSQL, but its driver {error.name} is not installed. "
            f"Install it, for example with: pip install 'psycopg[binary]'. {_URL_ADVICE}."
        ) from error
    except sa.exc.NoSuchModuleError as error:
        raise LedgerUrlError(f"{url.drivername} is not known. {_URL_ADVICE}.") from error
    if engine.dialect.driver not in ("psycopg", "psycopg2"):
        raise LedgerUrlError(f"{url.drivername} cannot be used. {_URL_ADVICE}.")
    limit_waiting(engine, limits)
    if not is_served:
        sa.event.listen(engine, "connect", lambda *_: answered.append(True), once=True)
    return engine


@contextmanager
def _explained(engine: sa.Engine) -> Iterator[None]:
    """Convert errors of the database to ours, without bound values."""
    try:
        yield
    except sa.exc.IntegrityError as error:
        raise LedgerConflictError(
            f"The ledger {_shown(engine.url)} refused a row: {_first_line(error)}. "
            "Nothing was changed. Read the ledger again before you repeat the step."
        ) from error
    except sa.exc.TimeoutError as error:
        raise LedgerUnavailableError(
            f"The ledger {_shown(engine.url)} failed: all connections are in use. Try again."
        ) from error
    except sa.exc.DBAPIError as error:
        kind, advice = _failure(error)
        what = _first_line(error)
        raise kind(f"The ledger {_shown(engine.url)} failed ({what}): {advice}.") from error


def _first_line(error: sa.exc.DBAPIError) -> str:
    """Return what happened; further lines have the statement, or values of a row."""
    return str(error.orig).strip().partition("\n")[0]


def _failure(error: sa.exc.DBAPIError) -> tuple[type[LedgerError], str]:
    """Return the error of ours, and what to do."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _FAILURES:
        return _FAILURES[code & 0xFF]
    # psycopg 3 and psycopg2 call it differently.
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    if state in _POSTGRESQL_FAILURES:
        return _POSTGRESQL_FAILURES[state]
    is_cut = isinstance(error, (sa.exc.OperationalError, sa.exc.InterfaceError))
    if code is None and (is_cut or error.connection_invalidated):
        return LedgerUnavailableError, _CUT
    return LedgerError, "nothing was changed. Run the step again. If it fails again, report it"


def _shown(url: sa.URL) -> str:
    return url.render_as_string(hide_password=True)
