"""The outbox in the ledger: changed evaluations of each session, in the order of their changes.

It has one row per session with a hash of each evaluation. The evaluations are read when they are
sent: the outbox does not grow while a receiver is down, and a late receiver gets the current ones.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from time import monotonic
from uuid import UUID, uuid5

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.evaluations.domain.results import (
    CARD_COLUMNS,
    JUDGMENT_COLUMNS,
    SESSION_COLUMNS,
    WITHDRAWN,
    evaluations,
)
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    EVALUATION_EVENTS,
    JUDGE_SCORES,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
)
from evaluation_pipelines.scorecards.blind_reviews import waiting_samples
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.store import OverrideStore
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.evaluations import (
    EVALUATION_DATES,
    EVALUATION_OUTBOX,
)
from evaluation_pipelines.storage.lock import Hold, held
from evaluation_pipelines.storage.store import make_key
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import Pseudonyms
from evaluation_pipelines.times import to_us
from evaluation_pipelines.views.sessions import files_by_date, sessions

NOTE = "note evaluations"
"""Lock of the process that notes changes: positions grow in the order of commits."""

_READ = (AGENT_SESSIONS, SESSION_EVALUATIONS, SCORECARDS, JUDGE_SCORES)
_NAMESPACE = UUID("0b0a86e6-8f0e-5b43-9d54-6f6f6f0a7d11")
_ROW, _DATE = EVALUATION_OUTBOX.c, EVALUATION_DATES.c
_GONE, _PASSED = "", "passed"
_KEYS_AT_ONCE = 500
_SPAN = ("organization_id", "session_id", "event_time", "trace_id", "span_id", "parent_span_id")


@dataclass(frozen=True, slots=True)
class Change:
    """A session with evaluations that changed.

    ``marks`` has for each evaluation the hash of its content and the position of its last change.
    The hash is empty for one that no longer counts, and ``passed`` for one that a reader passed
    without it.
    """

    organization_id: str
    session_key: str
    session_date: date
    position: int
    marks: Mapping[str, tuple[str, int]]

    @property
    def key(self) -> SessionKey:
        """Organization and key of the session."""
        return self.organization_id, self.session_key


def note_changes(
    stores: Stores, now: datetime, seconds: float = float("inf"), timeout_s: float = 0.0
) -> bool:
    """Note changed evaluations, and return whether all dates were read.

    Sessions that await a blind review are left out until their answer: other programs would show
    their scores.

    Args:
        stores: The stores.
        now: The time.
        seconds: After so long it stops before the next date.
        timeout_s: Seconds to wait for another process that notes changes.

    Raises:
        LockTimeoutError: Another process is at it.
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    waiting = {sample.key: sample.session_date for sample in waiting_samples(stores, None)}
    files, began = files_by_date(stores.lake, _READ), monotonic()
    hashes = {
        day: _hash([*names, *(f"{key}" for key in sorted(waiting) if waiting[key] == day)])
        for day, names in files.items()
    }
    outbox = Outbox(stores.ledger)
    if not outbox.unread(hashes):
        return True
    with held(stores.ledger, NOTE, timeout_s=timeout_s) as hold:
        for day in outbox.unread(hashes):
            if monotonic() - began > seconds:
                return False
            outbox.note(hold, day, hashes[day], current_evaluations(stores, [day]), waiting, now)
    return True


