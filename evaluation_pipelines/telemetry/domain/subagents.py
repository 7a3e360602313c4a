"""The work of sub-agents with sessions of their own: filed under the session that started them.

A record may name that session; the records after it often do not, and are filed where the first
ones of the same session were.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evaluation_pipelines.telemetry.domain.organizations import ANY_ORGANIZATION, is_counter

UNNAMED = "subagent"
"""Name of a sub-agent that sends none."""

Session = tuple[str, str]
"""Organization (empty if the id is that of one session in any of them) and session id."""


def session_of(organization: str, session_id: str) -> Session:
    """Return what identifies a session among those of all organizations."""
    return (organization if is_counter(session_id) else "", session_id)


def file_under_parents(columns: dict[str, Sequence[Any]], count: int) -> None:
    """File the records that name the session of their parent under it.

    What a sub-agent is asked is a text of its parent, and no prompt of a user.
    """
    parents = columns.pop("parent_session_id", None)
    if parents is None:
        return
    nothing = [None] * count
    sent = columns.get("session_id") or nothing
    is_child = [
        parent not in {None, session} for parent, session in zip(parents, sent, strict=True)
    ]
    names = ("event_name", "subagent", "is_subagent")
    events, subagents, marks = (columns.get(name) or nothing for name in names)

    def where_child(values: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        return [
            value if child else other
            for child, value, other in zip(is_child, values, others, strict=True)
        ]

    columns["session_id"] = where_child(parents, sent)
    columns["subagent_session_id"] = where_child(sent, nothing)
    columns["event_name"] = where_child(
        ["other" if event == "user_prompt" else event for event in events], events
    )
    columns["subagent"] = where_child([each or UNNAMED for each in subagents], subagents)
    columns["is_subagent"] = where_child(nothing, marks)


@dataclass(frozen=True, slots=True)
class Parents:
    """Which sessions are of sub-agents: ``found`` has the session id that each is filed under.

    None there is a session of its own: what it began as, it stays.
    """

    found: Mapping[Session, str | None]

    def root_of(self, organization: str, session_id: str) -> str:
        """Return the session id under which a session is filed."""
        seen = {session_id}
        while True:
            parent = self.found.get(session_of(organization, session_id))
            if parent is None or parent in seen:
                return session_id
            seen.add(parent)
            session_id = parent

    def file(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return events filed under the sessions that started their sub-agents."""
        own = pl.coalesce("subagent_session_id", "session_id")
        organization = pl.col("organization_id").fill_null(ANY_ORGANIZATION)
        keys = events.select(organization=organization, own=own).unique()
        rows = [(*key, self.root_of(*key)) for key in keys.iter_rows()]
        is_named = events["subagent_session_id"].is_not_null().any()
        if not is_named and all(own == root for _, own, root in rows):
            return events
        roots = pl.DataFrame(rows, {**keys.schema, "root": pl.String}, orient="row")
        joined = events.with_columns(organization=organization, own=own).join(
            roots, on=["organization", "own"], how="left", maintain_order="left"
        )
        is_child = pl.col("root") != pl.col("own")
        was_named = pl.col("subagent_session_id").is_not_null()
        is_prompt = pl.col("event_name") == "user_prompt"
        return joined.with_columns(
            session_id="root",
            subagent_session_id=pl.when(is_child).then("own"),
            event_name=pl.when(is_child & is_prompt).then(pl.lit("other")).otherwise("event_name"),
            subagent=pl.when(is_child)
            .then(pl.col("subagent").fill_null(UNNAMED))
            .otherwise("subagent"),
            is_subagent=pl.when(~is_child).then(
                pl.when(was_named).then(pl.lit(value=True)).otherwise("is_subagent")
            ),
        ).select(events.columns)


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
