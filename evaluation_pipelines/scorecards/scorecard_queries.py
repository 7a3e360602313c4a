"""Questions about scorecards, answered from the lake with what people said just now."""

from dataclasses import dataclass
from datetime import datetime

import polars as pl

from evaluation_pipelines.errors import UserError
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import SCORECARDS, SESSION_EVALUATIONS, UTC_TIME
from evaluation_pipelines.scorecards.domain.evaluation import with_newest_overrides
from evaluation_pipelines.scorecards.domain.overrides import with_overrides
from evaluation_pipelines.scorecards.ledger.override_store import OverrideStore
from evaluation_pipelines.storage.stores import Stores

_SESSION = ["organization_id", "session_key"]
_HUMAN = ("human_override", "effective_score", "effective_100")


_NAMES_SHOWN = 20


class UnknownNameError(UserError, LookupError):
    """A query asks for a name that no session has."""


class QueryTooWideError(UserError, ValueError):
    """A query names neither session nor agent nor a time range."""


@dataclass(frozen=True, slots=True)
class CardQuery:
    """Which cards are asked for.

    Attributes:
        session: A session key, or a session id.
        agent: An ``agent_id``.
        since: Sessions that started then or later.
        until: Sessions that started before.
        label: A ``classification_label``.
        model: A model.
        profile: A profile id; ``best`` for each session's best match.
        history: Also cards of older content and older profile versions.
        limit: How many at most, the newest sessions.
    """

    session: str | None = None
    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    label: str | None = None
    model: str | None = None
    profile: str | None = None
    history: bool = False
    limit: int | None = None

    def conditions(self) -> list[pl.Expr]:
        """What a row must meet: of ``scorecards``, or of ``session_evaluations``.

        Raises:
            QueryTooWideError: nothing narrows it.
        """
        if all(each is None for each in (self.session, self.agent, self.since, self.until)):
            raise QueryTooWideError(
                "Name a session, an agent or a time range: --session, --agent, --from, --to."
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
        """Columns that must have a certain name, with it."""
        wanted = {
            "agent_id": self.agent,
            "classification_label": self.label,
            "model": self.model,
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def is_session(self) -> pl.Expr:
        """Whether a row is of the session that is asked for."""
        return pl.any_horizontal(pl.col("session_key", "session_id") == self.session)


def query_cards(stores: Stores, query: CardQuery) -> pl.DataFrame:
    """SCORECARDS that meet a query, the oldest session first.

    Overrides are those of the ledger: they count at once. ``is_best_match`` is as of the newest
    evaluation of the session.

    Raises:
        QueryTooWideError: nothing narrows it.
        LakeError: a file cannot be read.
    """
    conditions = query.conditions()
    cards = stores.lake.select(SCORECARDS, *conditions)
    evaluations = stores.lake.select(SESSION_EVALUATIONS, *conditions)
    if not query.history:
        cards = _current(cards, evaluations)
    cards = _with_best_match(cards, evaluations)
    if query.profile == "best":
        cards = cards.filter("is_best_match")
    elif query.profile is not None:
        cards = cards.filter(pl.col("profile_id") == query.profile)
    order = ["started_at", *SCORECARDS.order]
    return (
        _with_what_people_said(stores, cards)
        .sort(order)
        .tail(cards.height if query.limit is None else query.limit)
    )


def query_unscored(stores: Stores, query: CardQuery) -> pl.DataFrame:
    """What counts for sessions that meet a query and have no card of their best match.

    Returns:
        Rows of SESSION_EVALUATIONS, the oldest session first, and ``annotator`` of an override,
        which counts at once. Of a profile only those whose best match it is.
    """
    found = stores.lake.select(SESSION_EVALUATIONS, *query.conditions())
    if query.profile not in {None, "best"}:
        found = found.filter(pl.col("profile_id") == query.profile)
    bare = found.filter(pl.col("card_id").is_null()).sort("started_at", "session_key")
    told = OverrideStore(stores.ledger).of_dates(bare["session_date"].unique().to_list())
    return with_newest_overrides(bare, told).tail(
        bare.height if query.limit is None else query.limit
    )


def refuse_unknown_names(stores: Stores, query: CardQuery) -> None:
    """Tell a misspelt name from a question that nothing fits.

    Raises:
        ProfileError: there is no such profile.
        UnknownNameError: no session has a name that was asked for; it says which there are.
    """
    if query.profile not in {None, "best"}:
        ProfileStore(stores.ledger).registry().find(str(query.profile))
    known = stores.lake.select(SESSION_EVALUATIONS)
    if query.session is not None and known.filter(query.is_session()).is_empty():
        raise UnknownNameError(
            f"There is no session {query.session} among the {known.height} of the lake. "
            "The command sessions lists them."
        )
    for column, wanted in query.names().items():
        there = known[column].unique().drop_nulls().sort().to_list()
        if wanted not in there:
            # As telemetry has them: quoted, so that none can pretend to be a line of output.
            names = ", ".join(repr(each) for each in there[:_NAMES_SHOWN]) or "none"
            more = f" and {len(there) - _NAMES_SHOWN} more" if len(there) > _NAMES_SHOWN else ""
            raise UnknownNameError(f"No session has the {column} {wanted}. Known: {names}{more}")


def _current(cards: pl.DataFrame, evaluations: pl.DataFrame) -> pl.DataFrame:
    """Cards of the content that was evaluated last, in the newest version of each profile."""
    same = [*_SESSION, "content_hash"]
    return (
        cards.join(evaluations.select(same), on=same, how="semi")
        .sort("profile_version")
        .unique([*same, "profile_id"], keep="last")
    )


def _with_best_match(cards: pl.DataFrame, evaluations: pl.DataFrame) -> pl.DataFrame:
    best = evaluations.select(*_SESSION, best_id="profile_id", best_version="profile_version")
    is_best = (pl.col("profile_id") == pl.col("best_id")) & (
        pl.col("profile_version") == pl.col("best_version")
    )
    return (
        cards.join(best, on=_SESSION, how="left")
        .with_columns(is_best_match=is_best.fill_null(value=False))
        .drop("best_id", "best_version")
    )


def _with_what_people_said(stores: Stores, cards: pl.DataFrame) -> pl.DataFrame:
    dates = cards["session_date"].unique().to_list()
    told = OverrideStore(stores.ledger).of_dates(dates)
    return with_overrides(cards.drop(_HUMAN), told).select(SCORECARDS.schema.names())
