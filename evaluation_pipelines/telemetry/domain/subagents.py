"""The work of sub-agents with sessions of their own: filed under the session that started them.

A record may name that session; the others of the sub-agent, before and after it, often do not, and
are filed where those are that do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import polars as pl

from evaluation_pipelines.telemetry.domain.organizations import ANY_ORGANIZATION, is_counter
from evaluation_pipelines.telemetry.domain.spans.source import UNNAMED

Session = tuple[str, str]
"""Organization (empty if the id is that of one session in any of them) and session id."""


@dataclass(frozen=True, slots=True)
class SessionStart:
    """Start of a session, decided by the first of its ingested events.

    ``parent_session_id`` is the session under which those of a sub-agent are filed.
    """

    organization_id: str
    session_id: str
    session_date: date
    first_event_time: datetime
    parent_session_id: str | None = None


def session_of(organization: str, session_id: str) -> Session:
    """Return what identifies a session among those of all organizations."""
    return (organization if is_counter(session_id) else "", session_id)


def name_parents(columns: dict[str, Sequence[Any]], count: int) -> None:
    """Give the records that name the session of their parent its id, and keep their own."""
    parents = columns.pop("parent_session_id", None)
    if parents is None:
        return
    sent = columns.get("session_id") or [None] * count
    pairs = list(zip(parents, sent, strict=True))
    columns["session_id"] = [parent or session for parent, session in pairs]
    columns["subagent_session_id"] = [
        None if parent in {None, session} else session for parent, session in pairs
    ]


@dataclass(frozen=True, slots=True)
class Parents:
    """Which sessions are of sub-agents: ``found`` has the session id of the parent of each."""

    found: Mapping[Session, str]

    @classmethod
    def of(cls, stored: Mapping[Session, str], named: Mapping[Session, str]) -> "Parents":
        """Return the parents that are stored, and those that events name in addition.

        Nothing is the parent of its own parent: its records are filed under it already.
        """
        known = cls(stored)
        new = {
            (organization, child): parent
            for (organization, child), parent in named.items()
            if known.root_of(organization, parent) != child
        }
        return cls({**new, **stored})

    def root_of(self, organization: str, session_id: str) -> str:
        """Return the session id under which a session is filed.

        Sessions that name each other in a circle have no parent.
        """
        path = [session_id]
        while (parent := self.found.get(session_of(organization, path[-1]))) is not None:
            if parent in path:
                return path[path.index(parent)]
            path.append(parent)
        return path[-1]

    def file(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return events, or their texts, filed under the sessions that started their sub-agents.

        What a sub-agent is asked is a text of its parent, and no prompt of a user.
        """
        has_names = "subagent_session_id" in rows.columns
        own = pl.coalesce("subagent_session_id", "session_id") if has_names else "session_id"
        organization = pl.col("organization_id").fill_null(ANY_ORGANIZATION)
        keyed = rows.with_columns(organization=organization, own=own)
        keys = keyed.select("organization", "own", "session_id").unique()
        found = [(*key, self.root_of(*key)) for key in keys.select("organization", "own").rows()]
        roots = pl.DataFrame(
            found, dict.fromkeys(("organization", "own", "root"), pl.String), orient="row"
        ).unique()
        if roots["root"].equals(roots["own"]) and (keys["own"] == keys["session_id"]).all():
            return rows
        joined = keyed.join(roots, on=["organization", "own"], how="left", maintain_order="left")
        filed = joined.with_columns(session_id="root")
        return (_as_work(filed) if has_names else filed).select(rows.columns)


def _as_work(filed: pl.DataFrame) -> pl.DataFrame:
    """Return events with the columns that tell whether a sub-agent, and which, sent them."""
    is_child = pl.col("root") != pl.col("own")
    is_prompt = pl.col("event_name") == "user_prompt"
    return filed.with_columns(
        subagent_session_id=pl.when(is_child).then("own"),
        event_name=pl.when(is_child & is_prompt).then(pl.lit("other")).otherwise("event_name"),
        subagent=pl.when(is_child)
        .then(pl.col("subagent").fill_null(UNNAMED))
        .otherwise("subagent"),
        is_subagent=pl.when(~is_child).then("is_subagent"),
    )


def named_parents(events: pl.DataFrame) -> dict[Session, str]:
    """Return the parents that events name, of each sub-agent the first."""
    organization = pl.col("organization_id").fill_null(ANY_ORGANIZATION)
    named = events.filter(pl.col("subagent_session_id").is_not_null()).select(
        organization, "subagent_session_id", "session_id"
    )
    found: dict[Session, str] = {}
    for owner, child, parent in named.unique(maintain_order=True).iter_rows():
        found.setdefault(session_of(owner, child), parent)
    return found
