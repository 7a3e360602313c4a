"""The selection of an erasure: sessions, ids and organization, with its context and errors."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import polars as pl
import sqlalchemy as sa

from evaluation_pipelines.erasure.domain.subject import (
    SEEN_COLUMNS,
    SESSIONS,
    Subject,
    ids_of,
    sessions_of,
    with_nameless,
    with_subagents,
)
from evaluation_pipelines.errors import UserError
from evaluation_pipelines.people.domain.identities import Identities, pseudonymous
from evaluation_pipelines.people.identity_store import IdentityStore
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, AGENT_SESSIONS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.rebuild_queue import expired_dates
from evaluation_pipelines.storage.ledger.tables.telemetry import SESSION_INDEX
from evaluation_pipelines.storage.lock import Hold
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.domain.forgotten import Forgotten, comparable_id
from evaluation_pipelines.telemetry.domain.organizations import (
    ANY_ORGANIZATION,
    NO_ORGANIZATION,
    named_organizations,
)
from evaluation_pipelines.telemetry.domain.subagents import Parents
from evaluation_pipelines.telemetry.forgotten_events import all_pseudonyms
from evaluation_pipelines.telemetry.ledger.ingest_batches import SessionIndex
from evaluation_pipelines.telemetry.session_dates import stored_parents


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be forgotten: SESSIONS, ids of people, and the organization.

    ``people`` are those whose id the subject is by the identities, ``subagents`` those of the
    sessions that are sub-agents of others.
    """

    subject: Subject
    sessions: pl.DataFrame
    ids: frozenset[str]
    is_registered: bool
    people: tuple[str, ...] = ()
    subagents: pl.DataFrame = field(default_factory=SESSIONS.to_frame)

    @property
    def is_empty(self) -> bool:
        """True if nothing is known of the subject."""
        return self.sessions.is_empty() and not self.is_registered

    @property
    def named_sessions(self) -> pl.DataFrame:
        """SESSIONS without attribution, sub-agents, and what named no organization before."""
        named = named_organizations(self.sessions, by=("session_id",))
        nameless = named.select("session_id", organization_id=pl.lit(NO_ORGANIZATION))
        others = pl.concat([nameless.select(SESSIONS.names()), self.subagents])
        return self.sessions.drop_nulls().join(others, on=SESSIONS.names(), how="anti")


def select(stores: Stores, subject: Subject) -> Selection:
    """Return what belongs to a subject, in what has landed and what is built.

    Raises:
        LakeError: A table cannot be read.
        LedgerError: The ledger cannot be used.
    """
    identities = IdentityStore(stores.ledger).current()
    seen = pl.concat([_landed(stores), _indexed(stores), _without_events(stores)]).unique()
    known_as = list(_stored_as(stores, _Known(subject, seen, identities)))
    sessions = [sessions_of(person.seen, person.subject, person.identities) for person in known_as]
    if subject.kind == "person":
        known = seen.select(SESSIONS.names()).unique()
        sessions += [
            with_nameless(_built_sessions(stores, person.subject), known) for person in known_as
        ]
    subagents = _subagents(stores)
    return Selection(
        subject,
        with_subagents(pl.concat(sessions), subagents).sort(SESSIONS.names()),
        frozenset().union(*(ids_of(person.subject, person.identities) for person in known_as)),
        any(_is_registered(person.subject, person.identities) for person in known_as),
        tuple(sorted({person for row in known_as for person in _people_of(row)})),
        subagents.select(SESSIONS.names()),
    )


def _subagents(stores: Stores) -> pl.DataFrame:
    """Return SESSIONS of all sub-agents, and ``parent_session_id``."""
    children = SessionIndex(stores.ledger).children()
    parents = Parents(stored_parents(children))
    keys = [(child.organization_id, child.session_id) for child in children]
    rows = [(*key, parents.root_of(*key)) for key in keys]
    return pl.DataFrame(rows, {**SESSIONS, "parent_session_id": pl.String}, orient="row")


@dataclass(frozen=True, slots=True)
class _Known:
    """A subject, rows of SEEN_COLUMNS and identities, all with the same kind of ids."""

    subject: Subject
    seen: pl.DataFrame
    identities: Identities


def _stored_as(stores: Stores, known: _Known) -> Iterator[_Known]:
    """Yield what is known as it is, and with pseudonyms in place of ids if there ever were any.

    Telemetry that is older than pseudonyms has ids, and identities may have either.
    """
    yield known
    pseudonyms = all_pseudonyms(stores.settings)
    if pseudonyms is not None and known.subject.kind in {"person", "user"}:
        yield _Known(
            replace(known.subject, value=pseudonyms.of(known.subject.value)),
            pseudonyms.ids(known.seen),
            pseudonymous(known.identities, pseudonyms),
        )


def _people_of(known: _Known) -> Iterator[str]:
    """Yield the people whose id, of any kind, the subject is."""
    if known.subject.kind not in {"person", "user"}:
        return
    wanted = comparable_id(known.subject.value)
    for person in known.identities.people:
        if wanted in {comparable_id(identifier.value) for identifier in person.ids} or (
            known.subject.kind == "user" and person.person_id == known.subject.value
        ):
            yield person.person_id


