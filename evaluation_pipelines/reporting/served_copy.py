"""Tables in ClickHouse that earlier versions published for dashboards, and nothing updates now.

Forgotten people would stay there: while the setting that named them is set, ``doctor`` and
``forget`` fail.
"""

from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from evaluation_pipelines.settings import Settings, variable_of
from evaluation_pipelines.storage.clickhouse import shown_dsn

# A hidden column of each published table, and of each staging table that a killed publish left.
_STAMP = "_served_as"


class ServedCopy(NamedTuple):
    """What was found, and what to do: drop the tables, then unset the variable."""

    seen: str
    advice: str


def served_copy(settings: Settings) -> ServedCopy | None:
    """Return what to drop; ``None`` if no such database is named."""
    if settings.serve_clickhouse_dsn is None:
        return None
    dsn = settings.serve_clickhouse_dsn.get_secret_value()
    variable = variable_of("serve_clickhouse_dsn")
    return ServedCopy(
        f"{variable} names ClickHouse at {shown_dsn(dsn)}: its copy of the published tables is no "
        "longer updated, and forget and expire do not reach it",
        f"run there the statements that this query returns: {_drop_statements(dsn)}. Then unset "
        f"{variable}",
    )


def _drop_statements(dsn: str) -> str:
    """Return a query of the statements that drop the copy, and nothing else of the database."""
    name = unquote(urlsplit(dsn).path.strip("/")) or "default"
    database = name.replace("\\", "\\\\").replace("'", "\\'")
    drop = "select concat('drop table `', database, '`.`', table, '` sync;') from system.columns"
    return f"{drop} where database = '{database}' and name = '{_STAMP}'"
