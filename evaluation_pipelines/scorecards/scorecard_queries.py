"""Queries for scorecards in the lake, with current overrides, and for sessions that users name."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from typing import Any

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError
from evaluation_pipelines.profiles.domain.registry import CARD_VERSION, Registry, assign
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import (
    CONTENT_KEY,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_KEY,
    Table,
)
from evaluation_pipelines.scorecards.domain.evaluation import with_newest_overrides
from evaluation_pipelines.scorecards.domain.overrides import OVERRIDE_COLUMNS, with_overrides
from evaluation_pipelines.scorecards.store import OverrideStore
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.sessions.domain.session_filter import FILTER_COLUMNS, SessionFilter, hint
from evaluation_pipelines.sessions.find import SessionName, chosen_rows, find, named_windows
from evaluation_pipelines.storage.stores import Stores


class UnknownNameError(UserError, LookupError):
    """A query asks for a name that no session has."""


class QueryTooWideError(UserError, ValueError):
    """A query names neither a session nor an agent nor a time range."""


class EmptyTimeRangeError(UserError, ValueError):
    """A time range ends before it starts."""


_OF_CARDS = ("organization", "agent", "model", "label", "dates", "since", "until")
"""Filters by columns that cards and evaluations have themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardQuery(SessionFilter):
    """Conditions that the returned cards meet: of their sessions, and these.

    Attributes:
        session: A session key, or a session id.
        profile: A profile id; ``best`` for each session's best match.
        history: Whether to include cards of older content and older profile versions.
        limit: Maximum number of cards; the newest sessions are returned.
        days: Only sessions with these ``session_date``; ``None`` for all.
    """

    session: str | None = None
    profile: str | None = None
    history: bool = False
    limit: int | None = None
    days: Collection[date] | None = None

    @property
    def is_empty(self) -> bool:
        """True if the conditions on cards choose the sessions, without AGENT_SESSIONS."""
        return not any(
            getattr(self, field.name)
            for field in fields(SessionFilter)
            if field.name not in _OF_CARDS
        )

    def conditions(self) -> list[pl.Expr]:
        """Return conditions on rows of ``scorecards`` or ``session_evaluations``.

        Raises:
            QueryTooWideError: The query names neither a session nor an agent nor a time range.
            EmptyTimeRangeError: ``since`` is not before ``until``.
        """
        restrictions = (self.session, self.agent, self.since, self.until, self.days)
        if all(restriction is None for restriction in restrictions):
            raise QueryTooWideError(
                "Name a session, an agent or a time range: --session, --agent, --from, --to."
            )
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise EmptyTimeRangeError(
                f"The time range from {self.since:%Y-%m-%d %H:%M} to {self.until:%Y-%m-%d %H:%M} "
                "is empty: --from must be before --to."
            )
        of_cards = SessionFilter(**{name: getattr(self, name) for name in _OF_CARDS})
        found = [] if of_cards.is_empty else [of_cards.condition()]
        return found if self.session is None else [*found, self.is_session()]

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
    cards = chosen_rows(stores.lake, query, _rows(stores, SCORECARDS, query))
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
    found = chosen_rows(stores.lake, query, evaluations)
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
    for field in ("organization", "agent", "label", "model"):
        name, column = getattr(query, field), FILTER_COLUMNS[field]
        known = evaluations[column].unique().drop_nulls().sort().to_list()
        if name is not None and name not in known:
            raise UnknownNameError(f"No session has the {column} {name}, {hint(name, known)}")


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


Assigned = Mapping[str, Any]
"""A row of ASSIGNMENTS."""

_CARD_SCORE = (*CARD_VERSION, "overall_score")


@dataclass(frozen=True, slots=True)
class Target:
    """The score of a session by one profile, to look at or to correct.

    Attributes:
        session: The row of ``agent_sessions``.
        profile: The profile version.
        automatic_score: The score of the current card on the profile's scale; ``None`` if there is
            no card or only a placeholder.
        is_best_match: Whether the profile decides the score of the session.
        until_scored_by: A better match, which decides once it has scored the session.
    """

    session: SessionRow
    profile: JudgeProfile
    automatic_score: float | None
    is_best_match: bool
    until_scored_by: str | None = None


