"""The file of identities with its versions in the ledger, and what reports show of people."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.formatting import pluralize
from evaluation_pipelines.people.domain.identities import (
    NO_IDENTITIES,
    SENT,
    Identities,
    pseudonymous,
    with_people,
)
from evaluation_pipelines.people.domain.parse import IdentitiesError, parse_identities
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS
from evaluation_pipelines.settings.data import PeopleView
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.ledger.engine import reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.rebuild_queue import outdate_begun, touch
from evaluation_pipelines.storage.ledger.tables.people import IDENTITIES
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import ATTRIBUTES
from evaluation_pipelines.telemetry.forgotten_events import pseudonyms_of

_VERSION = IDENTITIES.c


class IdentityStore:
    """Operations on ``identities``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine
        self._as_of = ledger.as_of

    def current(self) -> Identities:
        """Return the identities, as of the ledger's time if it has one; no people if none."""
        return self.registered() or NO_IDENTITIES

    def registered(self) -> Identities | None:
        """Return the identities as ``current`` does; None if none were ever registered."""
        with reading(self._engine) as connection:
            return _stored(connection, self._as_of)

    def register(self, identities: Identities, dates: Collection[date], now: datetime) -> None:
        """Store a new version, and queue the dates whose sessions it changes.

        A build that has begun reads the previous people: its dates stay due.
        """
        row = {
            "content_hash": identities.content_hash,
            "definition": identities.model_dump_json(),
            "registered_at": now,
        }
        with writing(self._engine) as connection:
            is_other = (_stored(connection) or NO_IDENTITIES) != identities
            connection.execute(sa.insert(IDENTITIES).values(row))
            if is_other:
                outdate_begun(connection)
            touch(connection, dates, now)


def _stored(connection: sa.Connection, as_of: datetime | None = None) -> Identities | None:
    query = sa.select(_VERSION.definition).order_by(_VERSION.version.desc()).limit(1)
    if as_of is not None:
        query = query.where(_VERSION.registered_at <= as_of)
    definition = connection.scalar(query)
    return None if definition is None else Identities.model_validate_json(definition)


_MAX_BYTES = 5_000_000


def read_identities(path: Path) -> Identities:
    """Read a file of identities.

    Raises:
        IdentitiesError: The file cannot be used; the message names file and line.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise IdentitiesError(f"{path} is larger than {_MAX_BYTES} bytes, the limit")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"{error.reason} at byte {error.start}"
        raise IdentitiesError(f"{path} is not UTF-8: {reason}") from None
    return parse_identities(text, str(path))


def identities_fingerprint(path: Path) -> str:
    """Return a text that changes when the file is added, changed or removed."""
    try:
        status = path.stat()
    except OSError:
        return "none"
    return f"{status.st_mtime_ns}:{status.st_size}"


def keep_identities(target: Path, source: Path) -> None:
    """Copy a file of identities unchanged to ``target``, unless it is the same file.

    Raises:
        OSError: The file cannot be written.
    """
    if target.exists() and target.samefile(source):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name}.new")
    staged.write_bytes(source.read_bytes())
    staged.replace(target)


_ASSIGNED = ("person_id", "team")


@dataclass(frozen=True, slots=True)
class SyncedIdentities:
    """The identities that count, the dates that they made due, and what is wrong with the file."""

    identities: Identities
    dates: tuple[date, ...] = ()
    fault: str | None = None


def sync_identities(stores: Stores, now: datetime) -> SyncedIdentities:
    """Register the identities of the file if they changed, and queue the dates they change.

    A removed file has no people, which is a fault if there were any. A file that cannot be used
    changes nothing: the previous identities still count. Dates that an older version built are
    queued as well: their sessions have no person.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    store = IdentityStore(stores.ledger)
    known = store.registered()
    path, missing = stores.settings.identities_path, None
    try:
        identities = _stored_form(stores, read_identities(path))
    except FileNotFoundError:
        identities = NO_IDENTITIES
        if known is not None and known.people:
            people = pluralize(len(known.people), "person", "people")
            missing = (
                f"{path} is missing: {people} no longer registered. "
                "Restore it if this was unintended"
            )
    except IdentitiesError as error:
        return SyncedIdentities(known or NO_IDENTITIES, fault=str(error))
    except OSError as error:
        fault = f"{path} cannot be read: {error.strerror or error}"
        return SyncedIdentities(known or NO_IDENTITIES, fault=fault)
    if known is not None and known.content_hash == identities.content_hash:
        return SyncedIdentities(known)
    changed = _changed_dates(stores, identities)
    store.register(identities, changed, now)
    return SyncedIdentities(identities, tuple(sorted(changed)), missing)


