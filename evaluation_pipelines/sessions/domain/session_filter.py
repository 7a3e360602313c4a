"""Choice of sessions by when, who, where and what, and the names that people type for it.

Every list and report uses the same.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from difflib import get_close_matches

import polars as pl

from evaluation_pipelines.people.domain.identities import Identities, comparable
from evaluation_pipelines.schemas import SESSION_KEY, UTC_TIME


def short_name(repository: str) -> str:
    """Return the last part of the name or address of a repository."""
    name = repository.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return name or repository


def short_names(repositories: Iterable[str | None]) -> Mapping[str, str]:
    """Return the name of each repository next to the others: short where no other one has it."""
    known = {repository for repository in repositories if repository is not None}
    number = Counter(map(short_name, known))
    return {name: name if number[short_name(name)] > 1 else short_name(name) for name in known}


_SHOWN = 5
_NEAR = 0.5
"""From which similarity on, of 0 to 1, a known name may be what was meant."""


def repositories_named(given: str, known: Collection[str]) -> list[str]:
    """Return the repositories with a short name, in alphabetical order."""
    return sorted(name for name in known if short_name(name) == given)


def people_named(given: str, known: Collection[str], identities: Identities) -> list[str]:
    """Return the ids of the people with a name, an email or another id; in alphabetical order.

    Those of whom there are sessions; if there are none, the others.

    Args:
        given: What was typed.
        known: Ids of people that sessions have.
        identities: Who is who.
    """
    found = {name for name in (*known, *identities.by_id) if name == comparable("email", given)}
    for person in identities.people:
        is_id = any(
            identifier.key == (identifier.kind, comparable(identifier.kind, given))
            for identifier in person.ids
        )
        if is_id or person.name.casefold() == given.casefold():
            found.add(person.person_id)
    return sorted(found & set(known)) or sorted(found)


def hint(given: str, known: Collection[str]) -> str:
    """Return which known names may be meant, and else which there are.

    Names come from telemetry: they are quoted, so that none can imitate a line of output.
    """
    by_lower = {name.lower(): name for name in sorted(known)}
    near = get_close_matches(given.lower(), by_lower, n=3, cutoff=_NEAR)
    if near:
        return f"did you mean {' or '.join(repr(by_lower[name]) for name in near)}?"
    shown = ", ".join(repr(name) for name in sorted(known)[:_SHOWN]) or "none"
    more = len(known) - _SHOWN
    return f"known: {shown}{f' and {more} more' if more > 0 else ''}"


FILTER_COLUMNS = {
    "organization": "organization_id",
    "person": "person_id",
    "team": "team",
    "repository": "repository",
    "branch": "branch",
    "environment": "environment",
    "agent": "agent_id",
    "program": "source_cli",
    "masque": "masque",
    "model": "model",
    "variant": "model_variant",
    "label": "classification_label",
    "status": "status",
}
"""Name of a filter -> its column of AGENT_SESSIONS."""


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Values that the chosen sessions have; ``None`` is any.

    Attributes:
        organization: An ``organization_id``.
        person: A ``person_id``.
        team: A ``team``.
        repository: A ``repository``.
        branch: A ``branch``.
        environment: An ``environment``.
        agent: An ``agent_id``.
        program: A ``source_cli``.
        masque: A ``masque``.
        model: A ``model``.
        variant: A ``model_variant``.
        label: A ``classification_label``.
        status: completed, failed or cancelled.
        dates: First and last ``session_date``.
        since: They started then or later.
        until: They started before.
        attributes: Names and values of ``session_attributes``.
    """

    organization: str | None = None
    person: str | None = None
    team: str | None = None
    repository: str | None = None
    branch: str | None = None
    environment: str | None = None
    agent: str | None = None
    program: str | None = None
    masque: str | None = None
    model: str | None = None
    variant: str | None = None
    label: str | None = None
    status: str | None = None
    dates: tuple[date, date] | None = None
    since: datetime | None = None
    until: datetime | None = None
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if every session is chosen."""
        return self == ALL_SESSIONS

    @property
    def columns(self) -> dict[str, str | None]:
        """Values by the name of their field; ``None`` is any."""
        return {name: getattr(self, name) for name in FILTER_COLUMNS}

    def condition(self) -> pl.Expr:
        """Return whether a row of AGENT_SESSIONS is chosen."""
        columns = [
            pl.col(column) == getattr(self, name)
            for name, column in FILTER_COLUMNS.items()
            if getattr(self, name) is not None
        ]
        attributes = [
            pl.col("session_attributes").list.contains(
                pl.struct(key=pl.lit(key), value=pl.lit(value))
            )
            for key, value in self.attributes
        ]
        return pl.all_horizontal(pl.lit(value=True), *columns, *self._times(), *attributes)

    def _times(self) -> Iterator[pl.Expr]:
        started = pl.col("started_at")
        if self.dates is not None:
            yield pl.col("session_date").is_between(*self.dates)
        if self.since is not None:
            yield started >= pl.lit(self.since).cast(UTC_TIME)
        if self.until is not None:
            yield started < pl.lit(self.until).cast(UTC_TIME)

    def rows_of(self, rows: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of chosen sessions, in their order.

        Args:
            rows: Rows with the columns of SESSION_KEY.
            sessions: AGENT_SESSIONS of the same dates.
        """
        if self.is_empty:
            return rows
        chosen = sessions.filter(self.condition()).select(SESSION_KEY)
        return rows.join(chosen, on=SESSION_KEY, how="semi", maintain_order="left")

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield name and value of each condition."""
        for name, value in self.columns.items():
            if value is not None:
                yield name, value
        yield from self.attributes


ALL_SESSIONS = SessionFilter()
"""Every session, by anyone."""
