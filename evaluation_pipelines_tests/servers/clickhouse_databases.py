"""A database of its own for each test, in an engine or server that many tests share."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from evaluation_pipelines.storage.clickhouse import embedded_dsn, open_clickhouse
from evaluation_pipelines_tests.servers.clickhouse import clickhouse_server

REAL_SERVER = "EVAL_CLICKHOUSE_TEST_URL"
"""DSN of a real server; without it tests run against the HTTP interface of ``clickhouse_server``.

Its user must be allowed to make and drop databases.
"""

PASSWORD = "a pass/word"  # noqa: S105 - of a server that lives as long as the tests


@contextmanager
def embedded(folder: Path) -> Iterator[str]:
    """The DSN of an engine within this process that stays open: opening takes a while."""
    dsn = embedded_dsn(folder)
    with open_clickhouse(dsn):
        yield dsn


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The DSN of the real server, or of one that is started here."""
    if real := os.environ.get(REAL_SERVER):
        yield real
    else:
        with clickhouse_server(folder, PASSWORD) as dsn:
            yield dsn


@contextmanager
def database(dsn: str) -> Iterator[str]:
    """A new database; gives its DSN, and drops it at the end."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with open_clickhouse(dsn) as clickhouse:
        clickhouse.run(f"create database {name}")
        yield _within(dsn, name)
        clickhouse.run(f"drop database {name} sync")


def _within(dsn: str, name: str) -> str:
    parts = urlsplit(dsn)
    if parts.scheme == "chdb":
        return f"{dsn}?database={name}"
    return urlunsplit(parts._replace(path=f"/{name}"))
