"""SQL files: one statement each, found in a checkout or in an installed package.

A query with several steps has a folder with its name: ``agent_sessions.sql`` reads what
``agent_sessions/010_sessions.sql``, ``agent_sessions/020_...`` produce, in that order.
"""

import re
from collections.abc import Iterable
from pathlib import Path

_PROGRAM = Path(__file__).resolve().parents[1]

SQL_ROOTS = (_PROGRAM / "_sql", _PROGRAM.parent / "sql")
"""A wheel has the SQL files inside the package; a checkout has them next to it."""

_FOLDERS = tuple(root / "duckdb" for root in SQL_ROOTS)
_CLICKHOUSE_FOLDERS = tuple(root / "clickhouse" for root in SQL_ROOTS)
_STEP = re.compile(r"\d{3}_(?P<table>[a-z_]+)")


def read_sql(name: str) -> str:
    """Return the text of ``sql/duckdb/<name>.sql``.

    Raises:
        FileNotFoundError: no such file; the message says where it was expected.
    """
    return _read(name, _FOLDERS)


def read_clickhouse_sql(name: str) -> str:
    """Return the text of ``sql/clickhouse/<name>.sql``.

    Raises:
        FileNotFoundError: no such file; the message says where it was expected.
    """
    return _read(name, _CLICKHOUSE_FOLDERS)


def clickhouse_migrations() -> list[tuple[str, str]]:
    """Return name and text of every ClickHouse migration, in order."""
    paths = [path for folder in _CLICKHOUSE_FOLDERS for path in folder.glob("migrations/*.sql")]
    return [(path.stem, path.read_text(encoding="utf-8")) for path in sorted(paths)]


def read_steps(name: str) -> dict[str, str]:
    """Return table -> SQL of the steps of a query, in order; empty if it has none.

    Raises:
        ValueError: a file in the folder is not named ``NNN_<table>.sql``.
    """
    for folder in _FOLDERS:
        if (folder / f"{name}.sql").is_file():
            paths = sorted((folder / name).glob("*.sql"))
            return {_table_of(path): path.read_text(encoding="utf-8") for path in paths}
    return {}


def _read(name: str, folders: Iterable[Path]) -> str:
    for folder in folders:
        path = folder / f"{name}.sql"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    looked_in = ", ".join(str(folder) for folder in folders)
    raise FileNotFoundError(f"no SQL file {name}.sql in {looked_in}")


def _table_of(path: Path) -> str:
    match = _STEP.fullmatch(path.stem)
    if match is None:
        raise ValueError(f"{path}: a step is named NNN_<table>.sql")
    return match["table"]
