"""Tables and columns that each version of the analysts' database promises.

``python -m evaluation_pipelines_tests.telemetry.schema_promise`` writes the current list.
"""

import tempfile
from pathlib import Path

import duckdb

from evaluation_pipelines.reporting.analysts_database import SCHEMA_VERSION
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines_tests.workplace import NOW, open_workplace

_LISTS = Path(__file__).parents[1] / "data" / "analytics"


def promise_of(version: int) -> Path:
    """Return the file of a version, with lines ``table.column type``."""
    return _LISTS / f"schema_{version}.txt"


def columns_of(database: Path) -> list[str]:
    """Return the lines ``table.column type`` of a published database."""
    query = """
        select table_name || '.' || column_name || ' ' || data_type from duckdb_columns()
        where not internal order by all
    """
    with duckdb.connect(str(database), read_only=True) as connection:
        return [str(line) for (line,) in connection.sql(query).fetchall()]


def write_promise() -> None:
    """Write the list of the current version, from an empty database."""
    with tempfile.TemporaryDirectory() as folder, open_workplace(Path(folder)) as workplace:
        found = columns_of(publish_analytics(workplace.stores, NOW).link)
    _LISTS.mkdir(exist_ok=True)
    promise_of(SCHEMA_VERSION).write_text("\n".join(found) + "\n", "utf-8")


if __name__ == "__main__":
    write_promise()
