from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from evaluation_pipelines.adapters.ledger.engine import create_ledger_engine, reading, writing
from evaluation_pipelines.adapters.ledger.errors import LedgerTooNewError
from evaluation_pipelines.adapters.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.adapters.ledger.migrations.run import migration_config
from evaluation_pipelines.adapters.ledger.revision import (
    NEWEST_REVISION,
    VERSION_TABLE,
    bring_up_to_date,
    stored_revision,
)
from evaluation_pipelines.adapters.ledger.tables import METADATA


def table_names(engine: sa.Engine) -> set[str]:
    with reading(engine) as connection:
        return set(sa.inspect(connection).get_table_names())


def differences(engine: sa.Engine) -> list[object]:
    """What alembic would change to get from the migrated tables to the ones in the code."""
    with reading(engine) as connection:
        options = {"compare_type": True, "version_table": VERSION_TABLE}
        context = MigrationContext.configure(connection, opts=options)
        return list(compare_metadata(context, METADATA))


def set_revision(engine: sa.Engine, revision: str) -> None:
    with writing(engine) as connection:
        version = sa.table(VERSION_TABLE, sa.column("version_num"))
        connection.execute(sa.update(version).values(version_num=revision))


def test_migrated_tables_are_the_tables_in_the_code(ledger: Ledger) -> None:
    assert differences(ledger.engine) == []
    assert table_names(ledger.engine) == {*METADATA.tables, VERSION_TABLE}


def test_columns_are_null_or_not_as_in_the_code(ledger: Ledger) -> None:
    with reading(ledger.engine) as connection:
        inspector = sa.inspect(connection)
        migrated = {
            (table, column["name"]): column["nullable"]
            for table in METADATA.tables
            for column in inspector.get_columns(table)
        }
    assert migrated == {
        (table.name, column.name): column.nullable
        for table in METADATA.tables.values()
        for column in table.columns
    }


def test_a_missing_index_would_be_noticed(ledger: Ledger) -> None:
    with writing(ledger.engine) as connection:
        connection.execute(sa.text("DROP INDEX parts_by_date"))

    ((what, index),) = differences(ledger.engine)  # type: ignore[misc]
    assert (what, index.name) == ("add_index", "parts_by_date")  # type: ignore[has-type]


def test_the_migration_goes_up_down_and_up_again(url: str) -> None:
    engine = create_ledger_engine(url, 5)
    for _ in range(2):
        bring_up_to_date(engine)
        assert differences(engine) == []

        with writing(engine) as connection:
            command.downgrade(migration_config(connection), "base")
        assert table_names(engine) == {VERSION_TABLE}
    engine.dispose()


def test_a_migration_that_fails_leaves_nothing_behind(url: str) -> None:
    engine = create_ledger_engine(url, 5)
    with writing(engine) as connection:
        connection.execute(sa.text("CREATE TABLE ingest_names (mine INTEGER)"))

    with pytest.raises(sa.exc.DatabaseError, match=r"ingest_names.* already exists"):
        bring_up_to_date(engine)

    assert table_names(engine) == {"ingest_names"}
    engine.dispose()


def test_the_newest_revision_is_known_without_alembic(ledger: Ledger) -> None:
    with reading(ledger.engine) as connection:
        scripts = ScriptDirectory.from_config(migration_config(connection))
        assert scripts.get_heads() == [NEWEST_REVISION]
        assert stored_revision(connection) == NEWEST_REVISION


def test_a_ledger_that_is_newer_than_the_code_says_upgrade(url: str) -> None:
    ledger = open_ledger(url)
    set_revision(ledger.engine, "9999")
    ledger.close()

    with pytest.raises(LedgerTooNewError, match=rf"9999.*{NEWEST_REVISION}\. Upgrade this program"):
        open_ledger(url)


def test_a_folder_name_with_a_percent_sign_is_no_problem(tmp_path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path}/100%/ledger.db")
    assert ledger.files.all() == []
    ledger.close()
