import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.storage.ledger.engine import create_ledger_engine, reading, writing
from evaluation_pipelines.storage.ledger.errors import LedgerError, UnknownRevisionError
from evaluation_pipelines.storage.ledger.ledger import (
    BASELINE_REVISION,
    NEWEST_REVISION,
    VERSION_TABLE,
    Ledger,
    bring_up_to_date,
    migration_config,
    open_ledger,
    stored_revision,
)
from evaluation_pipelines.storage.ledger.tables import METADATA
from evaluation_pipelines.telemetry.ledger.ingest_batches import SourceFiles
from evaluation_pipelines.telemetry.ledger.transcript_reads import TranscriptReads
from evaluation_pipelines_tests.judging.ledger.score_builders import started
from evaluation_pipelines_tests.storage.ledger.baseline import make_baseline
from evaluation_pipelines_tests.storage.ledger.revisions import differences, set_revision


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
    (index,) = (
        reflected_index
        for reflected_index in indexes
        if reflected_index["name"] == "alerts_one_open"
    )
    assert "over_at IS NULL" in str(index["dialect_options"][f"{dialect}_where"])


@contextmanager
def alembic(engine: sa.Engine) -> Iterator[Config]:
    """Settings of commands of alembic, which work in one transaction."""
    with writing(engine) as connection:
        yield migration_config(connection)


@pytest.fixture
def empty(url: str) -> Iterator[sa.Engine]:
    """A database without a ledger."""
    engine = create_ledger_engine(url, 5)
    yield engine
    engine.dispose()


def test_every_later_revision_goes_up_down_and_up_again(empty: sa.Engine) -> None:
    make_baseline(empty)
    with alembic(empty) as config:
        scripts = ScriptDirectory.from_config(config).walk_revisions()
        baseline, *revisions = [script.revision for script in scripts][::-1]
    assert baseline == BASELINE_REVISION
    for revision in revisions:
        for step, target in ((command.upgrade, "+1"), (command.downgrade, "-1")):
            with alembic(empty) as config:
                step(config, target)
        with alembic(empty) as config:
            command.upgrade(config, revision)
    assert differences(empty) == []


def test_no_way_leads_to_a_revision_before_the_baseline(url: str) -> None:
    ledger = open_ledger(url)
    started(ledger)
    with (
        pytest.raises(UnknownRevisionError, match="first revision that this program knows"),
        alembic(ledger.engine) as config,
    ):
        command.downgrade(config, "base")
    ledger.close()

    again = open_ledger(url)
    (score,) = ScoreStore(again).open_scores()
    assert score.session_key == "s1#baseline-1"
    again.close()


def test_a_ledger_of_the_baseline_opens_and_loses_nothing(empty: sa.Engine, url: str) -> None:
    """Later revisions of the tables in the code reach it by migrations."""
    make_baseline(empty)
    row = {"hash": "0" * 32, "erasure_id": 1}
    with writing(empty) as connection:
        connection.execute(
            sa.text(
                "INSERT INTO erasures (erasure_id, subject, requested_by, requested_at)"
                " VALUES (1, 'person', 'ann', '2026-03-01 12:00:00')"
            )
        )
        connection.execute(
            sa.text("INSERT INTO forgotten (hash, erasure_id) VALUES (:hash, :erasure_id)"), row
        )
        connection.execute(
            sa.text(
                "INSERT INTO source_files (file_id, device, inode, head_bytes, head_sha256, path,"
                " size_bytes, first_seen_at, position, finished_size_bytes, lease_owner,"
                " lease_epoch) VALUES ('f1', 1, 2, 3, 'ab', 'a.jsonl', 9,"
                " '2026-03-01 12:00:00', 7, 0, 'a killed process', 4)"
            )
        )

    ledger = open_ledger(url)
    with reading(ledger.engine) as connection:
        assert stored_revision(connection) == NEWEST_REVISION
        assert connection.scalar(sa.text("SELECT hash FROM forgotten")) == "0" * 32
    assert SourceFiles(ledger).get("f1").position == 7
    assert differences(ledger.engine) == []
    ledger.close()


def test_read_positions_lose_what_names_a_session(empty: sa.Engine, url: str) -> None:
    make_baseline(empty)
    with alembic(empty) as config:
        command.upgrade(config, "transcripts")
    context = {"session": "s1", "parent": "s0", "repository": "r", "branch": "b", "folder": "/f"}
    context |= {"subagent": "Ada"}
    with writing(empty) as connection:
        connection.execute(
            sa.text(
                "INSERT INTO transcripts (path_hash, program, head_bytes, head_sha256, size_bytes,"
                " modified_at_ns, position, is_open, context)"
                " VALUES (:hash, 'codex', 1, 'ab', 9, 5, 7, :is_open, :context)"
            ),
            {
                "hash": "0" * 32,
                "is_open": False,
                "context": json.dumps(context | {"model": "m", "total": 3}),
            },
        )

    ledger = open_ledger(url)
    (read,) = TranscriptReads(ledger).known(["0" * 32]).values()
    assert (read.position, json.loads(read.context)) == (7, {"model": "m", "total": 3})
    ledger.close()


def test_looks_at_predictions_get_the_level_they_spent(empty: sa.Engine, url: str) -> None:
    make_baseline(empty)
    with alembic(empty) as config:
        command.upgrade(config, "transcript_contexts")
    looks = [(1, "ab"), (2, "merged 2")]
    with writing(empty) as connection:
        for look, runs in looks:
            connection.execute(
                sa.text(
                    "INSERT INTO gate_looks (gate, look, runs, looked_at)"
                    " VALUES ('g', :look, :runs, '2026-03-01 12:00:00')"
                ),
                {"look": look, "runs": runs},
            )

    ledger = open_ledger(url)
    with reading(ledger.engine) as connection:
        found = connection.execute(sa.text("SELECT look, level FROM gate_looks ORDER BY look"))
        assert [tuple(row) for row in found] == [(1, None), (2, pytest.approx(0.05 / 6))]
    ledger.close()


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


@pytest.mark.parametrize("revision", ["0007", "leases", "9999"])
def test_a_ledger_of_another_version_is_refused_and_stays_as_it_is(url: str, revision: str) -> None:
    ledger = open_ledger(url)
    set_revision(ledger.engine, revision)
    ledger.close()

    with pytest.raises(
        UnknownRevisionError,
        match=rf"revision {revision}.*open the ledger once with .* {BASELINE_REVISION}, and then",
    ):
        open_ledger(url)

    engine = create_ledger_engine(url, 5)
    with reading(engine) as connection:
        assert stored_revision(connection) == revision
    engine.dispose()


def test_a_folder_name_with_a_percent_sign_is_no_problem(tmp_path: Path) -> None:
    ledger = open_ledger(f"sqlite:///{tmp_path}/100%/ledger.db")
    assert SourceFiles(ledger).all() == []
    ledger.close()
