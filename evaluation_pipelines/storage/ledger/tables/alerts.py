"""Ledger table of alerts."""

import sqlalchemy as sa

from evaluation_pipelines.storage.ledger.tables.columns import METADATA, UtcTime

_IS_OPEN = sa.text("over_at IS NULL")

ALERTS = sa.Table(
    "alerts",
    METADATA,
    sa.Column("alert_id", sa.Integer, primary_key=True, doc="grows"),
    sa.Column("kind", sa.String, nullable=False, doc="what sort of thing happened"),
    sa.Column("cause", sa.String, nullable=False, doc="which one: the same is told once"),
    sa.Column("title", sa.Text, nullable=False, doc="what happened, in a line"),
    sa.Column("text", sa.Text, nullable=False, doc="where, and what to do"),
    sa.Column("raised_at", UtcTime, nullable=False, doc="when it was noticed"),
    sa.Column("told_at", UtcTime, nullable=True, doc="when the webhook took it; null: not yet"),
    sa.Column("over_at", UtcTime, nullable=True, doc="when it ended: from then on it is news"),
    # One open alert per cause, even in a race.
    sa.Index(
        "alerts_one_open",
        "kind",
        "cause",
        unique=True,
        sqlite_where=_IS_OPEN,
    ),
    sqlite_autoincrement=True,
)
