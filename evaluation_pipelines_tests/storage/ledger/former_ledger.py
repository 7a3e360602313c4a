"""Ledgers as an earlier version left them, with two tables of events in place of one."""

from datetime import datetime, timedelta

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.revision import VERSION_TABLE
from evaluation_pipelines.storage.ledger.tables import METADATA
from evaluation_pipelines.storage.ledger.tables.columns import UtcTime
from evaluation_pipelines_tests.storage.ledger.ledger_builders import MARCH_1, NOON

FORMER_REVISION = "submitted_evaluations"
"""The last revision with two tables of events."""

FORMER_EVENTS = sa.MetaData()
FORMER_SCORING_EVENTS = sa.Table(
    "scoring_events",
    FORMER_EVENTS,
    sa.Column("event_id", sa.Integer, primary_key=True),
    sa.Column("type", sa.String, nullable=False),
    sa.Column("score_id", sa.String, nullable=False),
    sa.Column("session_id", sa.String, nullable=False),
    sa.Column("session_key", sa.String, nullable=False),
    sa.Column("timestamp_us", sa.BigInteger, nullable=False),
    sa.Column("phase", sa.String),
    sa.Column("total_score", sa.Integer),
    sa.Column("error_message", sa.Text),
)
FORMER_EVALUATION_EVENTS = sa.Table(
    "evaluation_events",
    FORMER_EVENTS,
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("event_id", sa.String, nullable=False, unique=True),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("session_date", sa.Date, nullable=False),
    sa.Column("organization_id", sa.String, nullable=False),
    sa.Column("session_key", sa.String, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("recorded_at", UtcTime, nullable=False),
)
_SCORING = {
    "type": "scoring.completed",
    "session_id": "s1",
    "session_key": "s1#baseline-1",
    "timestamp_us": 1_790_000_000_000_000,
    "total_score": 64,
}
_EVALUATION = {
    "kind": "evaluation.model_feedback",
    "session_date": MARCH_1,
    "organization_id": "acme",
    "session_key": "s1#baseline-1",
    "payload": "{}",
}


def give_former_events(ledger: Ledger, scores: list[str], evaluations: list[datetime]) -> None:
    """Bring the ledger back to the revision before one table had all events.

    Args:
        ledger: A ledger of now, without events.
        scores: The score of each scoring event.
        evaluations: The time of each evaluation event; positions go on from 7.
    """
    with writing(ledger.engine) as connection:
        METADATA.tables["service_events"].drop(connection)
        forget_last_looks(connection)
        FORMER_EVENTS.create_all(connection)
        scorings = [_SCORING | {"score_id": each} for each in scores]
        connection.execute(sa.insert(FORMER_SCORING_EVENTS), scorings)
        rows = [
            _EVALUATION | {"position": 7 + n, "event_id": f"uuid-{n}", "recorded_at": at}
            for n, at in enumerate(evaluations)
        ]
        connection.execute(sa.insert(FORMER_EVALUATION_EVENTS), rows)
    set_revision(ledger.engine, FORMER_REVISION)


def forget_last_looks(connection: sa.Connection) -> None:
    """Take back the newest migrations."""
    for name in (
        "otel_log_reads",
        "otel_log_days",
        "leases",
        "erased_rows",
        "forgotten",
        "erasures",
        "erased_events",
        "expired_dates",
    ):
        METADATA.tables[name].drop(connection)
    for column in ("forgotten", "times_observed", "times_of_ingest"):
        connection.execute(sa.text(f"ALTER TABLE ingest_batches DROP COLUMN {column}"))
    connection.execute(sa.text("ALTER TABLE session_index DROP COLUMN parent_session_id"))
    connection.execute(sa.text("DROP INDEX source_files_by_inode"))
    connection.execute(sa.text("ALTER TABLE source_files DROP COLUMN changed_at_ns"))


def set_revision(engine: sa.Engine, revision: str) -> None:
    """Mark the ledger with a revision."""
    with writing(engine) as connection:
        version = sa.table(VERSION_TABLE, sa.column("version_num"))
        connection.execute(sa.update(version).values(version_num=revision))


def differences(engine: sa.Engine) -> list[object]:
    """What alembic would change to get from the migrated tables to the ones in the code."""
    with reading(engine) as connection:
        options = {"compare_type": True, "version_table": VERSION_TABLE}
        context = MigrationContext.configure(connection, opts=options)
        return list(compare_metadata(context, METADATA))


def minutes(count: int) -> list[datetime]:
    """As many times, a minute apart."""
    return [NOON + timedelta(minutes=number) for number in range(count)]
