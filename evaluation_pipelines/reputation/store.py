"""Store of reputation in ClickHouse; writing the same rows twice changes nothing."""

from collections.abc import Collection
from datetime import UTC, date, datetime
from typing import Any

import polars as pl

from evaluation_pipelines.reputation.upserts import UpsertCounts, live_rows, retire, upsert
from evaluation_pipelines.schemas import AGENT_EVALUATIONS, REPUTATION_SCORES, UTC_TIME, Table
from evaluation_pipelines.storage.clickhouse import ClickHouse, ClickHouseError
from evaluation_pipelines.storage.sql_files import clickhouse_migrations, read_clickhouse_sql

_STATUS = pl.Schema([("name", pl.String()), ("row_count", pl.Int64()), ("newest", UTC_TIME)])
_APPLIED = pl.Schema([("name", pl.String()), ("applied_at", UTC_TIME)])
_SESSIONS = pl.Schema([("session_date", pl.Date()), ("event_id", pl.String())])
_WINDOW = pl.Schema(
    [
        *(
            (name, dtype)
            for name, dtype in AGENT_EVALUATIONS.schema.items()
            if name not in ("source", "reference_id")
        ),
        ("evaluations_in_all", pl.Int64()),
    ]
)


class ReputationStore:
    """Signals, evaluations and the scores computed from them."""

    def __init__(self, clickhouse: ClickHouse) -> None:
        self._clickhouse = clickhouse

    def migrate(self, now: datetime) -> list[str]:
        """Apply missing migrations; return their names."""
        self._clickhouse.run(read_clickhouse_sql("create_schema_migrations"))
        done = set(self.applied()["name"])
        pending = [(name, text) for name, text in clickhouse_migrations() if name not in done]
        for name, text in pending:
            self._clickhouse.run(text)
            row = {"name": [name], "applied_at": [now]}
            self._clickhouse.insert("schema_migrations", pl.DataFrame(row, schema=_APPLIED))
        return [name for name, _ in pending]

    def applied(self) -> pl.DataFrame:
        """Return applied migrations: ``name, applied_at``."""
        return self._clickhouse.select("select_schema_migrations", _APPLIED)

    def expect_migrated(self) -> None:
        """Check that the tables are those of this program, without changing anything.

        Raises:
            ClickHouseError: they do not exist, or are older.
        """
        tables = self._clickhouse.select("select_tables", pl.Schema({"name": pl.String()}))
        is_new = "schema_migrations" not in set(tables["name"])
        done = set() if is_new else set(self.applied()["name"])
        if missing := [name for name, _ in clickhouse_migrations() if name not in done]:
            raise ClickHouseError(
                f"ClickHouse lacks {', '.join(missing)}. Run evaluation-pipelines reputation "
                "migrate, or reputation update, which also fills it."
            )

    def made_at(self) -> datetime:
        """Return the time when its first table was created, which identifies a store."""
        return self.applied()["applied_at"].sort().to_list()[0]  # type: ignore[no-any-return]

    def upsert(self, table: Table, rows: pl.DataFrame, revision: int) -> UpsertCounts:
        """Make these rows the ones that count for their ids; see ``upserts.upsert``."""
        return upsert(self._clickhouse, table, rows, revision)

    def retire(self, table: Table, ids: Collection[str], revision: int) -> int:
        """Withdraw rows by their ids; see ``upserts.retire``."""
        return retire(self._clickhouse, table, ids, revision)

    def live(self, table: Table, ids: Collection[str]) -> pl.DataFrame:
        """Return the rows that count for these ids; see ``upserts.live_rows``."""
        return live_rows(self._clickhouse, table, ids)

    def remember_sessions(
        self, session_dates: Collection[date], sessions: pl.DataFrame
    ) -> set[str]:
        """Record which sessions become signals; return all recorded ids of these dates.

        Args:
            session_dates: The dates of the sessions.
            sessions: ``session_date, event_id``.
        """
        known = self.known_sessions(session_dates)
        new = sessions.join(known, on=known.columns, how="anti")
        self._clickhouse.insert("session_signals", new)
        return set(known["event_id"]) | set(new["event_id"])

    def known_sessions(self, session_dates: Collection[date]) -> pl.DataFrame:
        """Return sessions of these dates that ever were signals: ``session_date, event_id``."""
        days = sorted(session_dates)
        return self._clickhouse.select("select_session_signals", _SESSIONS, session_dates=days)

    def refresh(self) -> None:
        """Refresh ``reputation_scores``, and wait for it."""
        self._clickhouse.run("system refresh view reputation_scores_mv")
        self._clickhouse.run("system wait view reputation_scores_mv")

    def scores(self) -> pl.DataFrame:
        """Return every identity as last computed: REPUTATION_SCORES."""
        return self._clickhouse.select("select_reputation_scores", REPUTATION_SCORES.schema)

    def status(self) -> pl.DataFrame:
        """Return the content of the tables: ``name, row_count, newest`` (null if empty)."""
        return self._clickhouse.select("select_status", _STATUS)

    def score_as_of(self, identity_id: str, as_of: datetime) -> dict[str, Any] | None:
        """Return one identity as of a time; None without a signal in the 120 days before."""
        rows = self._clickhouse.select(
            "select_identity_score_as_of",
            REPUTATION_SCORES.schema,
            identity_id=identity_id,
            as_of=_until(as_of),
        )
        return rows.to_dicts()[0] if rows.height else None

    def scores_as_of(self, as_of: datetime) -> pl.DataFrame:
        """Return every identity with a signal in the 120 days before: REPUTATION_SCORES."""
        name, schema = "select_reputation_scores_as_of", REPUTATION_SCORES.schema
        return self._clickhouse.select(name, schema, as_of=_until(as_of))

    def evaluations(self, as_of: datetime, agent_ids: Collection[str] = ()) -> pl.DataFrame:
        """Return the newest 500 evaluations of each agent up to a time, and how many it ever had.

        Of these agents, or of all if none is named.
        """
        names = sorted(agent_ids)
        return self._clickhouse.select(
            "select_agent_evaluations", _WINDOW, as_of=as_of, agent_ids=names
        )


def revision_at(now: datetime) -> int:
    """Return a revision that grows with time: microseconds since 1970."""
    return int(now.timestamp() * 1_000_000)


def _until(as_of: datetime) -> str:
    return as_of.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
