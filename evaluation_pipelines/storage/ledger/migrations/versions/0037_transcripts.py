"""Positions in the transcripts of agents."""

import sqlalchemy as sa
from alembic import op

revision = "transcripts"
down_revision = "outcomes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "transcripts",
        sa.Column("path_hash", sa.CHAR(32), nullable=False),
        sa.Column("program", sa.String(), nullable=False),
        sa.Column("head_bytes", sa.Integer(), nullable=False),
        sa.Column("head_sha256", sa.String(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("modified_at_ns", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.Column("first_id", sa.String(), nullable=True),
        sa.Column("first_time", sa.String(), nullable=True),
        sa.Column("context", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("path_hash", name="pk_transcripts"),
    )
    op.create_index("transcripts_by_first_id", "transcripts", ["first_id"])
    op.create_table(
        "transcript_lines",
        sa.Column("program", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("is_known", sa.Boolean(), nullable=False),
        sa.Column("line_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "program", "version", "kind", "is_known", name="pk_transcript_lines"
        ),
    )


def downgrade() -> None:
    """Remove the tables: transcripts are then read again, and their events count once."""
    op.drop_table("transcript_lines")
    op.drop_index("transcripts_by_first_id", "transcripts")
    op.drop_table("transcripts")
