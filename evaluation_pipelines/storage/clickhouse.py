"""ClickHouse on a server or embedded in this process (chDB), chosen by the DSN."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.storage.sql_files import read_clickhouse_sql

if TYPE_CHECKING:
    import pyarrow as pa
    from clickhouse_connect.driver.client import Client

EMBEDDED = "chdb://"
ENCRYPTED = "clickhouses://"
REPUTATION_DSN, OTEL_LOGS_DSN = "EVAL_CLICKHOUSE_DSN", "EVAL_OTEL_LOGS_DSN"
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0
_CONNECT_TIMEOUT_S = 10

_LOGGER = logging.getLogger(__name__)


class ClickHouseError(UserError):
    """ClickHouse cannot be used, or rejected a statement; the message says what to do."""


class ClickHouseUnavailableError(ClickHouseError):
    """ClickHouse is down, or another process holds the embedded one; a retry may help."""


class ClickHouse:
    """An open connection. Statements come from ``sql/clickhouse``; values are always bound."""

    def __init__(self, client: "Client", *, is_embedded: bool) -> None:
        self._client = client
        self.is_embedded = is_embedded

    def select(self, name: str, schema: pl.Schema, **values: object) -> pl.DataFrame:
        """Return the rows of ``sql/clickhouse/<name>.sql`` in the columns of ``schema``.

        Raises:
            ClickHouseError: the statement failed.
        """
        with _own_errors(name):
            table = self._client.query_arrow(read_clickhouse_sql(name), parameters=values)
        frame = pl.DataFrame(pl.from_arrow(table))
        return frame.select(pl.col(column).cast(dtype) for column, dtype in schema.items())

    def stream(self, name: str, **values: object) -> Iterator["pa.RecordBatch"]:
        """Yield the rows of ``sql/clickhouse/<name>.sql`` in blocks, as they arrive.

        Raises:
            ClickHouseUnavailableError: the statement failed, or its answer ended too early.
        """
        from pyarrow import ArrowException  # slow to import
        from urllib3.exceptions import HTTPError

        statement = read_clickhouse_sql(name)
        try:
            with _own_errors(name), self._client.query_arrow_stream(statement, values) as blocks:
                yield from blocks
        except (ArrowException, HTTPError) as error:
            raise ClickHouseUnavailableError(f"{name}: {_first_line(error)}") from error

    def run(self, statement: str, **values: object) -> None:
        """Run a statement without a result.

        Raises:
            ClickHouseError: the statement failed.
        """
        with _own_errors(statement.partition("\n")[0]):
            self._client.command(statement, parameters=values)

    def insert(self, table: str, frame: pl.DataFrame) -> None:
        """Append rows; lists of keys and values become maps.

        Raises:
            ClickHouseError: the insert failed; some of the rows may be stored.
        """
        if frame.is_empty():
            return
        rows = frame.to_arrow()
        for index, (name, dtype) in enumerate(frame.schema.items()):
            if isinstance(dtype, pl.List):
                rows = rows.set_column(index, name, _as_map(rows[name]))
        self.insert_arrow(table, rows)

    def insert_arrow(self, table: str, rows: "pa.Table") -> None:
        """Append rows as they are.

        Raises:
            ClickHouseError: the insert failed; some of the rows may be stored.
        """
        with _own_errors(f"insert into {table}"):
            # Rows of one insert may span more months or dates than the engine expects.
            self._client.insert_arrow(table, rows, settings={"max_partitions_per_insert_block": 0})


@contextmanager
def open_clickhouse(
    dsn: str,
    patience_s: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
    named_by: str = REPUTATION_DSN,
) -> Iterator[ClickHouse]:
    """Connect; while ClickHouse is down or locked, wait with growing pauses.

    Args:
        dsn: ``chdb:///folder``, ``clickhouse://user:password@host:8123/database`` or the same
            with ``clickhouses`` for TLS.
        patience_s: How long to wait in total.
        sleep: Waits a number of seconds.
        named_by: The variable that has the DSN, for messages.

    Raises:
        ClickHouseUnavailableError: it stayed down or locked.
    """
    client = _connect(dsn, patience_s, sleep, named_by)
    try:
        yield ClickHouse(client, is_embedded=embedded_folder(dsn) is not None)
    finally:
        client.close()


def shown_dsn(dsn: str) -> str:
    """Return the DSN without password and options, for messages."""
    address, _, options = dsn.partition("?")
    scheme, separator, rest = address.partition("://")
    if "@" in options:  # of a password that holds a question mark, perhaps
        return f"{scheme}{separator}..."
    credentials, at, place = rest.rpartition("@")
    return f"{scheme}{separator}{credentials.partition(':')[0]}{at}{place}"


def embedded_folder(dsn: str) -> Path | None:
    """Return the folder of the embedded engine; None for a server."""
    if not dsn.startswith(EMBEDDED):
        return None
    return Path(unquote(dsn.removeprefix(EMBEDDED).partition("?")[0]))


def embedded_dsn(folder: Path) -> str:
    """Return the DSN of the embedded engine in a folder."""
    return f"{EMBEDDED}{quote(str(folder.absolute()))}"


def _connect(
    dsn: str, patience_s: float, sleep: Callable[[float], None], named_by: str
) -> "Client":
    if folder := embedded_folder(dsn):
        folder.parent.mkdir(parents=True, exist_ok=True)
    waited_s, pause_s = 0.0, _FIRST_WAIT_S
    while True:
        try:
            return _try_to_connect(dsn, named_by)
        except ClickHouseUnavailableError as error:
            if waited_s >= patience_s:
                raise ClickHouseUnavailableError(
                    f"ClickHouse at {shown_dsn(dsn)} could not be opened for {waited_s:.0f} s: "
                    f"{error}. {_advice(dsn, named_by)}"
                ) from error
        if not waited_s:
            _LOGGER.warning("waiting for ClickHouse at %s: in use or down", shown_dsn(dsn))
        sleep(pause_s)
        waited_s += pause_s
        pause_s = min(2 * pause_s, _LONGEST_WAIT_S)


def _try_to_connect(dsn: str, named_by: str) -> "Client":
    # Slow to import, and few commands need it.
    import clickhouse_connect
    from clickhouse_connect.driver.exceptions import Error, OperationalError

    # Otherwise it prints a line for each failed attempt.
    logging.getLogger("clickhouse_connect").setLevel(logging.ERROR)
    if (folder := embedded_folder(dsn)) and (holder := _holder(folder)):
        raise ClickHouseUnavailableError(f"process {holder} holds it")
    try:
        return clickhouse_connect.get_client(**_options(dsn))
    except ImportError as error:
        raise ClickHouseError(
            "ClickHouse within this program needs the package chdb: install "
            f"evaluation-pipelines[embedded], or name a server in {named_by}."
        ) from error
    except TypeError as error:  # an option that it does not know
        raise ClickHouseError(
            f"ClickHouse at {shown_dsn(dsn)}: {_first_line(error)}. Check {named_by}, and "
            "the options after its question mark."
        ) from error
    except ValueError:
        # Its text can hold a part of the password.
        raise ClickHouseError(
            f"ClickHouse at {shown_dsn(dsn)}: {named_by} has a value that cannot be read. "
            "In user and password write / ? # @ % as %2F %3F %23 %40 %25. A port is a number."
        ) from None
    except Error as error:
        # The embedded engine reports every reason with the same error.
        if folder or isinstance(error, OperationalError):
            raise ClickHouseUnavailableError(_first_line(error)) from error
        raise ClickHouseError(f"ClickHouse at {shown_dsn(dsn)}: {_first_line(error)}") from error


def _holder(folder: Path) -> str | None:
    """Return the other process that has the folder open."""
    import fcntl  # not on Windows, which has no embedded engine either

    try:
        with (folder / "status").open() as status:
            try:
                fcntl.flock(status, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                process = status.readline().removeprefix("PID:").strip()
                return None if process == str(os.getpid()) else process or "unknown"
    except FileNotFoundError:
        pass
    return None


def _options(dsn: str) -> dict[str, Any]:
    if folder := embedded_folder(dsn):
        options = dict(parse_qsl(urlsplit(dsn).query))
        return {"interface": "chdb", "path": str(folder), **options}
    return {
        "dsn": dsn,
        "secure": dsn.startswith(ENCRYPTED),
        "connect_timeout": _CONNECT_TIMEOUT_S,
        # A session stays locked for a while after a broken connection; none is needed here.
        "autogenerate_session_id": False,
        # Thousands of ids do not fit into a URL.
        "form_encode_query_params": True,
    }


def _advice(dsn: str, named_by: str) -> str:
    if dsn.startswith(EMBEDDED):
        return (
            "One process at a time can hold the folder: wait for the one that does. If there is "
            "none, check space and permissions."
        )
    return f"Check that the server runs, and {named_by}."


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]


@contextmanager
def _own_errors(what: str) -> Iterator[None]:
    """Convert errors of the client to ours."""
    from clickhouse_connect.driver.exceptions import Error, OperationalError

    try:
        yield
    except OperationalError as error:
        raise ClickHouseUnavailableError(f"{what}: {_first_line(error)}") from error
    except Error as error:
        raise ClickHouseError(f"{what}: {_first_line(error)}") from error
    except OSError as error:  # rows for the embedded engine pass through a file
        raise ClickHouseError(f"{what}: {error}. Check space and permissions.") from error


def _as_map(column: "pa.ChunkedArray") -> "pa.Array":
    import pyarrow as pa  # slow to import

    text = pa.string()
    pairs = pa.list_(pa.struct([("key", text), ("value", text)]))
    lists = column.cast(pairs).combine_chunks()
    # Offsets skip the values of null lists.
    return pa.MapArray.from_arrays(
        lists.offsets, lists.values.field("key"), lists.values.field("value")
    )
