"""A process that counts the rows of a table repeatedly while the pipeline runs."""

import select
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import polars as pl

_PAUSE_S = 0.05  # leave processor time to the pipeline


class Counts(Counter[str]):
    """Number of reads by their result; filled when reading ends."""


@contextmanager
def reading(folder: Path) -> Iterator[Counts]:
    """Count the rows of all partitions in ``folder`` while the block runs; errors count, too."""
    counts = Counts()
    with subprocess.Popen(
        [sys.executable, __file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield counts
        finally:
            output, _ = process.communicate()
    counts.update(output.splitlines())


def count(folder: str) -> None:
    """Print one number per read, by DuckDB and Polars in turn, until standard input ends."""
    pattern = f"{folder}/session_date=*/*.parquet"
    while not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
        for read in (_by_duckdb, _by_polars):
            try:
                sys.stdout.write(f"{read(pattern)}\n")
            except Exception as error:  # noqa: BLE001 - every error must be reported
                sys.stdout.write(f"{type(error).__name__}: {error}".replace("\n", " ") + "\n")


def _by_duckdb(pattern: str) -> int:
    with duckdb.connect() as connection:
        connection.execute("select count(*) from read_parquet($1)", [pattern])
        ((rows,),) = connection.fetchall()
    return int(rows)


def _by_polars(pattern: str) -> int:
    return int(pl.scan_parquet(pattern).select(pl.len()).collect().item())


if __name__ == "__main__":
    count(sys.argv[1])
