"""Files of a lake, and files that this version would not write."""

import hashlib
import os
import time
from collections.abc import Callable, Iterable
from datetime import date
from io import BytesIO
from pathlib import Path

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.schemas import Table
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.tables.telemetry import PARTS
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.storage.stores import Stores


def root_of(lake: Lake) -> Path:
    """Return the folder of a lake on this machine."""
    return Path(lake.where())


def folder_of(lake: Lake, table: Table, day: date | None) -> Path:
    """Return the folder of a partition."""
    return root_of(lake) / lake.folder(table, day)


def paths_of(lake: Lake, table: Table, dates: Iterable[date | None] | None = None) -> list[Path]:
    """Return the current files of a table, or of some of its dates."""
    return [Path(name) for name in lake.files(table, dates).names]


def put_file(lake: Lake, frame: pl.DataFrame, table: Table, day: date | None) -> Path:
    """Put a file of any columns in the place of a partition, with its checksum."""
    content = BytesIO()
    frame.write_parquet(content)
    sha256 = hashlib.sha256(content.getvalue()).hexdigest()
    path = folder_of(lake, table, day) / f"put-{sha256[:12]}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.getvalue())
    in_lake = path.relative_to(root_of(lake)).as_posix()
    size_bytes = len(content.getvalue())
    lake.switch([NewPart(table.name, day, in_lake, frame.height, size_bytes, sha256, table.name)])
    return path


def rewrite(
    stores: Stores,
    table: Table,
    change: Callable[[pl.DataFrame], pl.DataFrame],
    day: date | None = None,
) -> None:
    """Change the rows of the only part of a table (and date), in its file and its checksum."""
    (part,) = stores.lake.parts(table, None if day is None else [day])
    path = root_of(stores.lake) / part.path
    change(pl.read_parquet(path)).write_parquet(path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    with stores.ledger.engine.begin() as connection:
        of_part = sa.update(PARTS).where(PARTS.c.path == part.path)
        connection.execute(of_part.values(sha256=sha256))


def contents(lake: Lake, *tables: Table) -> dict[tuple[str, date | None, str | None], bytes]:
    """Return the content of all current parts of some tables, by table, date and slot."""
    return {
        (table.name, part.session_date, part.slot): (root_of(lake) / part.path).read_bytes()
        for table in tables
        for part in lake.parts(table)
    }


def sorted_rows(lake: Lake, table: Table) -> pl.DataFrame:
    """Return the rows of all partitions of a table by date and key."""
    rows = lake.read(table, lake.partitions(table))
    return rows.sort("session_date", *table.key)


def make_older(files: Iterable[Path], age_s: float) -> None:
    """Set how long ago files were last changed, by the clock of the disk; those that exist."""
    then = time.time() - age_s
    for file in files:
        if file.exists():
            os.utime(file, (then, then))
