"""Read positions of Codex keep no name of a sub-agent."""

import json

import sqlalchemy as sa
from alembic import op

revision = "transcript_nicknames"
down_revision = "look_levels"
branch_labels = None
depends_on = None

_TRANSCRIPTS = sa.table(
    "transcripts",
    sa.column("path_hash", sa.String),
    sa.column("program", sa.String),
    sa.column("context", sa.String),
)


def upgrade() -> None:
    """Remove it: the session may have been erased since then."""
    columns = _TRANSCRIPTS.c
    rows = sa.select(columns.path_hash, columns.context).where(columns.program == "codex")
    for name, context in op.get_bind().execute(rows).all():
        kept = {key: value for key, value in json.loads(context).items() if key != "subagent"}
        changed = sa.update(_TRANSCRIPTS).where(columns.path_hash == name)
        op.execute(changed.values(context=json.dumps(kept)))


def downgrade() -> None:
    """Leave it out: the first line of a transcript has it."""