def _landed(stores: Stores) -> pl.DataFrame:
    """Return the distinct SEEN_COLUMNS of all landed events."""
    frames = [
        stores.lake.read_part(part, AGENT_EVENTS_LANDED, SEEN_COLUMNS).unique()
        for part in stores.lake.parts(AGENT_EVENTS_LANDED)
    ]
    return pl.concat([AGENT_EVENTS_LANDED.no_rows.select(SEEN_COLUMNS), *frames]).unique()


def _without_events(stores: Stores) -> pl.DataFrame:
    """Return SEEN_COLUMNS of the sessions whose events have expired, as they were built."""
    days = [day for day, what in expired_dates(stores.ledger).items() if what == "events"]
    return stores.lake.read(AGENT_SESSIONS, sorted(days), SEEN_COLUMNS).unique()


def _indexed(stores: Stores) -> pl.DataFrame:
    """Return SEEN_COLUMNS of all sessions whose start is known, without ids."""
    columns = (SESSION_INDEX.c.organization_id, SESSION_INDEX.c.session_id)
    with reading(stores.ledger.engine) as connection:
        rows = [tuple(row) for row in connection.execute(sa.select(*columns))]
    index = pl.DataFrame(rows, schema=SESSIONS, orient="row")
    organization = pl.col("organization_id").replace(ANY_ORGANIZATION, None)
    empty = AGENT_EVENTS_LANDED.no_rows.select(SEEN_COLUMNS)
    return pl.concat([empty, index.with_columns(organization)], how="diagonal")


def _built_sessions(stores: Stores, subject: Subject) -> pl.DataFrame:
    """Return the sessions of a person as the last build has filed them."""
    is_of = pl.col("person_id") == subject.value
    days = stores.lake.partitions(AGENT_SESSIONS)
    return stores.lake.read(AGENT_SESSIONS, days, SESSIONS.names(), is_of).unique()


def _is_registered(subject: Subject, identities: Identities) -> bool:
    return subject.kind == "person" and subject.value in identities.by_id


@dataclass(frozen=True, slots=True)
class ErasureContext:
    """An erasure under way.

    Attributes:
        stores: Where to erase.
        forgotten: All that was ever forgotten: each erasure also does what an interrupted one left.
        erasure_id: The erasure that counts the rows.
        hold: The lock of the erasure: checked before each change that is no commit of a part.
        clock: Returns the current time.
        report: Called after each commit with a few words on it, to show progress.
    """

    stores: Stores
    forgotten: Forgotten
    erasure_id: int
    hold: Hold
    clock: Callable[[], datetime]
    report: Callable[[str], None]

    def done(self, what: str) -> None:
        """Report a commit, and note that the erasure goes on."""
        self.hold.note_progress()
        self.report(what)


_WHERE = {
    "person": "people list shows who is known, people list unknown the rest",
    "user": "people list unknown shows the ids that telemetry has",
    "session": "sessions lists them",
    "organization": "sessions lists them",
}


class NothingKnownError(UserError):
    """Nothing is known of what is to be forgotten; nothing was changed."""

    def __init__(self, subject: Subject, people: Sequence[str] = ()) -> None:
        super().__init__(
            _another_option(subject, people)
            or f"Nothing is known of the {subject.kind} {subject.value!r}: "
            f"{_wanted_option(subject)}. Telemetry that was not read yet is known after: "
            "evaluation-pipelines ingest"
        )


def _another_option(subject: Subject, people: Sequence[str]) -> str | None:
    """Return what to type for an id of people: only the user decides that all of them goes."""
    if not people:
        return None
    ways = [(f"everything of {person}", "person", person) for person in people]
    if subject.kind == "person":
        ways.append(("only sessions with this id, if there are any", "user", subject.value))
    what = "a person" if subject.value in people else f"an id of {' and '.join(people)}"
    return (
        f"{subject.value!r} is {what} in the identities file. Nothing was erased. To erase "
        + ", or ".join(
            f"{what}: evaluation-pipelines forget --{option} {shlex.quote(value)}"
            for what, option, value in ways
        )
    )


def _wanted_option(subject: Subject) -> str:
    if subject.kind == "session" and "#" in subject.value:
        own = shlex.quote(subject.value.rpartition("#")[0])
        return f"a session is erased as a whole: use --session {own}"
    return _WHERE[subject.kind]


class NotForgottenError(UserError):
    """Something could not be erased; what was done stays done, and another run does the rest."""


_ALWAYS = (
    ("Dagster's storage and logs", "previews of tables hold ids: dagster run delete, and its logs"),
    ("access logs of the service and of proxies", "they belong to their operators"),
    ("providers of the judge", "prompts and batch files are deleted by the provider's rules"),
    ("keys of the service", "names of keys are given by hand: keys revoke"),
    ("mentions by others", "they are in other people's sessions: forget those, or let text expire"),
    ("copies and exports", "exports, webhook messages and backups stay as they are"),
)
_POSTGRESQL = ("write-ahead log of PostgreSQL", "the server reuses it. Archives are backups")
_SOURCE = ("otel_logs in ClickHouse", "it belongs to its collector: delete from there, or its TTL")
_SERVER = ("logs of the ClickHouse server", "its query log is deleted by its own rules")


def exempt_stores(settings: Settings) -> list[tuple[str, str]]:
    """Return the stores that keep what they have, each with the reason."""
    found = list(_ALWAYS)
    if settings.ledger_url.startswith("postgresql"):
        found.append(_POSTGRESQL)
    if settings.clickhouse_dsn is not None:
        found.append(_SERVER)
    if settings.otel_logs_dsn is not None:
        found.append(_SOURCE)
    return found
