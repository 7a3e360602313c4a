"""Reputation in ClickHouse: signals and evaluations, scores, and rows that are forgotten."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import polars as pl

from evaluation_pipelines.reputation.domain.signals import SESSION_DATE, Retraction
from evaluation_pipelines.schemas import (
    AGENT_EVALUATIONS,
    AGENT_WINDOWS,
    REPUTATION_EVENTS,
    REPUTATION_SCORES,
    UTC_TIME,
    Table,
)
from evaluation_pipelines.storage.clickhouse import ClickHouse, ClickHouseError
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.sql_files import clickhouse_migrations, read_clickhouse_sql
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten, names_forgotten

_SIGNALS = pl.Schema(
    {
        "id": pl.String(),
        "identity_id": pl.String(),
        "organization_id": pl.String(),
        "reference_id": pl.String(),
        "words": pl.List(pl.String()),
    }
)
_ID = pl.Schema({"id": pl.String()})
_KEYS = {
    REPUTATION_EVENTS.name: "toString(event_id)",
    "session_signals": "toString(event_id)",
    # An id is unique for its agent alone.
    AGENT_EVALUATIONS.name: r"concat(organization_id, '\0', agent_id, '\0', evaluation_id)",
    REPUTATION_SCORES.name: "toString(identity_id)",
}
_GONE = "erased_ids"
_DROPPED = pl.Schema({"uuid": pl.String(), "name": pl.String()})
_PATIENCE_S = 30.0


def erase_rows(clickhouse: ClickHouse, forgotten: Forgotten) -> Mapping[str, int]:
    """Take all rows about what was forgotten out of the tables; return their numbers.

    It can be interrupted at any time and repeated. Rows that another process writes meanwhile are
    kept.

    Raises:
        ClickHouseError: ClickHouse cannot be used.
    """
    for table in _KEYS:
        _drop(clickhouse, _copy_of(table))
    _drop(clickhouse, _GONE)
    delete_dropped_files(clickhouse, [_copy_of(table) for table in _KEYS])
    ids = _forgotten_ids(clickhouse, forgotten)
    return {table: _rewrite(clickhouse, table, gone) for table, gone in ids.items() if gone}


def _forgotten_ids(clickhouse: ClickHouse, forgotten: Forgotten) -> dict[str, set[str]]:
    """Return the ids of the rows to take out of each table."""
    signals = clickhouse.select("select_signal_references", _SIGNALS)
    evaluations = clickhouse.select("select_evaluation_references", _SIGNALS)
    gone = {name: _named(rows, forgotten) for name, rows in (("s", signals), ("e", evaluations))}
    of_organization = _organization_is_forgotten(signals, forgotten)
    identities = set(signals.filter(of_organization)["identity_id"]) - set(
        signals.filter(~of_organization)["identity_id"]
    )
    evaluated = {key.rpartition("\0")[2] for key in gone["e"]}
    sessions = gone["s"] | {text for text in evaluated if _is_uuid(text)}
    return {
        REPUTATION_EVENTS.name: gone["s"],
        AGENT_EVALUATIONS.name: gone["e"],
        "session_signals": sessions,
        REPUTATION_SCORES.name: identities,
    }


def _named(rows: pl.DataFrame, forgotten: Forgotten) -> set[str]:
    """Return the ids of rows of forgotten sessions, organizations and ids, in any text."""
    texts = rows["words"].explode().drop_nulls().unique()
    named = {text for text in texts if names_forgotten(text, forgotten)}
    return {
        key
        for key, _, organization, reference, words in rows.iter_rows()
        if forgotten.has_organization(organization)
        or forgotten.has_session(organization or None, reference.rpartition("#")[0] or reference)
        or (not organization and names_forgotten(reference, forgotten))
        or not named.isdisjoint(words)
    }


def _organization_is_forgotten(signals: pl.DataFrame, forgotten: Forgotten) -> pl.Series:
    is_of = [forgotten.has_organization(signal) for signal in signals["organization_id"]]
    return pl.Series(is_of, dtype=pl.Boolean)


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _rewrite(clickhouse: ClickHouse, table: str, gone: set[str]) -> int:
    key, copy = _KEYS[table], _copy_of(table)
    clickhouse.run(f"create table {_GONE} (id String) engine = Memory")
    clickhouse.insert(_GONE, pl.DataFrame({"id": sorted(gone)}, schema=_ID))
    fill = f"select * from {{}} where {key} not in (select id from {_GONE})"  # noqa: S608
    clickhouse.run(f"create table {copy} as {table}")
    clickhouse.run(f"insert into {copy} {fill.format(table)}")
    clickhouse.run(f"exchange tables {table} and {copy}")
    # What was written after the copy was made; rows that are there already replace themselves.
    clickhouse.run(f"insert into {table} {fill.format(copy)}")
    _drop(clickhouse, copy)
    _drop(clickhouse, _GONE)
    return len(gone)


def _copy_of(table: str) -> str:
    return f"{table}_kept"


def _drop(clickhouse: ClickHouse, table: str) -> None:
    clickhouse.run(f"drop table if exists {table} sync")


def delete_dropped_files(clickhouse: ClickHouse, names: Collection[str]) -> None:
    """Delete the files of dropped tables of some names, which no table has now.

    The embedded ClickHouse would keep them until a process uses it for minutes; a server deletes
    them itself.

    Raises:
        ClickHouseError: ClickHouse cannot be used.
    """
    if not clickhouse.is_embedded:
        return
    for uuid, name in _dropped(clickhouse, names):
        try:
            clickhouse.run(f"undrop table {name} uuid '{uuid}'")
        except ClickHouseError as error:  # usually it is being deleted at this moment
            _wait_until_deleted(clickhouse, uuid, name, error)
        else:
            clickhouse.run(f"drop table {name} sync")


def _dropped(clickhouse: ClickHouse, names: Collection[str]) -> list[tuple[str, str]]:
    rows = clickhouse.select("select_dropped_tables", _DROPPED)
    return rows.filter(pl.col("name").is_in(list(names))).rows()


def _wait_until_deleted(
    clickhouse: ClickHouse, uuid: str, name: str, refusal: ClickHouseError
) -> None:
    until = time.monotonic() + _PATIENCE_S
    while (uuid, name) in _dropped(clickhouse, [name]):
        if time.monotonic() > until:
            raise ClickHouseError(
                f"the files of a dropped table {name} are not deleted yet, and it cannot be "
                f"restored for that ({refusal}). Run this again."
            ) from refusal
        time.sleep(0.1)


# A server takes 128 KiB a parameter. Letters that it has to escape count fourfold.
_PARAMETER_BYTES = 100_000
_IDS = {REPUTATION_EVENTS.name: "event_id", AGENT_EVALUATIONS.name: "evaluation_id"}
_OWNERS = {
    REPUTATION_EVENTS.name: ("identity_id",),
    AGENT_EVALUATIONS.name: ("organization_id", "agent_id"),
}
_IS_SESSION = {
    REPUTATION_EVENTS.name: pl.col("attributes")
    .list.eval(pl.element().struct.field("key") == SESSION_DATE)
    .list.any(),
    AGENT_EVALUATIONS.name: pl.col("source") == "session",
}
_PLACES = {
    REPUTATION_EVENTS.name: ("identity_id", "timestamp", "event_id"),
    AGENT_EVALUATIONS.name: ("organization_id", "agent_id", "evaluated_at", "evaluation_id"),
}


def row_key(table: Table) -> pl.Expr:
    """Return what names a row: its id, and for rows of other systems whom it is about."""
    owners = [
        pl.when(~_IS_SESSION[table.name]).then(pl.col(name)).alias(name)
        for name in _OWNERS[table.name]
    ]
    return pl.struct(_IDS[table.name], *owners).alias("key")


def is_retracted(table: Table, retractions: Iterable[Retraction]) -> pl.Expr:
    """Return whether a row of a table was retracted."""
    known = pl.struct(_IDS[table.name], *_OWNERS[table.name])
    whole = [retraction for retraction in retractions if retraction.owner is not None]
    names = [_IDS[table.name], *_OWNERS[table.name]]
    keys = [
        dict(zip(names, (retraction.id, *(retraction.owner or ())), strict=True))
        for retraction in whole
    ]
    schema = pl.Struct(dict.fromkeys(names, pl.String))
    of_any = [retraction.id for retraction in retractions if retraction.owner is None]
    is_named = known.is_in(pl.Series(keys, dtype=schema).implode()) if keys else pl.lit(value=False)
    return is_named | pl.col(_IDS[table.name]).is_in(of_any)


def _stored(clickhouse: ClickHouse, table: Table, ids: Sequence[str]) -> pl.DataFrame:
    """Return live rows of these ids with their ``revision``."""
    return clickhouse.select(f"select_stored_{table.name}", _stored_schema(table), ids=ids)


def _stored_schema(table: Table) -> pl.Schema:
    return pl.Schema([*table.schema.items(), ("revision", pl.Int64())])


def _as_stored(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with the precision of ClickHouse, so that they equal stored ones."""
    single = [name for name in ("score_delta", "confidence") if name in rows.columns]
    return rows.with_columns(pl.col(single).cast(pl.Float32).cast(pl.Float64))


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield as many ids at a time as a parameter can hold."""
    start, size = 0, 0
    for end, identifier in enumerate(ids):
        cost = len(identifier.encode()) + 3 * sum(not letter.isalnum() for letter in identifier) + 3
        if size + cost > _PARAMETER_BYTES:
            yield ids[start:end]
            start, size = end, 0
        size += cost
    if ids:
        yield ids[start:]


_STATUS = pl.Schema([("name", pl.String()), ("row_count", pl.Int64()), ("newest", UTC_TIME)])
_AGENTS = pl.Schema([("organization_id", pl.String()), ("agent_id", pl.String())])
_APPLIED = pl.Schema([("name", pl.String()), ("applied_at", UTC_TIME)])
_SESSIONS = pl.Schema([("session_date", pl.Date()), ("event_id", pl.String())])


class ReputationStore:
    """Signals, evaluations and the scores computed from them.

    A change checks the locks of ``hold``, and raises LockLostError if they are lost.
    """

    def __init__(self, clickhouse: ClickHouse, hold: Hold | None = None) -> None:
        self.hold = hold
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
                "update --tables, or reputation update, which also fills it."
            )

    def made_at(self) -> datetime:
        """Return the time when its first table was created, which identifies a store."""
        return self.applied()["applied_at"].sort().to_list()[0]  # type: ignore[no-any-return]

    def _check(self) -> None:
        if self.hold is not None:
            self.hold.check()

    def upsert(self, table: Table, rows: pl.DataFrame, revision: int) -> int:
        """Insert or replace rows; of several with one key the highest revision counts.

        Args:
            table: One of the two tables.
            rows: Any number, one per ``row_key``.
            revision: Grows with time: of two writers, the larger number wins.

        Returns:
            How many were new or different.

        Raises:
            ClickHouseError: a write was rejected; repeating it completes it.
        """
        self._check()
        rows, written, start = _as_stored(rows), 0, 0
        for ids in _chunks(rows[_IDS[table.name]].to_list()):
            written += self._upsert(table, rows.slice(start, len(ids)), ids, revision)
            start += len(ids)
        return written

    def _upsert(self, table: Table, rows: pl.DataFrame, ids: Sequence[str], revision: int) -> int:
        key, stored = row_key(table), _stored(self._clickhouse, table, ids)
        # Which of several for one key stays is open: the key is written again.
        settled = stored.filter(pl.len().over(key) == 1).select(rows.columns)
        new = rows.join(settled, on=rows.columns, how="anti", nulls_equal=True)
        if new.is_empty():
            return 0
        written = new.with_columns(
            revision=pl.lit(revision, dtype=pl.UInt64), is_deleted=pl.lit(0, dtype=pl.UInt8)
        )
        self._clickhouse.insert(table.name, written)
        # Looked up after writing, so that of two writers at least the later one sees both rows.
        ids = new[_IDS[table.name]].to_list()
        live = _stored(self._clickhouse, table, ids).with_columns(key)
        moved = live.join(new.select(key), on="key", how="semi", nulls_equal=True)
        newest_last = moved.sort("revision", *_PLACES[table.name])
        is_older = pl.int_range(pl.len()).over("key") < pl.len().over("key") - 1
        self._delete(table, newest_last.filter(is_older), revision)
        return new.height

    def retract(self, table: Table, retractions: Sequence[Retraction], revision: int) -> int:
        """Withdraw rows of other systems; return how many were live.

        Raises:
            ClickHouseError: a write was rejected; repeating it completes it.
        """
        self._check()
        live = self.live(table, {retraction.id for retraction in retractions})
        is_meant = ~_IS_SESSION[table.name] & is_retracted(table, retractions)
        return self._delete(table, live.filter(is_meant), revision)

    def retire(self, table: Table, ids: Collection[str], revision: int) -> int:
        """Withdraw sessions by their ids, except newer rows; return how many were live.

        Raises:
            ClickHouseError: a write was rejected; repeating it completes it.
        """
        self._check()
        live = self.live(table, ids).filter(_IS_SESSION[table.name])
        return self._delete(table, live.filter(pl.col("revision") <= revision), revision)

    def _delete(self, table: Table, rows: pl.DataFrame, revision: int) -> int:
        """Replace rows at their places; a newer revision written in between stays."""
        newer = pl.max_horizontal(pl.col("revision") + 1, pl.lit(revision)).cast(pl.UInt64)
        gone = pl.lit(1, dtype=pl.UInt8)
        places = rows.select(*_PLACES[table.name], revision=newer, is_deleted=gone)
        self._clickhouse.insert(table.name, places)
        return rows.height

    def live(self, table: Table, ids: Collection[str]) -> pl.DataFrame:
        """Return the rows that count for these ids, with their ``revision``.

        An id has several rows while a writer moves its row.

        Raises:
            ClickHouseError: the query failed.
        """
        frames = [_stored(self._clickhouse, table, chunk) for chunk in _chunks(sorted(ids))]
        return pl.concat([_stored_schema(table).to_frame(), *frames])

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
        self._check()
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

    def agents(self) -> pl.DataFrame:
        """Return the agents that signals and evaluations name: ``organization_id, agent_id``."""
        return self._clickhouse.select("select_agents", _AGENTS)

    def forget(self, forgotten: Forgotten) -> Mapping[str, int]:
        """Take all rows about what was forgotten out, with their bytes; see ``erase_rows``."""
        self._check()
        return erase_rows(self._clickhouse, forgotten)

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

    def evaluations(self, as_of: datetime) -> pl.DataFrame:
        """Return the newest 500 evaluations of each agent up to a time: AGENT_WINDOWS."""
        return self._clickhouse.select(
            "select_agent_evaluations", AGENT_WINDOWS.schema, as_of=as_of
        )


def revision_at(now: datetime) -> int:
    """Return a revision that grows with time: microseconds since 1970."""
    return int(now.timestamp() * 1_000_000)


def _until(as_of: datetime) -> str:
    return as_of.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
