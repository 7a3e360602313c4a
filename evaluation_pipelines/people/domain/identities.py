"""Who is who: people, the ids by which telemetry knows them, and their teams, with dates."""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias, get_args

import polars as pl
from pydantic import BaseModel, ConfigDict

from evaluation_pipelines.telemetry.domain.forgotten import Pseudonyms

IdKind: TypeAlias = Literal["email", "user_id", "account_id", "host_user"]

ID_KINDS: tuple[IdKind, ...] = get_args(IdKind)
"""Kinds of ids; if the ids of a session belong to several people, the first kind counts."""

ID_COLUMNS: Mapping[IdKind, str] = {
    "email": "user_email",
    "user_id": "user_id",
    "account_id": "account_id",
    "host_user": "host_user",
}
"""Kind of id -> column of ``agent_sessions``."""


class _Dated(BaseModel):
    """What holds from ``first`` to ``last``, both included; ``None`` is without limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: date | None = None
    last: date | None = None

    def holds_on(self, day: date) -> bool:
        """Return True if it holds on a day."""
        return (self.first or day) <= day <= (self.last or day)

    def overlaps(self, other: "_Dated") -> bool:
        """Return True if both hold on some day."""
        return (self.first or date.min) <= (other.last or date.max) and (
            other.first or date.min
        ) <= (self.last or date.max)


class Identifier(_Dated):
    """An id of a person: of one agent program, or of all if ``agent`` is ``None``."""

    kind: IdKind
    value: str
    agent: str | None = None

    @property
    def key(self) -> tuple[IdKind, str]:
        """Kind and value as they are compared."""
        return self.kind, comparable(self.kind, self.value)

    def is_of(self, agent: str | None, day: date) -> bool:
        """Return True if it counts for sessions of an agent program on a day."""
        return self.agent in {None, agent} and self.holds_on(day)

    def conflicts_with(self, other: "Identifier") -> bool:
        """Return True if a session could have both."""
        agents = {self.agent, other.agent} - {None}
        return self.key == other.key and len(agents) < 2 and self.overlaps(other)


class Membership(_Dated):
    """The team of a person for some time."""

    team: str


class Person(BaseModel):
    """A person with display name, teams and ids."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    person_id: str
    name: str
    teams: tuple[Membership, ...] = ()
    ids: tuple[Identifier, ...] = ()

    def team_on(self, day: date) -> str | None:
        """Return the team of the person on a day."""
        return next((team.team for team in self.teams if team.holds_on(day)), None)


class SentIds(NamedTuple):
    """What a session says about who ran it; ``agent`` is its agent program."""

    agent: str | None
    day: date
    email: str | None
    user_id: str | None
    account_id: str | None
    host_user: str | None


class Identities(BaseModel):
    """All people, sorted by ``person_id``. No id belongs to two people at one time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    people: tuple[Person, ...] = ()

    @cached_property
    def content_hash(self) -> str:
        """Hash of all people."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    @cached_property
    def by_id(self) -> Mapping[str, Person]:
        """``person_id`` -> person."""
        return {person.person_id: person for person in self.people}

    @cached_property
    def _owners(self) -> Mapping[tuple[IdKind, str], list[tuple[Identifier, str]]]:
        owners: dict[tuple[IdKind, str], list[tuple[Identifier, str]]] = {}
        for person in self.people:
            for identifier in person.ids:
                owners.setdefault(identifier.key, []).append((identifier, person.person_id))
        return owners

    def person_of(self, sent: SentIds) -> str | None:
        """Return the ``person_id`` of a session; its own best id if no person has its ids."""
        for kind, value in _sent(sent):
            for identifier, person_id in self._owners.get((kind, comparable(kind, value)), ()):
                if identifier.is_of(sent.agent, sent.day):
                    return person_id
        if sent.email is not None:
            return comparable("email", sent.email)
        return sent.user_id if sent.user_id is not None else sent.account_id


NO_IDENTITIES = Identities()
"""No person is known: every id is a person of its own."""


def comparable(kind: IdKind, value: str) -> str:
    """Return an id as it is compared: email addresses ignore case."""
    return value.lower() if kind == "email" else value


def _sent(sent: SentIds) -> Iterator[tuple[IdKind, str]]:
    for kind in ID_KINDS:
        value = getattr(sent, kind)
        if value is not None:
            yield kind, value


SENT = ("source_cli", "session_date", *(ID_COLUMNS[kind] for kind in ID_KINDS))
"""Columns of ``agent_sessions`` that decide who a person is, in the order of ``SentIds``."""

_FOUND = pl.Schema({"person_id": pl.String(), "person_team": pl.String()})


def with_people(sessions: pl.DataFrame, identities: Identities) -> pl.DataFrame:
    """Return sessions with ``person_id`` and ``team``.

    The team is that of the person on the session date; for someone without one, ``team_id``.

    Args:
        sessions: AGENT_SESSIONS, which may lack both columns.
        identities: Who is who.
    """
    sent = sessions.select(SENT).unique(maintain_order=True)
    people = [_person_and_team(SentIds(*row), identities) for row in sent.rows()]
    found = sent.hstack(pl.DataFrame(people, schema=_FOUND, orient="row"))
    return (
        sessions.drop("person_id", "team", strict=False)
        .join(found, on=SENT, how="left", nulls_equal=True, validate="m:1", maintain_order="left")
        .with_columns(team=pl.coalesce("person_team", "team_id"))
        .drop("person_team")
    )


def _person_and_team(sent: SentIds, identities: Identities) -> tuple[str | None, str | None]:
    person_id = identities.person_of(sent)
    person = identities.by_id.get(person_id or "")
    return person_id, None if person is None else person.team_on(sent.day)


_ID = pl.coalesce(pl.col("user_email").str.to_lowercase(), "user_id", "account_id")


def sessions_by_team(sessions: pl.DataFrame) -> pl.DataFrame:
    """Return a row per team with its people, their ids and repositories, the largest first.

    Args:
        sessions: AGENT_SESSIONS.

    Returns:
        ``team``, ``people`` (number of ``person_id``), ``ids`` (number of email addresses, else
        user ids, else account ids), ``sessions`` (windows) and ``repositories`` (sorted list).
    """
    return (
        sessions.group_by("team")
        .agg(
            people=pl.col("person_id").drop_nulls().n_unique(),
            ids=_ID.drop_nulls().n_unique(),
            sessions=pl.len(),
            repositories=pl.col("repository").drop_nulls().unique().sort(),
        )
        .sort("sessions", "team", descending=[True, False])
    )


def pseudonymous(identities: Identities, pseudonyms: Pseudonyms) -> Identities:
    """Return the identities with pseudonyms in place of ids and names; teams and dates stay."""
    people = (_person(person, pseudonyms) for person in identities.people)
    return Identities(people=tuple(sorted(people, key=lambda person: person.person_id)))


def _person(person: Person, pseudonyms: Pseudonyms) -> Person:
    own = pseudonyms.of(person.person_id)
    ids = tuple(_identifier(identifier, pseudonyms) for identifier in person.ids)
    return person.model_copy(update={"person_id": own, "name": own, "ids": ids})


def _identifier(identifier: Identifier, pseudonyms: Pseudonyms) -> Identifier:
    if identifier.kind == "account_id":  # stored as the agent program made it
        return identifier
    return identifier.model_copy(update={"value": pseudonyms.of(identifier.value)})
