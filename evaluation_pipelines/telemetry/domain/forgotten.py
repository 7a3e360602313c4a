"""Keyed hashes: of what was forgotten, and as pseudonyms in place of ids of people and hosts.

Nothing of it can be read: a hash only tells whether a value that comes is one that was forgotten,
and only with the key.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec
import polars as pl

from evaluation_pipelines.telemetry.domain.organizations import (
    ANY_ORGANIZATION,
    NO_ORGANIZATION,
    named_organizations,
)

Kind: TypeAlias = Literal["session", "session_id", "id", "organization"]

_WORDS = re.compile(r"""[\s"'\\,<>()\[\]{}|=]+""")
_OF_PEOPLE = ("user_email", "user_id", "account_id", "host_user")
_SESSION = ("organization_id", "session_id")
_WORDS_KEPT = 2**18
_LONGEST_KEPT = 200
"""Characters of a word that is kept: longer ones, such as encoded files, hardly come again."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Hashes of what was forgotten, each with the time up to which it counts (None: always).

    ``version`` grows with each erasure.
    """

    key: bytes = b""
    hashes: Mapping[str, datetime | None] = field(default_factory=dict)
    version: int = 0
    _words: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __bool__(self) -> bool:
        """Return True if anything was forgotten."""
        return bool(self.hashes)

    def hash_of(self, kind: Kind, *values: str) -> str:
        """Return the keyed hash of a session (organization, session id), an id or organization."""
        lengths = "".join(f"{len(value)}:{value}" for value in (kind, *values))
        return hashlib.blake2b(
            lengths.encode(errors="surrogatepass"), key=self.key, digest_size=16
        ).hexdigest()

    def session_hash(self, organization_id: str | None, session_id: str) -> str:
        """Return the keyed hash of a session; without organization that of its attribution."""
        return self.hash_of("session", organization_id or ANY_ORGANIZATION, session_id)

    def session_hashes(self, organization_id: str | None, session_id: str) -> tuple[str, str]:
        """Return all hashes of a session: the second is of its id alone, as texts name it."""
        alone = self.hash_of("session_id", session_id)
        return self.session_hash(organization_id, session_id), alone

    def id_hash(self, value: str) -> str:
        """Return the keyed hash of an id of a person; email addresses ignore case."""
        return self.hash_of("id", comparable_id(value))

    def has_session(self, organization_id: str | None, session_id: str) -> bool:
        """Return True if a session was forgotten."""
        return self.session_hash(organization_id, session_id) in self.hashes

    def has_id(self, value: str | None, time: datetime | None = None) -> bool:
        """Return True if an id was forgotten, and not after ``time``."""
        return value is not None and self._holds(self.id_hash(value), time)

    def has_organization(self, value: str | None, time: datetime | None = None) -> bool:
        """Return True if an organization was forgotten, and not after ``time``."""
        return value is not None and self._holds(self.hash_of("organization", value), time)

    def has_word(self, word: str) -> bool:
        """Return True if a word is a forgotten id, organization or session id."""
        known = self._words.get(word)
        if known is None:
            if len(self._words) == _WORDS_KEPT:
                self._words.clear()
            is_session = self.hash_of("session_id", word) in self.hashes
            known = is_session or self.has_id(word) or self.has_organization(word)
            if len(word) <= _LONGEST_KEPT:
                self._words[word] = known  # most words come again
        return known

    def is_named_in(self, text: str) -> bool:
        """Return True if a text is, or has as a word, what was forgotten."""
        return self.has_organization(text) or self.has_id(text) or names_forgotten(text, self)

    def _holds(self, hashed: str, time: datetime | None) -> bool:
        if hashed not in self.hashes:
            return False
        until = self.hashes[hashed]
        return until is None or time is None or time <= until


def comparable_id(value: str) -> str:
    """Return an id as it is compared: email addresses ignore case."""
    return value.lower() if "@" in value else value


def names_forgotten(text: str, forgotten: Forgotten) -> bool:
    """Return True if a text has a forgotten id, organization or session as a word.

    Words are parts between white space, quotes and brackets; a session key counts as its session.
    """
    words = {word.strip(".,:;") for word in _WORDS.split(text)}
    sessions = {word.rpartition("#")[0] for word in words if "#" in word}
    return any(map(forgotten.has_word, (words | sessions) - {""}))


def session_is_forgotten(rows: pl.DataFrame, forgotten: Forgotten) -> pl.Series:
    """Return for each row whether its session was forgotten.

    Args:
        rows: With ``organization_id`` and ``session_id``.
        forgotten: What was forgotten.
    """
    return _of_sessions(
        rows,
        {
            (organization, session)
            for organization, session in rows.select(_SESSION).unique().iter_rows()
            if session is not None and forgotten.has_session(organization, session)
        },
    )


