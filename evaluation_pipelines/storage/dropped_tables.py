"""Files of tables that ClickHouse has dropped and not deleted yet, since a process was ended."""

import time
from collections.abc import Collection

import polars as pl

from evaluation_pipelines.storage.clickhouse import ClickHouse, ClickHouseError

_DROPPED = pl.Schema({"uuid": pl.String(), "name": pl.String()})
_PATIENCE_S = 30.0


def delete_dropped_files(clickhouse: ClickHouse, names: Collection[str]) -> None:
    """Delete the files of dropped tables of some names, which no table has now.

    The embedded ClickHouse would keep them until a process uses it for minutes; a server deletes
    them itself.

    Raises:
        ClickHouseError: ClickHouse cannot be used.
    """
    if not clickhouse.is_embedded:
        return
    for uuid, name in _dropped(clickhouse, names):
        try:
            clickhouse.run(f"undrop table {name} uuid '{uuid}'")
        except ClickHouseError as error:  # usually it is being deleted at this moment
            _wait_until_deleted(clickhouse, uuid, name, error)
        else:
            clickhouse.run(f"drop table {name} sync")


def _dropped(clickhouse: ClickHouse, names: Collection[str]) -> list[tuple[str, str]]:
    rows = clickhouse.select("select_dropped_tables", _DROPPED)
    return rows.filter(pl.col("name").is_in(list(names))).rows()


def _wait_until_deleted(
    clickhouse: ClickHouse, uuid: str, name: str, refusal: ClickHouseError
) -> None:
    until = time.monotonic() + _PATIENCE_S
    while (uuid, name) in _dropped(clickhouse, [name]):
        if time.monotonic() > until:
            raise ClickHouseError(
                f"the files of a dropped table {name} are not deleted yet, and it cannot be "
                f"restored for that ({refusal}). Run this again."
            ) from refusal
        time.sleep(0.1)