class Outbox:
    """Operations on the outbox, each in one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine

    def unread(self, hashes: Mapping[date, str]) -> list[date]:
        """Return the dates whose files the outbox has not seen, the oldest first."""
        with reading(self._engine) as connection:
            seen = {row[0]: row[1] for row in connection.execute(sa.select(EVALUATION_DATES))}
        return sorted(day for day, files in hashes.items() if seen.get(day) != files)

    def note(
        self,
        hold: Hold,
        day: date,
        files_hash: str,
        found: pl.DataFrame,
        waiting: Collection[SessionKey],
        now: datetime,
    ) -> int:
        """Note the EVALUATIONS of a date, and return how many sessions changed."""
        current: dict[SessionKey, dict[str, str]] = {}
        for owner, key, name, content in found.select(*SESSION_KEY, "name", "content").iter_rows():
            current.setdefault((owner, key), {})[name] = content
        with writing(self._engine) as connection:
            hold.check(connection)
            known = _known_rows(connection, day, current)
            newest = connection.scalar(sa.select(sa.func.max(_ROW.position))) or 0
            first = position = max(newest + 1, to_us(now))
            rows = list[dict[str, object]]()
            for key in sorted((current.keys() | known.keys()) - set(waiting)):
                old = known.get(key) or Change(*key, day, position, {})
                marks = _marks(old.marks, current.get(key, {}), position)
                is_changed = marks != old.marks
                if is_changed or old.session_date != day:
                    session = dict(zip(SESSION_KEY, key, strict=True))
                    at = position if is_changed else old.position
                    rows.append({**session, "position": at, "marks": json.dumps(marks)})
                    position += is_changed
            insert = insert_into(connection, EVALUATION_OUTBOX)
            names = ("session_date", "position", "marks")
            changed = {name: insert.excluded[name] for name in names}
            if rows:
                upsert = insert.on_conflict_do_update(index_elements=SESSION_KEY, set_=changed)
                connection.execute(upsert, [{**row, "session_date": day} for row in rows])
            seen = insert_into(connection, EVALUATION_DATES)
            seen = seen.values(session_date=day, files_hash=files_hash)
            renewed = {"files_hash": seen.excluded.files_hash}
            connection.execute(
                seen.on_conflict_do_update(index_elements=[_DATE.session_date], set_=renewed)
            )
        return position - first

    def pass_over(self, passed: Sequence[Change]) -> None:
        """Note that a reader passed these marks without their evaluations.

        They get a new position when their session is noted next, also if they are the same then.
        """
        with writing(self._engine) as connection:
            for change in passed:
                is_it = _has_session_key([change.key])
                for row in _changes(connection, is_it, is_locked=True):
                    marks = {
                        name: (_PASSED, mark[1]) if change.marks.get(name) == mark else mark
                        for name, mark in row.marks.items()
                    }
                    update = sa.update(EVALUATION_OUTBOX).where(is_it)
                    connection.execute(update.values(marks=json.dumps(marks)))
            days = {entry.session_date for entry in passed}
            connection.execute(sa.delete(EVALUATION_DATES).where(_DATE.session_date.in_(days)))

    def after(self, position: int, limit: int, organization: str | None = None) -> list[Change]:
        """Return the next sessions that changed after a position, of one organization or of all."""
        mine = [] if organization is None else [_ROW.organization_id == organization]
        with reading(self._engine) as connection:
            return _changes(connection, _ROW.position > position, *mine, limit=limit)

    def of_session(self, organization: str, key: str) -> list[Change]:
        """Return the row of a session, if it has one."""
        with reading(self._engine) as connection:
            return _changes(connection, _has_session_key([(organization, key)]))


def events_of(
    stores: Stores,
    changes: Sequence[Change],
    after: int,
    waiting: Collection[SessionKey],
    *,
    explained: bool,
) -> pl.DataFrame:
    """Return the evaluations that changed after a position: EVALUATION_EVENTS.

    An evaluation that awaits a blind review, or has changed once more since it was noted, is left
    out: it gets a later position.

    Args:
        stores: The stores.
        changes: Sessions of the outbox.
        after: Position of their reader.
        waiting: Sessions whose scores the reader may not see yet.
        explained: Whether it gets explanations.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    marked = [
        (
            *change.key,
            change.session_key.rpartition("#")[0],
            change.session_date,
            name,
            content,
            position,
        )
        for change in changes
        for name, (content, position) in change.marks.items()
        if position > after
    ]
    schema = EVALUATION_EVENTS.schema
    columns = (*SESSION_KEY, "session_id", "session_date", "name")
    marks = pl.DataFrame(
        marked,
        {column: schema[column] for column in columns} | {"mark": pl.String, "position": pl.Int64},
        orient="row",
    )
    if marks.is_empty():
        return EVALUATION_EVENTS.no_rows
    days = sorted({change.session_date for change in changes})
    seen = {change.key for change in changes} - set(waiting)
    now = current_evaluations(stores, days, seen)
    rows = marks.join(
        now.drop("session_id", "session_date"), on=[*SESSION_KEY, "name"], how="left"
    ).filter(pl.col("mark") == pl.col("content").fill_null(_GONE))
    rows = rows.filter(
        pl.Series([row in seen for row in rows.select(SESSION_KEY).rows()], dtype=pl.Boolean)
    )
    _pass_over_others(stores, changes, after, rows)
    is_gone = pl.col("mark") == _GONE
    ids = [
        str(uuid5(_NAMESPACE, "\0".join(map(str, row))))
        for row in rows.select(*SESSION_KEY, "name", "position").iter_rows()
    ]
    return (
        rows.with_columns(
            event_id=pl.Series(ids, dtype=pl.String),
            label=pl.when(is_gone).then(pl.lit(WITHDRAWN)).otherwise("label"),
            explanation=pl.col("explanation") if explained else None,
            noted_at=pl.from_epoch("position", "us").dt.replace_time_zone("UTC"),
        )
        .join(_root_spans(stores, rows), on=SESSION_KEY, how="left", maintain_order="left")
        .select(schema.names())
        .cast(schema)
        .sort(EVALUATION_EVENTS.order)
    )


