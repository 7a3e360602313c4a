"""Baseline: tables of profiles, overrides, people, keys, erasures, events and alerts.

They stay as they are when the tables in the code change: later migrations start from here.
"""

import sqlalchemy as sa
from alembic import op


def create_tables() -> None:
    """Create the tables and their indexes."""
    op.create_table(
        "access_keys",
        sa.Column("key_id", sa.CHAR(length=12), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("organization", sa.String(), nullable=True),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("secret_sha256", sa.CHAR(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("key_id", name="pk_access_keys"),
    )
    op.create_index(
        "access_keys_one_in_use",
        "access_keys",
        ["name"],
        unique=True,
        sqlite_where=sa.text("revoked_at IS NULL"),
        postgresql_where=sa.text("revoked_at IS NULL"),
    )
    op.create_table(
        "alerts",
        sa.Column("alert_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("cause", sa.String(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("raised_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("over_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("alert_id", name="pk_alerts"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "alerts_one_open",
        "alerts",
        ["kind", "cause"],
        unique=True,
        sqlite_where=sa.text("over_at IS NULL"),
        postgresql_where=sa.text("over_at IS NULL"),
    )
    op.create_table(
        "audit_samples",
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("session_key", sa.String(), nullable=False),
        sa.Column("profile_id", sa.String(), nullable=False),
        sa.Column("content_hash", sa.String(), nullable=False),
        sa.Column("drawn_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("override_id", sa.Integer(), nullable=True),
        sa.Column("profile_version", sa.Integer(), nullable=True),
        sa.Column("classification_label", sa.String(), nullable=True),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("inclusion_probability", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint(
            "session_date", "organization_id", "session_key", name="pk_audit_samples"
        ),
    )
    op.create_table(
        "audit_steps",
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("annotator", sa.String(), nullable=False),
        sa.Column("step", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=True),
        sa.Column("session_key", sa.String(), nullable=True),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("position", name="pk_audit_steps"),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_steps_by_annotator", "audit_steps", ["annotator"], unique=False)
    op.create_table(
        "erased_events",
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_date", name="pk_erased_events"),
    )
    op.create_table(
        "erasures",
        sa.Column("erasure_id", sa.Integer(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("erasure_id", name="pk_erasures"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "expired_dates",
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("what", sa.String(), nullable=False),
        sa.Column("expired_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("session_date", name="pk_expired_dates"),
    )
    op.create_table(
        "identities",
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("content_hash", sa.CHAR(length=64), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("version", name="pk_identities"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "judge_profiles",
        sa.Column("profile_id", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("content_hash", sa.String(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("rescore_history", sa.Boolean(), nullable=False),
        sa.Column("frozen_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("origin", sa.String(), server_default="file", nullable=False),
        sa.PrimaryKeyConstraint("profile_id", "version", name="pk_judge_profiles"),
    )
    op.create_table(
        "overrides",
        sa.Column("override_id", sa.Integer(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("session_key", sa.String(), nullable=False),
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("profile_id", sa.String(), nullable=False),
        sa.Column("profile_version", sa.Integer(), nullable=False),
        sa.Column("content_hash", sa.String(), nullable=False),
        sa.Column("override_score", sa.Float(), nullable=False),
        sa.Column("scale_min", sa.Float(), nullable=False),
        sa.Column("scale_max", sa.Float(), nullable=False),
        sa.Column("automatic_score", sa.Float(), nullable=True),
        sa.Column("is_confirmation", sa.Boolean(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("annotator", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("criterion_id", sa.String(), nullable=True),
        sa.Column("recorded_by", sa.String(), nullable=True),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("override_id", name="pk_overrides"),
        sqlite_autoincrement=True,
    )
    op.create_index("overrides_by_date", "overrides", ["session_date"], unique=False)
    op.create_table(
        "retractions",
        sa.Column("table_name", sa.String(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("retracted_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("table_name", "id", "owner", name="pk_retractions"),
    )
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
    op.create_index("service_events_by_date", "service_events", ["session_date"], unique=False)
    op.create_index("service_events_by_score", "service_events", ["score_id"], unique=False)
    op.create_index("service_events_by_time", "service_events", ["timestamp_us"], unique=False)
    op.create_table(
        "submitted_evaluations",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("agent_id", sa.String(), nullable=False),
        sa.Column("evaluation_id", sa.String(), nullable=False),
        sa.Column("evaluated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("latency_ms", sa.Float(), nullable=True),
        sa.Column("latency_budget_ms", sa.Float(), nullable=False),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("submitted_by", sa.String(), nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("loaded_into", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint(
            "organization_id", "agent_id", "evaluation_id", name="pk_submitted_evaluations"
        ),
    )
    op.create_index(
        "submitted_evaluations_by_load", "submitted_evaluations", ["loaded_into"], unique=False
    )
    op.create_index(
        "submitted_evaluations_by_time",
        "submitted_evaluations",
        ["organization_id", "agent_id", "evaluated_at"],
        unique=False,
    )
    op.create_table(
        "waiting_dates",
        sa.Column("session_date", sa.Date(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("session_date", name="pk_waiting_dates"),
    )
    op.create_table(
        "erased_rows",
        sa.Column("erasure_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("store", sa.String(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["erasure_id"], ["erasures.erasure_id"], name="fk_erased_rows_erasure_id"
        ),
        sa.PrimaryKeyConstraint("erasure_id", "store", name="pk_erased_rows"),
    )
    op.create_table(
        "forgotten",
        sa.Column("hash", sa.CHAR(length=32), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("erasure_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["erasure_id"], ["erasures.erasure_id"], name="fk_forgotten_erasure_id"
        ),
        sa.PrimaryKeyConstraint("hash", name="pk_forgotten"),
    )
