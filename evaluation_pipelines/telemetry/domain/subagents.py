"""Work of sub-agents, and traces: filed under the session that started them.

A sub-agent may have a session of its own. A record may name the session that started it. Its other
records, earlier and later, often do not, and follow. A trace is a session until one of its spans
names one, and is then filed under that as a whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import polars as pl

from evaluation_pipelines.telemetry.domain.dialects.span_source import UNNAMED
from evaluation_pipelines.telemetry.domain.organizations import ANY_ORGANIZATION, is_counter
from evaluation_pipelines.telemetry.domain.spans import trace_sessions

TRACE = "trace:"
"""Beginning of the id that a trace has as a session."""

Session = tuple[str, str]
"""Organization (empty if the id is that of one session in any of them) and session id."""

Parent = tuple[str, str | None]
"""Session id, and for a trace the key of the span with the name: the smallest key counts.

Of the parents of a sub-agent the first counts.
"""

BY_ROOT, BY_TREE, BY_RECORD = "0:", "0~", "3~"
"""Keys of the parent of a trace that its root names, that follows from its tree, or of a log.

Any other key starts with a number from 1 to 4.
"""


@dataclass(frozen=True, slots=True)
class SessionStart:
    """Start of a session, of a sub-agent or of a trace.

    Attributes:
        organization_id: Its organization.
        session_id: Its id.
        session_date: Where its events are.
        first_event_time: Time of its first event, as far as that may decide its date.
        parent_session_id: Session under which those of a sub-agent, or a trace, are filed.
        named_by: Key of the parent, see ``Parent``.
        unfiled: Some of its events may have to move.
    """

    organization_id: str
    session_id: str
    session_date: date
    first_event_time: datetime
    parent_session_id: str | None = None
    named_by: str | None = None
    unfiled: bool = False


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


def name_traces(events: pl.DataFrame) -> pl.DataFrame:
    """Return EVENTS_WITH_TEXTS in which spans have the session that they name, or their trace."""
    if events["trace_id"].null_count() == events.height:
        return events
    is_span, trace = pl.col("trace_id").is_not_null(), pl.lit(TRACE) + pl.col("trace_id")
    named = pl.coalesce("span_session_id", "session_id", trace)
    return events.with_columns(
        session_id=pl.when(is_span).then(named).otherwise("session_id"),
        subagent_session_id=pl.when(~is_span)
        .then("subagent_session_id")
        .when(named != trace)
        .then(trace),
    )


@dataclass(frozen=True, slots=True)
class Parents:
    """Parents of sub-agents and traces: ``found`` has that of each."""

    found: Mapping[Session, Parent]

    @classmethod
    def of(cls, stored: Mapping[Session, Parent], named: Mapping[Session, Parent]) -> "Parents":
        """Return the stored parents, and others that events name.

        Nothing is the parent of its own parent: its records are filed under it already.
        """
        known = cls(stored)
        new = {
            child: parent
            for child, parent in named.items()
            if _is_first(parent, stored.get(child))
            and (parent[1] is not None or known.root_of(child[0], parent[0]) != child[1])
        }
        return cls({**stored, **new})

    def root_of(self, organization: str, session_id: str) -> str:
        """Return the session id under which a session is filed.

        Sessions that name each other in a circle have no parent.
        """
        return self._path(organization, session_id)[-1]

    def _path(self, organization: str, session_id: str) -> list[str]:
        """Return a session id, that of its parent, and so on to the one it is filed under."""
        path = [session_id]
        while (parent := self.found.get(session_of(organization, path[-1]))) is not None:
            if parent[0] in path:
                return path[: path.index(parent[0]) + 1]
            path.append(parent[0])
        return path

    def file(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return events, or their texts, filed under the sessions that started their sub-agents.

        What a sub-agent is asked is a text of its parent, and no prompt of a user.
        """
        has_names = "subagent_session_id" in rows.columns
        own = pl.coalesce("subagent_session_id", "session_id") if has_names else "session_id"
        organization = pl.col("organization_id").fill_null(ANY_ORGANIZATION)
        keyed = rows.with_columns(organization=organization, own=own)
        keys = keyed.select("organization", "own", "session_id").unique()
        paths = {key: self._path(*key) for key in keys.select("organization", "own").rows()}
        found = [
            (*key, path[-1], any(not step.startswith(TRACE) for step in path[:-1]))
            for key, path in paths.items()
        ]
        schema = {
            **dict.fromkeys(("organization", "own", "root"), pl.String),
            "is_work": pl.Boolean,
        }
        roots = pl.DataFrame(found, schema, orient="row")
        if roots["root"].equals(roots["own"]) and (keys["own"] == keys["session_id"]).all():
            return rows
        joined = keyed.join(roots, on=["organization", "own"], how="left", maintain_order="left")
        filed = joined.with_columns(session_id="root")
        return (_as_work(filed) if has_names else filed).select(rows.columns)


