"""Queries for scorecards in the lake, with the current overrides of the ledger applied."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import (
    CONTENT_KEY,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    UTC_TIME,
    Table,
)
from evaluation_pipelines.scorecards.domain.evaluation import with_newest_overrides
from evaluation_pipelines.scorecards.domain.overrides import OVERRIDE_COLUMNS, with_overrides
from evaluation_pipelines.scorecards.ledger.override_store import OverrideStore
from evaluation_pipelines.sessions.chosen import rows_of_chosen
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter, hint
from evaluation_pipelines.storage.stores import Stores


class UnknownNameError(UserError, LookupError):
    """A query asks for a name that no session has."""


class QueryTooWideError(UserError, ValueError):
    """A query names neither a session nor an agent nor a time range."""


class EmptyTimeRangeError(UserError, ValueError):
    """A time range ends before it begins."""


@dataclass(frozen=True, slots=True)
class CardQuery:
    """Conditions that the returned cards meet.

    Attributes:
        session: A session key, or a session id.
        organization: An ``organization_id``.
        agent: An ``agent_id``.
        since: Sessions that started then or later.
        until: Sessions that started before.
        label: A ``classification_label``.
        model: A model.
        profile: A profile id; ``best`` for each session's best match.
        history: Whether to include cards of older content and older profile versions.
        limit: Maximum number of cards; the newest sessions are returned.
        sessions: Only cards of these sessions.
        days: Only sessions with these ``session_date``; ``None`` for all.
    """

    session: str | None = None
    organization: str | None = None
    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    label: str | None = None
    model: str | None = None
    profile: str | None = None
    history: bool = False
    limit: int | None = None
    sessions: SessionFilter = ALL_SESSIONS
    days: Collection[date] | None = None

    def conditions(self) -> list[pl.Expr]:
        """Return conditions on rows of ``scorecards`` or ``session_evaluations``.

        Raises:
            QueryTooWideError: The query names neither a session nor an agent nor a time range.
            EmptyTimeRangeError: ``since`` is not before ``until``.
        """
        restrictions = (self.session, self.agent, self.since, self.until, self.days)
        if all(each is None for each in restrictions):
            raise QueryTooWideError(
                "Name a session, an agent or a time range: --session, --agent, --from, --to."
            )
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise EmptyTimeRangeError(
                f"The time range from {self.since:%Y-%m-%d %H:%M} to {self.until:%Y-%m-%d %H:%M} "
                "is empty: --from must be before --to."
            )
        start = pl.col("started_at")
        found = [pl.col(name) == value for name, value in self.names().items()]
        if self.session is not None:
            found.append(self.is_session())
        if self.since is not None:
            found.append(start >= pl.lit(self.since).cast(UTC_TIME))
        if self.until is not None:
            found.append(start < pl.lit(self.until).cast(UTC_TIME))
        return found

    def names(self) -> dict[str, str]:
        """Return the columns that the query restricts to one name, with the name."""
        names = {
            "organization_id": self.organization,
            "agent_id": self.agent,
            "classification_label": self.label,
            "model": self.model,
        }
        return {name: value for name, value in names.items() if value is not None}

    def is_session(self) -> pl.Expr:
        """Return whether a row belongs to the requested session."""
        return pl.any_horizontal(pl.col("session_key", "session_id") == self.session)


def query_cards(stores: Stores, query: CardQuery) -> pl.DataFrame:
    """Return the SCORECARDS that meet a query, the oldest session first.

    Overrides are read from the ledger, so that new ones count immediately. ``is_best_match`` is as
    of the newest evaluation of the session.

    Raises:
        QueryTooWideError: The query names neither a session nor an agent nor a time range.
        LakeError: A file cannot be read.
    """
    cards = rows_of_chosen(stores.lake, query.sessions, _rows(stores, SCORECARDS, query))
    evaluations = _rows(stores, SESSION_EVALUATIONS, query)
    if not query.history:
        cards = _current(cards, evaluations)
    cards = _with_best_match(cards, evaluations)
    if query.profile == "best":
        cards = cards.filter("is_best_match")
    elif query.profile is not None:
        cards = cards.filter(pl.col("profile_id") == query.profile)
    overridden = _with_current_overrides(stores, cards).sort("started_at", *SCORECARDS.order)
    return _newest(overridden, query.limit)


def query_unscored(stores: Stores, query: CardQuery) -> pl.DataFrame:
    """Return the evaluations that meet a query and have no card of their best match.

    If the query names a profile, only sessions with this best match are returned.

    Returns:
        Rows of SESSION_EVALUATIONS, the oldest session first, and ``annotator`` of the override
        that counts. Overrides are read from the ledger, so that new ones count immediately.
    """
    evaluations = _rows(stores, SESSION_EVALUATIONS, query)
    found = rows_of_chosen(stores.lake, query.sessions, evaluations)
    if query.profile not in {None, "best"}:
        found = found.filter(pl.col("profile_id") == query.profile)
    unscored = found.filter(pl.col("card_id").is_null()).sort("started_at", "session_key")
    overrides = _overrides_of(stores, unscored)
    return _newest(with_newest_overrides(unscored, overrides), query.limit)


def dates_of(stores: Stores, query: CardQuery) -> list[date]:
    """Return the ``session_date`` of the evaluations that meet a query; a card needs one.

    Raises:
        EmptyTimeRangeError: The time range is empty.
        LakeError: A file cannot be read.
    """
    dates = stores.lake.partitions(SESSION_EVALUATIONS)
    conditions = replace(query, days=dates).conditions()
    if not conditions:
        return dates
    where = pl.all_horizontal(conditions)
    found = stores.lake.read(SESSION_EVALUATIONS, dates, ["session_date"], where)
    return found["session_date"].unique().to_list()


def _rows(stores: Stores, table: Table, query: CardQuery) -> pl.DataFrame:
    if query.days is None:
        return stores.lake.select(table, *query.conditions())
    every = pl.lit(value=True)
    return stores.lake.read(table, query.days, where=pl.all_horizontal(every, *query.conditions()))


def refuse_unknown_names(stores: Stores, query: CardQuery) -> None:
    """Raise an error if a query has a misspelled name, rather than no result.

    Raises:
        ProfileError: The profile does not exist.
        UnknownNameError: No session has a name of the query; the message lists known names.
    """
    if query.profile not in {None, "best"}:
        ProfileStore(stores.ledger).registry().find(str(query.profile))
    evaluations = stores.lake.select(SESSION_EVALUATIONS)
    if query.session is not None and evaluations.filter(query.is_session()).is_empty():
        raise UnknownNameError(
            f"There is no session {query.session} among the {evaluations.height} of the lake. "
            "To list them: evaluation-pipelines sessions"
        )
    for column, name in query.names().items():
        known = evaluations[column].unique().drop_nulls().sort().to_list()
        if name not in known:
            raise UnknownNameError(f"No session has the {column} {name}; {hint(name, known)}")


def _current(cards: pl.DataFrame, evaluations: pl.DataFrame) -> pl.DataFrame:
    """Return cards of the content evaluated last, in the newest version of each profile."""
    return (
        cards.join(evaluations.select(CONTENT_KEY), on=CONTENT_KEY, how="semi")
        .sort("profile_version")
        .unique([*CONTENT_KEY, "profile_id"], keep="last")
    )


def _with_best_match(cards: pl.DataFrame, evaluations: pl.DataFrame) -> pl.DataFrame:
    best = evaluations.select(*SESSION_KEY, best_id="profile_id", best_version="profile_version")
    is_best = (pl.col("profile_id") == pl.col("best_id")) & (
        pl.col("profile_version") == pl.col("best_version")
    )
    return (
        cards.join(best, on=SESSION_KEY, how="left")
        .with_columns(is_best_match=is_best.fill_null(value=False))
        .drop("best_id", "best_version")
    )


def _with_current_overrides(stores: Stores, cards: pl.DataFrame) -> pl.DataFrame:
    overrides = _overrides_of(stores, cards)
    return with_overrides(cards.drop(OVERRIDE_COLUMNS), overrides).select(SCORECARDS.schema.names())


def _overrides_of(stores: Stores, rows: pl.DataFrame) -> pl.DataFrame:
    return OverrideStore(stores.ledger).of_dates(rows["session_date"].unique().to_list())


def _newest(rows: pl.DataFrame, limit: int | None) -> pl.DataFrame:
    return rows if limit is None else rows.tail(limit)
