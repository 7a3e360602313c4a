"""Tables around scorecards: judge profiles, overrides, audit samples, events, waiting dates."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    _create_profiles()
    _create_overrides()
    _create_events()


def downgrade() -> None:
    """Drop the tables with all that is in them."""
    for table in (
        "waiting_dates",
        "evaluation_events",
        "audit_samples",
        "overrides",
        "judge_profiles",
    ):
        op.drop_table(table)


def _create_profiles() -> None:
    op.create_table(
        "judge_profiles",
        _text("profile_id"),
        _number("version"),
        _text("content_hash"),
        sa.Column("definition", sa.Text, nullable=False),
        _time("registered_at"),
        sa.Column("rescore_history", sa.Boolean, nullable=False),
        _time("frozen_until", nullable=True),
        sa.PrimaryKeyConstraint("profile_id", "version", name="pk_judge_profiles"),
    )


def _create_overrides() -> None:
    op.create_table(
        "overrides",
        _number("override_id"),
        _text("organization_id"),
        _text("session_key"),
        _day("session_date"),
        _text("profile_id"),
        _number("profile_version"),
        _text("content_hash"),
        _score("override_score"),
        _score("scale_min"),
        _score("scale_max"),
        _score("automatic_score", nullable=True),
        sa.Column("is_confirmation", sa.Boolean, nullable=False),
        _text("source"),
        _text("annotator"),
        _text("reason"),
        _time("made_at"),
        sa.PrimaryKeyConstraint("override_id", name="pk_overrides"),
        sqlite_autoincrement=True,
    )
    op.create_index("overrides_by_date", "overrides", ["session_date"])
    op.create_table(
        "audit_samples",
        _day("session_date"),
        _text("organization_id"),
        _text("session_key"),
        _text("profile_id"),
        _text("content_hash"),
        _time("drawn_at"),
        _number("override_id", nullable=True),
        sa.PrimaryKeyConstraint(
            "session_date", "organization_id", "session_key", name="pk_audit_samples"
        ),
    )


def _create_events() -> None:
    op.create_table(
        "evaluation_events",
        _number("position"),
        _text("event_id"),
        _text("kind"),
        _day("session_date"),
        _text("organization_id"),
        _text("session_key"),
        sa.Column("payload", sa.Text, nullable=False),
        _time("recorded_at"),
        sa.PrimaryKeyConstraint("position", name="pk_evaluation_events"),
        sa.UniqueConstraint("event_id", name="uq_evaluation_events_event_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("evaluation_events_by_date", "evaluation_events", ["session_date"])
    op.create_table(
        "waiting_dates",
        _day("session_date"),
        _time("due_at"),
        sa.PrimaryKeyConstraint("session_date", name="pk_waiting_dates"),
    )


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.String, nullable=False)


def _number(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, nullable=nullable)


def _score(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Float, nullable=nullable)


def _day(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Date, nullable=False)


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)
