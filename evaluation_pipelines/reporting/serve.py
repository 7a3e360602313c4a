"""Serve a published database from ClickHouse, for dashboards (``EVAL_SERVE_CLICKHOUSE_DSN``)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
from pydantic import SecretStr

from evaluation_pipelines.reporting.analysts_database import Derived, Given, Published, Source
from evaluation_pipelines.reporting.domain.served_table import ServedColumn, ServedTable, hash_of
from evaluation_pipelines.reporting.served_database import delete_old_parts, serve_tables
from evaluation_pipelines.schemas import Table
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.clickhouse import (
    SERVED_DSN,
    ClickHouse,
    ClickHouseError,
    open_clickhouse,
    shown_dsn,
)
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.errors import LedgerError
from evaluation_pipelines.storage.store import StoreError
from evaluation_pipelines.storage.stores import Stores

_COLUMNS = """
    select table_name, column_name, data_type, coalesce(comment, '')
    from duckdb_columns()
    where not internal
    order by table_name, column_index
"""
_COMMENTS = """
    select table_name, coalesce(comment, '') from duckdb_tables()
    union all
    select view_name, coalesce(comment, '') from duckdb_views() where not internal
"""


def serve_published(
    stores: Stores,
    lake: Lake,
    sources: Sequence[Source | Given],
    derived: Sequence[Derived],
    published: Published,
    check_lease: Callable[[], None],
) -> Published:
    """Send what changed of a published database to ClickHouse, if there is one to serve from.

    An error is noted in the result: the database is published, whatever ClickHouse says.

    Args:
        stores: The stores.
        lake: The parts that the database was made from.
        sources: Its tables.
        derived: Its views.
        published: The database.
        check_lease: Raises StaleLeaseError once another process may publish.
    """
    if stores.settings.serve_clickhouse_dsn is None:
        return published
    made_from = _made_from(lake, sources, derived)
    try:
        with (
            _opened(published.file, sources) as database,
            open_served(stores.settings) as clickhouse,
        ):
            tables = _tables(database, made_from, _orders(sources, derived))
            served = serve_tables(clickhouse, database, tables, check_lease)
    except (ClickHouseError, LedgerError, StoreError, OSError, duckdb.Error) as error:
        where = shown_dsn(stores.settings.serve_clickhouse_dsn.get_secret_value())
        reason = (
            f"not all tables were served to ClickHouse at {where}: {error} The analysts' database "
            "is published; publish again to send what is missing."
        )
        return replace(published, not_served=reason)
    return replace(published, served={name: rows for name, rows in served.items() if rows})


@contextmanager
def open_served(settings: Settings) -> Iterator[ClickHouse]:
    """Open the database that tables are served from.

    Raises:
        ClickHouseError: It cannot be used, or is that of reputation.
    """
    dsn = settings.serve_clickhouse_dsn
    if dsn is None:
        raise ClickHouseError(f"{SERVED_DSN} is not set.")
    if _place(dsn) == _place(settings.clickhouse_dsn):
        raise ClickHouseError(
            f"{SERVED_DSN} and EVAL_CLICKHOUSE_DSN name the same database, and both have a table "
            "reputation_scores. Name a database of its own."
        )
    patience_s = settings.clickhouse_patience_s
    with open_clickhouse(dsn.get_secret_value(), patience_s, named_by=SERVED_DSN) as clickhouse:
        yield clickhouse


def delete_served_files(settings: Settings) -> None:
    """Delete the files of what was replaced in ClickHouse, if anything is served.

    Raises:
        ClickHouseError: ClickHouse cannot be used.
    """
    if settings.serve_clickhouse_dsn is not None:
        with open_served(settings) as clickhouse:
            delete_old_parts(clickhouse)


def _place(dsn: SecretStr | None) -> tuple[str, str] | None:
    """Return server and database of a DSN."""
    if dsn is None:
        return None
    parts = urlsplit(dsn.get_secret_value())
    return parts.netloc.rpartition("@")[2].lower(), parts.path.strip("/") or "default"


@contextmanager
def _opened(file: Path, sources: Sequence[Source | Given]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a published database, and the stores that its views read."""
    with duckdb.connect(
        str(file), read_only=True, config={"autoload_known_extensions": "false"}
    ) as database:
        database.execute("set TimeZone = 'UTC'")
        database.execute("set enable_progress_bar = false")
        for source in sources:
            if isinstance(source, Source):
                source.files.store.attach(database)
        yield database


def _tables(
    database: duckdb.DuckDBPyConnection,
    made_from: Mapping[str, Mapping[date, str]],
    orders: Mapping[str, tuple[str, ...]],
) -> list[ServedTable]:
    """Return the tables as the database describes them: views last, then its version."""
    comments = dict(database.sql(_COMMENTS).fetchall())
    columns: dict[str, list[ServedColumn]] = {}
    for name, *column in database.sql(_COLUMNS).fetchall():
        columns.setdefault(name, []).append(ServedColumn(*column))
    return [
        ServedTable(
            name, comments[name], tuple(columns[name]), orders.get(name, ()), made_from.get(name)
        )
        for name in [*orders, *(columns.keys() - orders.keys())]
    ]


def _orders(
    sources: Sequence[Source | Given], derived: Sequence[Derived]
) -> dict[str, tuple[str, ...]]:
    """Return by what the rows of each table are sorted."""
    return {each.table.name: each.table.order for each in sources} | {
        each.name: each.tables[0].order for each in derived
    }


def _made_from(
    lake: Lake, sources: Sequence[Source | Given], derived: Sequence[Derived]
) -> dict[str, dict[date, str]]:
    """Return a hash of what each date is made from, of each table that has partitions."""
    dated = [each for each in sources if isinstance(each, Source) and each.has_dates]
    said = {
        each.table.name: repr(
            (list(each.table.schema.items()), each.as_map, each.more, dict(each.nulls))
        )
        + (each.query or "")
        for each in dated
    }
    days_before = {each.table.name: each.days_before for each in dated}
    found = {
        each.table.name: _dates(lake, (each.table,), days_before, said[each.table.name])
        for each in dated
    }
    for view in derived:
        of_tables = [said.get(each.name) for each in view.tables]
        found[view.name] = _dates(lake, view.tables, days_before, repr((view.query, of_tables)))
    return found


def _dates(
    lake: Lake, tables: Sequence[Table], days_before: Mapping[str, int], said: str
) -> dict[date, str]:
    """Return the dates on which the first table has rows, with a hash of the parts of all.

    ``days_before`` is, by table, how many days before a date its rows are made from as well.
    """
    parts: dict[date, list[tuple[str, str]]] = {}
    dates = set[date]()
    for table in tables:
        for part in lake.parts(table):
            if part.session_date is None:
                continue
            for days in range(days_before.get(table.name, 0) + 1):
                day = part.session_date + timedelta(days)
                parts.setdefault(day, []).append((table.name, part.sha256))
            if table is tables[0] and part.row_count:
                dates.add(part.session_date)
    return {day: hash_of(said, sorted(parts[day])) for day in dates}