@dataclass(frozen=True, slots=True)
class SessionLookup:
    """The data of all sessions that users name, read from the lake in one pass.

    Attributes:
        stores: The stores.
        registry: All profiles.
        windows: Rows of ``agent_sessions`` by session key, and by session id.
        assigned: Rows of ``assign`` by organization and session key.
        scores: Automatic score by organization, session key, content, profile and version;
            placeholders have none.
    """

    stores: Stores
    registry: Registry
    windows: Mapping[str, Sequence[SessionRow]]
    assigned: Mapping[tuple[str, str], Sequence[Assigned]]
    scores: Mapping[tuple[object, ...], float]

    def find(self, name: SessionName) -> Target:
        """Return the score of a session by the named profile, or else the effective score.

        Without any scorecard that is the score by the best match.

        Raises:
            SessionNotFoundError: No window or several match; the message lists them.
            ProfileError: No profile matches the session, or the named profile does not, or only
                others have scored it.
        """
        session = find(self.stores, name, self.windows.get(name.session, ()))
        assigned = self._named(session, name)
        profile = self.registry.find(assigned["profile_id"], assigned["profile_version"]).profile
        automatic = self._automatic(session, assigned)
        rows = self._assigned(session)
        first = min(rows, key=lambda row: row["rank"])["profile_id"]
        is_best_match = assigned is self._counting(session, rows)
        until = first if is_best_match and first != profile.id else None
        return Target(session, profile, automatic, is_best_match, until)

    def _automatic(self, session: SessionRow, assigned: Assigned) -> float | None:
        content = (session[column] for column in CONTENT_KEY)
        version = (assigned["profile_id"], assigned["profile_version"])
        return self.scores.get((*content, *version))

    def _assigned(self, session: SessionRow) -> Sequence[Assigned]:
        return self.assigned.get((session["organization_id"], session["session_key"]), ())

    def _named(self, session: SessionRow, name: SessionName) -> Assigned:
        profile_id, label = name.profile, session["classification_label"]
        rows = self._assigned(session)
        of_profile = [row for row in rows if row["profile_id"] == profile_id]
        if profile_id is not None and not of_profile:
            self.registry.find(profile_id)  # raises if the profile does not exist
            raise ProfileError(
                f"{profile_id} does not score {name.session}, whose label is {label}"
            )
        if not rows:
            raise ProfileError(f"no profile matches {name.session}, whose label is {label}")
        counting = self._counting(session, rows)
        if profile_id is None:
            return counting
        named = of_profile[0]
        automatic = [self._automatic(session, card) for card in (counting, named)]
        if automatic[0] is not None and automatic[1] is None:
            raise ProfileError(
                f"{profile_id} has not scored {name.session}. Its score is that of "
                f"{counting['profile_id']}: leave the profile out to correct it"
            )
        return named

    def _counting(self, session: SessionRow, rows: Sequence[Assigned]) -> Assigned:
        """Return the best match that has a score, or without any the best match."""
        scored = [row for row in rows if self._automatic(session, row) is not None]
        return min(scored or rows, key=lambda row: row["rank"])


def find_target(stores: Stores, name: SessionName) -> Target:
    """Return the score of one session.

    Raises:
        As ``SessionLookup.find`` and ``read_session_lookup`` do.
    """
    return read_session_lookup(stores, [name.session]).find(name)


def read_session_lookup(stores: Stores, names: Collection[str]) -> SessionLookup:
    """Read the sessions with some session keys or session ids.

    Raises:
        LedgerError: The ledger cannot be used.
        LakeError: A file cannot be read.
    """
    registry, sessions = ProfileStore(stores.ledger).registry(), named_windows(stores, names)
    dates = sessions["session_date"].unique().to_list()
    is_named = pl.col("session_id").is_in(sessions["session_id"].unique().implode())
    cards = stores.lake.read(SCORECARDS, dates, _CARD_SCORE, is_named & ~pl.col("fallback"))
    windows: defaultdict[str, list[SessionRow]] = defaultdict(list)
    for row in sessions.rows(named=True):
        for name in {row["session_key"], row["session_id"]}:
            windows[name].append(row)
    return SessionLookup(
        stores,
        registry,
        windows,
        assign(sessions, registry, cards).rows_by_key(SESSION_KEY, named=True),
        {tuple(card): score for *card, score in cards.drop("fallback").rows()},
    )