def _as_work(filed: pl.DataFrame) -> pl.DataFrame:
    """Return events with the columns that tell whether a sub-agent, and which, sent them."""
    is_work = pl.col("is_work")
    is_prompt = pl.col("event_name") == "user_prompt"
    return filed.with_columns(
        subagent_session_id=pl.when(pl.col("root") != pl.col("own")).then("own"),
        event_name=pl.when(is_work & is_prompt).then(pl.lit("other")).otherwise("event_name"),
        subagent=pl.when(is_work).then(pl.col("subagent").fill_null(UNNAMED)).otherwise("subagent"),
        is_subagent=pl.when(~is_work).then("is_subagent"),
    )


def named_parents(events: pl.DataFrame) -> dict[Session, Parent]:
    """Return the parents that events name, of each sub-agent the first, of each trace the best.

    Args:
        events: EVENTS_WITH_TEXTS, with the sessions of ``name_traces``.
    """
    organization = pl.col("organization_id").fill_null(ANY_ORGANIZATION)
    named = events.filter(pl.col("subagent_session_id").is_not_null())
    records = named.filter(pl.col("trace_id").is_null()).select(
        organization, "subagent_session_id", "session_id"
    )
    found: dict[Session, Parent] = {}
    for owner, child, parent in records.unique(maintain_order=True).iter_rows():
        key = BY_RECORD if child.startswith(TRACE) else None
        found.setdefault(session_of(owner, child), (parent, key))
    for child, best in _named_by_spans(events.filter(pl.col("trace_id").is_not_null())):
        found[child] = min(best, found.get(child, best), key=lambda parent: parent[1] or "")
    return found


def _named_by_spans(spans: pl.DataFrame) -> Iterator[tuple[Session, Parent]]:
    """Yield the sessions that traces name: of a span first, else of the resource or of a link."""
    of_resource = pl.col("span_session_id").is_null() & pl.col("subagent_session_id").is_not_null()
    resource = spans.filter(of_resource).with_columns(span_session_id="session_id")
    for is_of_span, rows in ((True, spans), (False, resource)):
        best = trace_sessions(rows)
        times = best["started"].cast(pl.Int64)
        for (organization, trace, session, rank, _, span), started in zip(
            best.iter_rows(), times, strict=True
        ):
            key = f"{rank if is_of_span else 3}:{started:020d}:{span}"
            yield session_of(organization, TRACE + trace), (session, key)


def contested_traces(
    events: pl.DataFrame, stored: Mapping[Session, Parent], found: Mapping[Session, Parent]
) -> set[Session]:
    """Return the traces in which several sessions are named, but none by the root.

    Which one is the outermost follows from all of their spans together.

    Args:
        events: EVENTS_WITH_TEXTS, with the sessions of ``name_traces``.
        stored: Parents known before.
        found: Those and the parents that these events name.
    """
    organization = pl.col("organization_id").fill_null(ANY_ORGANIZATION)
    spans = events.filter(pl.col("trace_id").is_not_null())
    names = spans.group_by(organization, "trace_id").agg(pl.col("span_session_id").unique())
    contested = set[Session]()
    for owner, trace, sessions in names.iter_rows():
        key = session_of(owner, TRACE + trace)
        known, best = stored.get(key), found.get(key)
        several = {*sessions, *(parent[0] for parent in (known, best) if parent)} - {None}
        is_open = len(several) > 1 or (known is not None and known[1] == BY_TREE)
        if is_open and best is not None and not (best[1] or "").startswith(BY_ROOT):
            contested.add(key)
    return contested


def _is_first(new: Parent, known: Parent | None) -> bool:
    """Return True if a parent takes the place of the known one."""
    return known is None or (new[1] is not None and known[1] is not None and new[1] < known[1])