def _stored_form(stores: Stores, identities: Identities) -> Identities:
    """Return the identities as they are stored: with pseudonyms if these are set."""
    pseudonyms = pseudonyms_of(stores.settings)
    return identities if pseudonyms is None else pseudonymous(identities, pseudonyms)


def _changed_dates(stores: Stores, identities: Identities) -> set[date]:
    """Return the dates with a session that has another person or team now, or cannot be read."""
    days = stores.lake.partitions(AGENT_SESSIONS)
    return {day for day in days if _is_changed(stores.lake, day, identities)}


def _is_changed(lake: Lake, day: date, identities: Identities) -> bool:
    columns = list(dict.fromkeys([*SENT, "team_id", *_ASSIGNED]))
    try:
        before = lake.read(AGENT_SESSIONS, [day], columns)
    except LakeError:  # a build makes a damaged file again, and must not fail before it starts
        return True
    after = with_people(before, identities)
    return not before.select(_ASSIGNED).equals(after.select(_ASSIGNED))


def unknown_ids(sessions: pl.DataFrame, known: Collection[str]) -> pl.DataFrame:
    """Return ids without a person, those with the most sessions first.

    Args:
        sessions: Columns of AGENT_SESSIONS.
        known: ``person_id`` of everyone in the identities.

    Returns:
        A row per agent program and set of ids: ``source_cli, user_email, user_id, account_id,
        host_user, organizations, teams, repositories`` (sorted lists), the windows of each of
        these in ``organization_sessions, team_sessions, repository_sessions``, ``sessions``
        (windows), ``first_date`` and ``last_date``.
    """
    by = [name for name in SENT if name != "session_date"]
    seen = {
        "organization_id": ("organizations", "organization_sessions"),
        "team_id": ("teams", "team_sessions"),
        "repository": ("repositories", "repository_sessions"),
    }
    found = [part for column, names in seen.items() for part in _seen_of(column, *names)]
    is_unknown = ~pl.col("person_id").is_in(sorted(known)) | pl.col("person_id").is_null()
    return (
        sessions.filter(is_unknown)
        .group_by(by)
        .agg(
            *found,
            sessions=pl.len(),
            first_date=pl.col("session_date").min(),
            last_date=pl.col("session_date").max(),
        )
        .sort("sessions", *by, descending=[True, *[False] * len(by)])
    )


def _seen_of(column: str, values: str, numbers: str) -> Iterator[pl.Expr]:
    """Yield the values of a column, sorted, and the number of rows that have each."""
    known = pl.col(column).drop_nulls()
    yield known.unique().sort().alias(values)
    yield known.sort().rle().struct.field("len").cast(pl.Int64).alias(numbers)


def hidden_columns(view: PeopleView) -> frozenset[str]:
    """Return the columns of events and sessions that a report must not show."""
    hidden = {"person": (), "team": ("person",), "off": ("person", "team")}[view]
    columns = (*AGENT_EVENTS.columns, *AGENT_SESSIONS.columns)
    return frozenset(column.name for column in columns if column.people in hidden)


def hidden_attributes(view: PeopleView) -> frozenset[str]:
    """Return the attributes without a column that name people or their machines."""
    return frozenset() if view == "person" else ATTRIBUTES
