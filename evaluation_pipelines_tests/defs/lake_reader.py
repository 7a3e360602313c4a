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

from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import read_stores
from evaluation_pipelines_tests.lake_files import paths_of

_PAUSE_S = 0.05  # leave processor time to the pipeline


class Counts(Counter[str]):
    """Number of reads by their result; filled when reading ends."""


@contextmanager
def reading(data_dir: Path) -> Iterator[Counts]:
    """Count the sessions of a data folder while the block runs; errors count, too."""
    counts = Counts()
    with subprocess.Popen(
        [sys.executable, __file__, str(data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield counts
        finally:
            output, _ = process.communicate()
    counts.update(output.splitlines())


def count(data_dir: str) -> None:
    """Print one number per read, by DuckDB and Polars in turn, until standard input ends."""
    settings = Settings(_env_file=None, data_dir=Path(data_dir))
    while not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
        for read in (_by_duckdb, _by_polars):
            try:
                with read_stores(settings) as stores:
                    files = paths_of(stores.lake, AGENT_SESSIONS)
                sys.stdout.write(f"{read([str(path) for path in files])}\n")
            except Exception as error:  # noqa: BLE001 - every error must be reported
                sys.stdout.write(f"{type(error).__name__}: {error}".replace("\n", " ") + "\n")


def _by_duckdb(files: list[str]) -> int:
    with duckdb.connect() as connection:
        connection.execute("select count(*) from read_parquet($1)", [files])
        ((rows,),) = connection.fetchall()
    return int(rows)


def _by_polars(files: list[str]) -> int:
    return int(pl.scan_parquet(files).select(pl.len()).collect().item())


if __name__ == "__main__":
    count(sys.argv[1])
