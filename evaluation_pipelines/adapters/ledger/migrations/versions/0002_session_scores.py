"""Tables of the judge: scorings of sessions, and what happened to them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_IS_OPEN = sa.text("status IN ('pending', 'in_progress')")
_INDEXES = {
    "session_scores_by_session": ["session_key"],
    "session_scores_by_prompt": ["prompt_hash"],
    "session_scores_by_total": ["total_score"],
    "session_scores_by_status": ["status"],
    "session_scores_by_session_status": ["session_key", "status"],
    "session_scores_by_status_start": ["status", "started_at_us"],
    "session_scores_by_date": ["session_date"],
    "session_scores_by_booking": ["booked_at_us"],
}


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "session_scores",
        *_what_is_scored(),
        *_how_it_went(),
        sa.PrimaryKeyConstraint("score_id", name="pk_session_scores"),
    )
    for name, columns in _INDEXES.items():
        op.create_index(name, "session_scores", columns)
    op.create_index(
        "session_scores_one_open",
        "session_scores",
        ["organization_id", "session_key", "judge_profile_id", "judge_model"],
        unique=True,
        sqlite_where=_IS_OPEN,
        postgresql_where=_IS_OPEN,
    )
    _create_events()


def downgrade() -> None:
    """Drop the tables with all that is in them."""
    op.drop_table("scoring_events")
    op.drop_table("session_scores")


def _what_is_scored() -> list[sa.Column[Any]]:
    return [
        *(
            _text(name)
            for name in (
                "score_id",
                "organization_id",
                "session_key",
                "session_id",
                "content_hash",
            )
        ),
        _text("agent_id", nullable=True),
        _text("agent_model", nullable=True),
        sa.Column("session_date", sa.Date, nullable=False),
        _text("judge_profile_id"),
        sa.Column("judge_profile_version", sa.Integer, nullable=False),
        _text("judge_model"),
        _text("rubric"),
        sa.Column("prompt_hash", sa.CHAR(64), nullable=False),
        sa.Column("samples", sa.Integer, nullable=False),
        _text("status"),
        _text("score_triggered_by"),
        sa.Column("scored_at_us", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("takeovers", sa.Integer, nullable=False),
    ]


def _how_it_went() -> list[sa.Column[Any]]:
    integers = ("started_at_us", "completed_at_us", "booked_at_us", "lease_expires_at_us")
    tokens = ("input_tokens", "cached_tokens", "output_tokens")
    documents = (
        "criteria_scores",
        "failure_tags",
        "sample_totals",
        "sample_errors",
        "redactions",
    )
    texts = ("score_analysis", "missing_tools_analysis", "missing_tools_error", "error_message")
    flags = ("retriable", "truncated", "injection_suspected", "inconsistent_total")
    numbers = ("score_spread", "judge_cost_usd", "booked_cost_usd", "latency_ms")
    return [
        *(sa.Column(name, sa.BigInteger, nullable=True) for name in (*integers, *tokens)),
        sa.Column("total_score", sa.Integer, nullable=True),
        sa.Column("turn_log", sa.JSON, nullable=False),
        *(sa.Column(name, sa.JSON, nullable=True) for name in documents),
        *(sa.Column(name, sa.Text, nullable=True) for name in texts),
        *(sa.Column(name, sa.Boolean, nullable=True) for name in flags),
        *(sa.Column(name, sa.Double, nullable=True) for name in numbers),
        _text("content_level", nullable=True),
        _text("lease_owner", nullable=True),
    ]


def _create_events() -> None:
    op.create_table(
        "scoring_events",
        sa.Column("event_id", sa.Integer, nullable=False),
        _text("type"),
        _text("score_id"),
        _text("session_id"),
        _text("session_key"),
        sa.Column("timestamp_us", sa.BigInteger, nullable=False),
        _text("phase", nullable=True),
        sa.Column("total_score", sa.Integer, nullable=True),
        sa.Column("error_message", sa.Text, nullable=True),
        sa.PrimaryKeyConstraint("event_id", name="pk_scoring_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("scoring_events_by_score", "scoring_events", ["score_id"])
    op.create_index("scoring_events_by_session", "scoring_events", ["session_id"])


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.String, nullable=nullable)
