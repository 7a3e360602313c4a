"""Lookup of the sessions that users name, and of their scores."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from evaluation_pipelines.profiles.domain.matching import CARD_VERSION, assign
from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError
from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import CONTENT_KEY, SCORECARDS, SESSION_KEY
from evaluation_pipelines.sessions.domain.find_session import SessionRow
from evaluation_pipelines.sessions.find import SessionName, find, named_windows
from evaluation_pipelines.storage.stores import Stores

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
        """Return the score of a session by the named profile, or else the score that counts.

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
        content = (session[each] for each in CONTENT_KEY)
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
        automatic = [self._automatic(session, each) for each in (counting, named)]
        if automatic[0] is not None and automatic[1] is None:
            raise ProfileError(
                f"{profile_id} has not scored {name.session}; its score is that of "
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
