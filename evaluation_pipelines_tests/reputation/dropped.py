"""Tables whose process ended while it dropped them."""

import polars as pl

from evaluation_pipelines.storage.clickhouse import ClickHouse

_NAME = pl.Schema({"name": pl.String()})


def drop_as_a_kill_does(clickhouse: ClickHouse, table: str) -> None:
    """Leave a table as one whose process ended while it was dropped: its files are there."""
    clickhouse.run(f"create table {table} (name String) engine = MergeTree order by name")
    clickhouse.insert(table, pl.DataFrame({"name": ["ada"]}, schema=_NAME))
    clickhouse.run(f"drop table {table}")


def dropped(clickhouse: ClickHouse) -> list[str]:
    """Names of dropped tables whose files are there."""
    return sorted(clickhouse.select("select_dropped_tables", _NAME)["name"])
