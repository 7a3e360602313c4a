"""What is to be forgotten, and which sessions are of it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import polars as pl

from evaluation_pipelines.people.domain.identities import Identities, SentIds
from evaluation_pipelines.telemetry.domain.forgotten import comparable_id
from evaluation_pipelines.telemetry.domain.organizations import (
    NO_ORGANIZATION,
    named_organizations,
)

SubjectKind: TypeAlias = Literal["person", "user", "session", "organization"]

ID_COLUMNS = ("user_email", "user_id", "account_id", "host_user")
SEEN_COLUMNS = ("source_cli", "session_date", *ID_COLUMNS, "organization_id", "session_id")
"""Columns of landed events that decide which sessions are chosen; see ``sessions_of``."""

SESSIONS = pl.Schema({"organization_id": pl.String(), "session_id": pl.String()})
"""Sessions: the organization is null where only an attribution names the session."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A person, a user id of any kind, a session or an organization."""

    kind: SubjectKind
    value: str


def sessions_of(seen: pl.DataFrame, subject: Subject, identities: Identities) -> pl.DataFrame:
    """Return the sessions of which an event is of the subject: SESSIONS.

    Records that name no organization are of the session as builds file them. Attribution of a
    session is its own if no other organization has a session with that id that is kept.

    Args:
        seen: Distinct rows of SEEN_COLUMNS.
        subject: What is to be forgotten.
        identities: Who is who; only of a person.
    """
    is_of = _subject_test(subject, identities)
    rows = [row for row in seen.select(SEEN_COLUMNS).iter_rows() if is_of(row)]
    chosen = pl.DataFrame([row[-2:] for row in rows], schema=SESSIONS, orient="row").unique()
    known = seen.select(SESSIONS.names()).unique()
    return _with_attribution(with_nameless(chosen, known), known)


def ids_of(subject: Subject, identities: Identities) -> set[str]:
    """Return the ids that must not come back: of a person those that last."""
    if subject.kind == "user":
        return {subject.value}
    if subject.kind != "person":
        return set()
    person = identities.by_id.get(subject.value)
    # A host user is often one of many machines, and a dated id may be another person's by now.
    known = () if person is None else person.ids
    lasting = {
        identifier.value
        for identifier in known
        if identifier.kind != "host_user" and identifier.last is None
    }
    return {subject.value, *lasting}


def _subject_test(subject: Subject, identities: Identities) -> Callable[[tuple[object, ...]], bool]:
    """Return a function that says whether a row of SEEN_COLUMNS is of the subject."""
    wanted = comparable_id(subject.value)
    match subject.kind:
        case "session":
            return lambda row: row[-1] == subject.value
        case "organization":
            return lambda row: row[-2] == subject.value
        case "user":
            return lambda row: any(
                comparable_id(str(identifier)) == wanted for identifier in _ids(row)
            )
        case "person":
            return lambda row: any(
                comparable_id(person) == wanted for person in _people(row, identities)
            )


def _ids(row: tuple[object, ...]) -> Iterator[object]:
    return (name for name in row[2:6] if name is not None)


def _people(row: tuple[object, ...], identities: Identities) -> Iterable[str]:
    """Return whom an event may be of: by all of its ids, and by each but the host user alone."""
    sent = SentIds(*row[:6])  # type: ignore[arg-type]
    nothing = SentIds(sent.agent, sent.day, None, None, None, None)
    alone = (
        sent,
        nothing._replace(email=sent.email),
        nothing._replace(user_id=sent.user_id),
        nothing._replace(account_id=sent.account_id),
    )
    return filter(None, map(identities.person_of, alone))


def with_nameless(chosen: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Add to chosen sessions their records that name no organization, or the named ones to those.

    They are added even if none has landed: they may still come.

    Args:
        chosen: SESSIONS.
        known: SESSIONS of everything that is known.
    """
    named = named_organizations(known, by=("session_id",)).join(chosen, on="session_id", how="semi")
    twins = [
        named.select(organization_id=organization, session_id="session_id")
        for organization in (pl.col("named"), pl.lit(NO_ORGANIZATION))
    ]
    return pl.concat([chosen, *twins]).unique(maintain_order=True)


def with_subagents(chosen: pl.DataFrame, subagents: pl.DataFrame) -> pl.DataFrame:
    """Add to chosen sessions their sub-agents, and the sessions of chosen sub-agents.

    Args:
        chosen: SESSIONS.
        subagents: SESSIONS of sub-agents, and ``parent_session_id``: whose events theirs are.
    """
    names = SESSIONS.names()
    theirs = subagents.join(chosen, on=names, how="semi")
    parents = theirs.select("organization_id", session_id="parent_session_id")
    of_chosen = pl.concat([chosen, parents]).rename({"session_id": "parent_session_id"})
    children = subagents.join(of_chosen, on=["organization_id", "parent_session_id"], how="semi")
    return pl.concat([chosen, parents, children.select(names)]).unique(maintain_order=True)


def _with_attribution(chosen: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Add the attribution of chosen sessions."""
    kept = known.filter(pl.col("organization_id").is_not_null()).join(
        chosen, on=SESSIONS.names(), how="anti"
    )
    ids = chosen.select("session_id").unique().join(kept, on="session_id", how="anti")
    attribution = ids.select(
        organization_id=pl.lit(None, pl.String), session_id=pl.col("session_id")
    )
    return pl.concat([chosen, attribution]).unique(maintain_order=True)