def is_forgotten_event(events: pl.DataFrame, forgotten: Forgotten) -> pl.Series:
    """Return for each event whether its session was forgotten, or has an earlier event.

    An event counts as earlier if it has a forgotten id or organization and is not newer than
    the erasure: what a person does afterwards is new telemetry. So do events of the same session
    that name no organization, and those of its sub-agents.

    Args:
        events: EVENTS_WITH_TEXTS, in any order.
        forgotten: What was forgotten.
    """
    seen = events.group_by(*_SESSION, *_OF_PEOPLE).agg(pl.col("event_time").min())
    sessions = {
        (organization, session)
        for organization, session, *ids, time in seen.iter_rows()
        if forgotten.has_session(organization, session)
        or forgotten.has_organization(organization, time)
        or any(forgotten.has_id(identifier, time) for identifier in ids)
    }
    named = named_organizations(events.select(_SESSION).unique(), by=("session_id",))
    sessions |= {
        (NO_ORGANIZATION, session)
        for session, organization in named.iter_rows()
        if (organization, session) in sessions
    }
    sessions |= {
        (organization, subagent)
        for organization, session, subagent in subagents_of(events)
        if (organization, session) in sessions
    }
    own = events.select("organization_id", session_id="subagent_session_id")
    return _of_sessions(events, sessions) | _of_sessions(own, sessions)


def with_forgotten_work(events: pl.DataFrame, forgotten: Forgotten) -> pl.DataFrame:
    """Return events in which those of forgotten sub-agents and traces have their own session.

    They are left out, and the sessions that they name are not.
    """
    gone = [
        own
        for organization, _, own in subagents_of(events)
        if forgotten.has_session(organization, own)
    ]
    is_gone = pl.col("subagent_session_id").is_in(gone)
    own = pl.when(is_gone).then("subagent_session_id").otherwise("session_id")
    return events.with_columns(session_id=own) if gone else events


def subagents_of(events: pl.DataFrame) -> list[tuple[str | None, str, str]]:
    """Return organization, session and own session id of the sub-agents that name their session."""
    is_named = pl.col("subagent_session_id").is_not_null()
    return events.filter(is_named).select(*_SESSION, "subagent_session_id").unique().rows()


def _of_sessions(rows: pl.DataFrame, sessions: set[tuple[str | None, str]]) -> pl.Series:
    found = pl.DataFrame(
        list(sessions), schema=dict.fromkeys(_SESSION, pl.String), orient="row"
    ).with_columns(found=pl.lit(value=True))
    keys = rows.select(_SESSION)
    joined = keys.join(found, on=_SESSION, how="left", nulls_equal=True, maintain_order="left")
    return joined["found"].fill_null(value=False)


ID_COLUMNS = ("user_email", "user_id", "host_user")
"""Columns of events that become pseudonyms; ``account_id`` is one already, made by the agent."""

ATTRIBUTES = frozenset(
    "host.name host.id net.host.name process.owner user.email user.id user.name user.full_name "
    "enduser.id".split()
)
"""Attributes without a column of their own that become pseudonyms."""

_PSEUDONYM = re.compile(r"p-[0-9a-f]{20}")


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """Pseudonyms by a key; without the key they are anonymous."""

    key: bytes

    def of(self, value: str) -> str:
        """Return the pseudonym of an id; email addresses ignore case. A pseudonym is its own."""
        if _PSEUDONYM.fullmatch(value):
            return value
        content = comparable_id(value).encode(errors="surrogatepass")
        return f"p-{hashlib.blake2b(content, key=self.key, digest_size=10).hexdigest()}"

    def events(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return events with pseudonyms: EVENTS_WITH_TEXTS."""
        columns = [self._column(events[name]) for name in ID_COLUMNS]
        return events.with_columns(
            *columns,
            self._texts(events["attributes"]),
            self._session_attributes(events["session_attributes"]),
        )

    def ids(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows with pseudonyms in those columns of ids that they have."""
        return rows.with_columns(
            self._column(rows[name]) for name in ID_COLUMNS if name in rows.columns
        )

    def _column(self, column: pl.Series) -> pl.Series:
        known = {value: self.of(value) for value in column.drop_nulls().unique()}
        return column.replace_strict(known, default=None, return_dtype=pl.String)

    def _texts(self, texts: pl.Series) -> pl.Series:
        """Return JSON texts of attributes with pseudonyms."""
        if texts.null_count() == texts.len():
            return texts
        known = {text: self._text(text) for text in texts.drop_nulls().unique()}
        return texts.replace_strict(known, default=None, return_dtype=pl.String)

    def _text(self, text: str) -> str:
        if not any(name in text for name in ATTRIBUTES):
            return text
        attributes = msgspec.json.decode(text)
        if not isinstance(attributes, dict):
            return text
        return msgspec.json.encode(self._attributes(attributes)).decode()

    def _attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self.of(str(value)) if name in ATTRIBUTES else value
            for name, value in attributes.items()
        }

    def _session_attributes(self, column: pl.Series) -> pl.Series:
        if column.null_count() == column.len():
            return column
        rows = [
            None
            if pairs is None
            else [
                {**pair, "value": self.of(pair["value"])} if pair["key"] in ATTRIBUTES else pair
                for pair in pairs
            ]
            for pairs in column.to_list()
        ]
        return pl.Series(column.name, rows, dtype=column.dtype)
