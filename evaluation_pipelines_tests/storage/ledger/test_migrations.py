from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.scorecards.ledger.event_store import EventStore
from evaluation_pipelines.storage.ledger.engine import create_ledger_engine, reading, writing
from evaluation_pipelines.storage.ledger.errors import LedgerError, UnknownRevisionError
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.storage.ledger.revision import (
    NEWEST_REVISION,
    VERSION_TABLE,
    bring_up_to_date,
    migration_config,
    stored_revision,
)
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines.storage.ledger.tables import METADATA
from evaluation_pipelines.telemetry.ledger.source_files import SourceFiles
from evaluation_pipelines_tests.judging.ledger.score_builders import started
from evaluation_pipelines_tests.storage.ledger.former_ledger import (
    FORMER_EVENTS,
    differences,
    forget_last_looks,
    give_former_events,
    set_revision,
)
from evaluation_pipelines_tests.storage.ledger.ledger_builders import NOON


def table_names(engine: sa.Engine) -> set[str]:
    with reading(engine) as connection:
        return set(sa.inspect(connection).get_table_names())


def test_migrated_tables_are_the_tables_in_the_code(ledger: Ledger) -> None:
    assert differences(ledger.engine) == []
    assert table_names(ledger.engine) == {*METADATA.tables, VERSION_TABLE}


def test_an_index_has_its_condition_in_either_database(ledger: Ledger) -> None:
    dialect = ledger.engine.dialect.name
    with reading(ledger.engine) as connection:
        indexes = sa.inspect(connection).get_indexes("alerts")
    (index,) = (each for each in indexes if each["name"] == "alerts_one_open")
    assert "over_at IS NULL" in str(index["dialect_options"][f"{dialect}_where"])


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


NEW_COLUMNS = {
    "judge_profiles": ["origin"],
    "overrides": ["criterion_id", "recorded_by"],
    "audit_samples": [
        *("profile_version", "classification_label", "model", "inclusion_probability"),
    ],
    "session_scores": [
        *("incomplete_criteria", "short_analysis", "numbers_from_reminder", "estimated_usage"),
    ],
}
NEW_TABLES = [
    *("audit_steps", "anchor_scores", "judge_anchors", "judge_bridges", "rubric_texts"),
    *(
        "judge_validations",
        "judge_batches",
        "access_keys",
        "submitted_evaluations",
        "service_events",
    ),
]


def test_events_move_into_one_table_and_evaluations_keep_their_positions(url: str) -> None:
    ledger = open_ledger(url)
    scored = started(ledger).score_id
    times = [NOON.replace(microsecond=250), NOON]
    give_former_events(ledger, [scored, "-"], times)
    ledger.close()

    migrated = open_ledger(url)
    events, scorings = EventStore(migrated), ScoreStore(migrated)
    assert [each.position for each in events.after(0, 9)] == [7, 8]
    assert [each.recorded_at for each in events.after(0, 9)] == times
    assert [each.event_id for each in scorings.events_after(0)] == [9, 10]
    organizations = [each.organization_id for each in ServiceEvents(migrated).after(0)]
    assert organizations == ["acme", "acme", "acme", None]
    started(migrated, "s2#baseline-1")
    assert [each.event_id for each in scorings.events_after(10)] == [11, 12]
    assert differences(migrated.engine) == []
    migrated.close()


def test_a_ledger_of_before_is_migrated(url: str) -> None:
    ledger = open_ledger(url)
    with writing(ledger.engine) as connection:
        for name in NEW_TABLES:
            METADATA.tables[name].drop(connection)
        FORMER_EVENTS.create_all(connection)
        forget_last_looks(connection)
        for table, columns in NEW_COLUMNS.items():
            for column in columns:
                connection.execute(sa.text(f"ALTER TABLE {table} DROP COLUMN {column}"))
    set_revision(ledger.engine, "identities")
    ledger.close()

    migrated = open_ledger(url)
    assert differences(migrated.engine) == []
    migrated.close()


def test_a_missing_index_would_be_noticed(ledger: Ledger) -> None:
    with writing(ledger.engine) as connection:
        connection.execute(sa.text("DROP INDEX parts_by_date"))

    ((what, index),) = differences(ledger.engine)  # type: ignore[misc]
    assert (what, index.name) == ("add_index", "parts_by_date")  # type: ignore[has-type]


def test_a_migration_that_fails_leaves_nothing_behind(url: str) -> None:
    engine = create_ledger_engine(url, 5)
    with writing(engine) as connection:
        connection.execute(sa.text("CREATE TABLE ingest_names (mine INTEGER)"))

    with pytest.raises(LedgerError, match=r"ingest_names.* already exists"):
        bring_up_to_date(engine)

    assert table_names(engine) == {"ingest_names"}
    engine.dispose()


def test_the_newest_revision_is_known_without_alembic(ledger: Ledger) -> None:
    with reading(ledger.engine) as connection:
        scripts = ScriptDirectory.from_config(migration_config(connection))
        assert scripts.get_heads() == [NEWEST_REVISION]
        assert stored_revision(connection) == NEWEST_REVISION


@pytest.mark.parametrize("revision", ["0007", "slots", "9999"])
def test_a_ledger_of_another_version_is_refused_and_stays_as_it_is(url: str, revision: str) -> None:
    ledger = open_ledger(url)
    set_revision(ledger.engine, revision)
    ledger.close()

    with pytest.raises(UnknownRevisionError, match=rf"revision {revision}.*set EVAL_DATA_DIR"):
        open_ledger(url)

    engine = create_ledger_engine(url, 5)
    with reading(engine) as connection:
        assert stored_revision(connection) == revision
    engine.dispose()


def test_a_folder_name_with_a_percent_sign_is_no_problem(tmp_path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path}/100%/ledger.db")
    assert SourceFiles(ledger).all() == []
    ledger.close()
