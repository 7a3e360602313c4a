"""Files of tables that ClickHouse has dropped and not deleted yet, since a process was ended."""

import polars as pl

from evaluation_pipelines.storage.clickhouse import ClickHouse

_DROPPED = pl.Schema({"uuid": pl.String(), "name": pl.String()})


def delete_dropped_files(clickhouse: ClickHouse, *, prefix: str = "", suffix: str = "") -> None:
    """Delete the files of dropped tables whose names begin and end like this.

    A server would delete them after minutes, the embedded ClickHouse only while a process uses it.
    No table may have one of these names now.

    Raises:
        ClickHouseError: ClickHouse cannot be used.
    """
    dropped = clickhouse.select("select_dropped_tables", _DROPPED, prefix=prefix, suffix=suffix)
    for uuid, name in dropped.iter_rows():
        clickhouse.run(f"undrop table {name} uuid '{uuid}'")
        clickhouse.run(f"drop table {name} sync")
