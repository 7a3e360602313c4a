"""One table of all events that other programs follow."""

import sqlalchemy as sa
from alembic import op

revision = "service_events"
down_revision = "submitted_evaluations"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Move the events of scorings and of effective scores into one table.

    Evaluation events keep their positions, which other systems have stored.
    """
    op.create_table(
        "service_events",
        sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("timestamp_us", sa.BigInteger(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=True),
        sa.Column("session_id", sa.String(), nullable=True),
        sa.Column("session_key", sa.String(), nullable=True),
        sa.Column("session_date", sa.Date(), nullable=True),
        sa.Column("score_id", sa.String(), nullable=True),
        sa.Column("phase", sa.String(), nullable=True),
        sa.Column("total_score", sa.Integer(), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("unique_id", sa.String(), nullable=True),
        sa.Column("payload", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("event_id", name="pk_service_events"),
        sa.UniqueConstraint("unique_id", name="uq_service_events_unique_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("service_events_by_score", "service_events", ["score_id"])
    op.create_index("service_events_by_date", "service_events", ["session_date"])
    op.create_index("service_events_by_time", "service_events", ["timestamp_us"])
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    op.execute(_EVALUATIONS.format(us=_US_POSTGRESQL if is_postgresql else _US_SQLITE))
    op.execute(_SCORINGS)
    if is_postgresql:
        op.execute(_CONTINUE_SEQUENCE)
    op.drop_table("evaluation_events")
    op.drop_table("scoring_events")


_US_POSTGRESQL = "CAST(extract(epoch FROM recorded_at) * 1000000 AS BIGINT)"
_US_SQLITE = (
    "CAST(strftime('%s', recorded_at) AS INTEGER) * 1000000 "
    "+ CAST(substr(recorded_at, 21, 6) AS INTEGER)"
)

_EVALUATIONS = """
INSERT INTO service_events
    (event_id, type, timestamp_us, organization_id, session_key, session_date, unique_id, payload)
SELECT position, kind, {us}, organization_id, session_key, session_date, event_id, payload
FROM evaluation_events
"""

_SCORINGS = """
INSERT INTO service_events
    (event_id, type, timestamp_us, organization_id, session_id, session_key, session_date,
     score_id, phase, total_score, error_message)
SELECT
    (SELECT coalesce(max(event_id), 0) FROM service_events)
    + row_number() OVER (ORDER BY happened.event_id),
    happened.type, happened.timestamp_us, score.organization_id, happened.session_id,
    happened.session_key, score.session_date, happened.score_id, happened.phase,
    happened.total_score, happened.error_message
FROM scoring_events AS happened
LEFT JOIN session_scores AS score ON score.score_id = happened.score_id
"""

_CONTINUE_SEQUENCE = """
SELECT setval(
    pg_get_serial_sequence('service_events', 'event_id'),
    (SELECT coalesce(max(event_id), 0) + 1 FROM service_events),
    false
)
"""
