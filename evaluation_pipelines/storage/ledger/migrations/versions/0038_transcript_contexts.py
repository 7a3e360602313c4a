"""Read positions of transcripts keep no session, repository or folder."""

import json

import sqlalchemy as sa
from alembic import op

revision = "transcript_contexts"
down_revision = "transcripts"
branch_labels = None
depends_on = None

_OF_FIRST_LINE = frozenset({"branch", "folder", "parent", "repository", "session"})
_TRANSCRIPTS = sa.table(
    "transcripts", sa.column("path_hash", sa.String), sa.column("context", sa.String)
)


def upgrade() -> None:
    """Remove them: the session may have been erased since then."""
    path_hash = _TRANSCRIPTS.c.path_hash
    for name, context in op.get_bind().execute(sa.select(_TRANSCRIPTS)).all():
        known = json.loads(context).items()
        kept = json.dumps({key: value for key, value in known if key not in _OF_FIRST_LINE})
        op.execute(sa.update(_TRANSCRIPTS).where(path_hash == name).values(context=kept))


def downgrade() -> None:
    """Leave them out: the first line of a transcript has them."""
