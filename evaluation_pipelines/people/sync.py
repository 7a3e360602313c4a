"""Registration of the identities, and the dates whose sessions they change."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.people.domain.assign import SENT, with_people
from evaluation_pipelines.people.domain.identities import NO_IDENTITIES, Identities
from evaluation_pipelines.people.domain.parse import IdentitiesError
from evaluation_pipelines.people.domain.pseudonymous import pseudonymous
from evaluation_pipelines.people.identity_file import read_identities
from evaluation_pipelines.people.identity_store import IdentityStore
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.storage.lake import Lake, LakeError
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.forgotten_events import pseudonyms_of

_ASSIGNED = ("person_id", "team")


@dataclass(frozen=True, slots=True)
class SyncedIdentities:
    """The identities that count, the dates that they made due, and why the file was not used."""

    identities: Identities
    dates: tuple[date, ...] = ()
    fault: str | None = None


def sync_identities(stores: Stores, now: datetime) -> SyncedIdentities:
    """Register the identities of the file if they changed, and queue the dates they change.

    A removed file has no people. A file that cannot be used changes nothing: the identities of
    before still count. Dates that an older version built are queued as well: their sessions have
    no person.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    store = IdentityStore(stores.ledger)
    known = store.registered()
    path = stores.settings.identities_path
    try:
        identities = _stored_form(stores, read_identities(path))
    except FileNotFoundError:
        identities = NO_IDENTITIES
    except IdentitiesError as error:
        return SyncedIdentities(known or NO_IDENTITIES, fault=str(error))
    except OSError as error:
        fault = f"{path} cannot be read: {error.strerror or error}"
        return SyncedIdentities(known or NO_IDENTITIES, fault=fault)
    if known is not None and known.content_hash == identities.content_hash:
        return SyncedIdentities(known)
    changed = _changed_dates(stores, identities)
    store.register(identities, changed, now)
    return SyncedIdentities(identities, tuple(sorted(changed)))


def _stored_form(stores: Stores, identities: Identities) -> Identities:
    """Return the identities as they are stored: with pseudonyms, if the settings say so."""
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
    except LakeError:  # a build makes a damaged file again, and must not fail before it begins
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