def _pass_over_others(
    stores: Stores, changes: Sequence[Change], after: int, rows: pl.DataFrame
) -> None:
    """Note the marks after a position that have no row."""
    found = set(rows.select(*SESSION_KEY, "name").iter_rows())
    passed = [
        replace(change, marks=left)
        for change in changes
        if (
            left := {
                name: mark
                for name, mark in change.marks.items()
                if mark[1] > after and mark[0] != _PASSED and (*change.key, name) not in found
            }
        )
    ]
    if passed:
        Outbox(stores.ledger).pass_over(passed)


def current_evaluations(
    stores: Stores, days: Sequence[date], keys: Collection[SessionKey] | None = None
) -> pl.DataFrame:
    """Return EVALUATIONS of the sessions of some dates, people as pseudonyms.

    Args:
        stores: The stores.
        days: Session dates.
        keys: Organization and key of the sessions, ``None`` for all.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
        SecretKeyError: The key of pseudonyms cannot be read.
    """
    lake = stores.lake
    chosen = None if keys is None else pl.col("session_key").is_in(sorted({k for _, k in keys}))
    rows = sessions(stores, days, chosen).select(SESSION_COLUMNS)
    if keys is not None:
        is_one = [row in keys for row in rows.select(SESSION_KEY).rows()]
        rows = rows.filter(pl.Series(is_one, dtype=pl.Boolean))
    is_card = pl.col("card_id").is_in(rows["card_id"].drop_nulls().implode())
    is_judged = pl.col("session_key").is_in(
        rows.drop_nulls("judge_total")["session_key"].unique().implode()
    )
    overrides = OverrideStore(stores.ledger).of_dates(days)
    return evaluations(
        rows,
        lake.read(SCORECARDS, days, CARD_COLUMNS, is_card),
        lake.read(JUDGE_SCORES, days, JUDGMENT_COLUMNS, is_judged),
        _pseudonymous(stores, overrides),
        ProfileStore(stores.ledger).registry(),
    )


def _pseudonymous(stores: Stores, overrides: pl.DataFrame) -> pl.DataFrame:
    if overrides.is_empty():
        return overrides
    pseudonyms = Pseudonyms(make_key(stores.settings.pseudonym_key_path))
    names = [pseudonyms.of(override) for override in overrides["annotator"]]
    return overrides.with_columns(annotator=pl.Series(names, dtype=pl.String))


def _root_spans(stores: Stores, rows: pl.DataFrame) -> pl.DataFrame:
    """Return SESSION_KEY, ``trace_id`` and ``span_id`` of the first root span of sessions.

    Args:
        stores: The stores.
        rows: SESSION_KEY, ``session_id`` and ``session_date`` of the sessions. Windows of one
            session have its first root span.
    """
    days = rows["session_date"].unique().sort().to_list()
    is_one = pl.col("session_id").is_in(rows["session_id"].unique().implode())
    spans = stores.lake.read(AGENT_EVENTS, days, _SPAN, is_one & pl.col("trace_id").is_not_null())
    is_child = pl.col("parent_span_id").is_not_null()
    first = spans.sort(is_child, "event_time", "span_id").unique(
        ["organization_id", "session_id"], keep="first", maintain_order=True
    )
    found = rows.select(*SESSION_KEY, "session_id").unique()
    spans = first.select("organization_id", "session_id", "trace_id", "span_id")
    return found.join(spans, on=["organization_id", "session_id"]).drop("session_id")


def _changes(
    connection: sa.Connection,
    *where: sa.ColumnElement[bool],
    limit: int | None = None,
    is_locked: bool = False,
) -> list[Change]:
    query = sa.select(EVALUATION_OUTBOX).where(*where).order_by(_ROW.position).limit(limit)
    query = query.with_for_update() if is_locked else query
    return [
        Change(**{**row, "marks": {n: (m[0], m[1]) for n, m in json.loads(row["marks"]).items()}})
        for row in connection.execute(query).mappings()
    ]


def _known_rows(
    connection: sa.Connection, day: date, current: Collection[SessionKey]
) -> dict[SessionKey, Change]:
    """Return the rows of a date, and of its current sessions that had another date before."""
    found = _changes(connection, _ROW.session_date == day, is_locked=True)
    others = sorted(set(current) - {change.key for change in found})
    for start in range(0, len(others), _KEYS_AT_ONCE):
        is_one = _has_session_key(others[start : start + _KEYS_AT_ONCE])
        found += _changes(connection, is_one, is_locked=True)
    return {change.key: change for change in found}


def _has_session_key(keys: Sequence[SessionKey]) -> sa.ColumnElement[bool]:
    return sa.tuple_(_ROW.organization_id, _ROW.session_key).in_(keys)


def _marks(
    known: Mapping[str, tuple[str, int]], current: Mapping[str, str], position: int
) -> dict[str, tuple[str, int]]:
    """Return hash and position of each evaluation. A new, changed or gone one gets ``position``."""
    return {
        name: known[name] if name in known and known[name][0] == content else (content, position)
        for name, content in (dict.fromkeys(known, _GONE) | dict(current)).items()
    }


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
