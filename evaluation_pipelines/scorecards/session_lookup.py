"""Finding the sessions that people name, and the scores that count for them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from evaluation_pipelines.profiles.domain.matching import assign
from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError
from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.schemas import AGENT_SESSIONS, SCORECARDS
from evaluation_pipelines.sessions.score import SessionNotFoundError
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.ledger.session_index import SessionIndex


@dataclass(frozen=True, slots=True)
class Target:
    """A score that somebody wants to look at or to correct.

    ``session`` is the row of ``agent_sessions``; ``automatic_score`` that of the current card on
    the profile's scale, None where there is no card or only a placeholder; ``is_best_match`` says
    whether the profile decides the score of the session.
    """

    session: Mapping[str, Any]
    profile: JudgeProfile
    automatic_score: float | None
    is_best_match: bool


@dataclass(frozen=True, slots=True)
class SessionName:
    """What people name: a session key or session id, and where it takes more to be clear."""

    session: str
    organization: str | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Targets:
    """The sessions that people name, read from the lake at once however many there are.

    Attributes:
        root: The lake, for messages.
        registry: All profiles.
        windows: Rows of ``agent_sessions`` by session key, and by session id.
        assigned: Rows of ``assign`` by organization and session key.
        scores: Automatic score by organization, session key, content, profile and version;
            placeholders have none.
    """

    root: Path
    registry: Registry
    windows: Mapping[str, Sequence[Mapping[str, Any]]]
    assigned: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
    scores: Mapping[tuple[object, ...], float]

    def find(self, wanted: SessionName) -> Target:
        """The score of a session by its best-matching profile, or by the one that is named.

        Raises:
            SessionNotFoundError: no window or several fit; the message lists them.
            ProfileError: no profile matches it, or the one named does not.
        """
        session = self._window(wanted)
        found = self._assigned(session, wanted)
        profile = self.registry.find(found["profile_id"], found["profile_version"]).profile
        content = (session[each] for each in _CONTENT)
        automatic = self.scores.get((*content, profile.id, profile.version))
        return Target(session, profile, automatic, bool(found["is_best_match"]))

    def _window(self, wanted: SessionName) -> Mapping[str, Any]:
        named, organization = wanted.session, wanted.organization
        rows = self.windows.get(named, ())
        fitting = [row for row in rows if organization in {None, row["organization_id"]}]
        # A session id may read like the key of another session: the key comes first.
        found = [row for row in fitting if row["session_key"] == named] or fitting
        if len(found) == 1:
            return found[0]
        if found:
            keys = ", ".join(f"{row['session_key']} of {row['organization_id']}" for row in found)
            raise SessionNotFoundError(
                f"{named} has several windows; name one (and its organization) of: {keys}"
            )
        raise SessionNotFoundError(
            f"There is no session {named} in {self.root}. The command sessions lists them."
        )

    def _assigned(self, session: Mapping[str, Any], wanted: SessionName) -> Mapping[str, Any]:
        profile_id, label = wanted.profile, session["classification_label"]
        rows = self.assigned.get((session["organization_id"], session["session_key"]), ())
        for row in rows:
            if row["is_best_match"] if profile_id is None else row["profile_id"] == profile_id:
                return row
        if profile_id is None:
            raise ProfileError(f"no profile matches {wanted.session}, whose label is {label}")
        self.registry.find(profile_id)  # says so when there is none of that name
        raise ProfileError(f"{profile_id} does not score {wanted.session}, whose label is {label}")


def find_target(stores: Stores, registry: Registry, wanted: SessionName) -> Target:
    """The score of one session.

    Raises:
        As ``Targets.find`` and ``read_targets`` do.
    """
    return read_targets(stores, registry, [wanted.session]).find(wanted)


def read_targets(stores: Stores, registry: Registry, named: Collection[str]) -> Targets:
    """What there is of sessions that are named by session key or session id.

    Raises:
        LedgerError: the ledger cannot be used.
        LakeError: a file cannot be read.
    """
    session_ids = {part for name in named for part in (name, name.rpartition("#")[0])}
    known = SessionIndex(stores.ledger).dates_by_session_id(session_ids)
    dates = sorted({day for pairs in known.values() for _, day in pairs})
    asked = pl.col("session_id").is_in(sorted(known))
    sessions = stores.lake.read(AGENT_SESSIONS, dates).filter(asked)
    cards = stores.lake.read(SCORECARDS, dates).filter(asked, ~pl.col("fallback"))
    windows: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sessions.rows(named=True):
        for name in {row["session_key"], row["session_id"]}:
            windows[name].append(row)
    return Targets(
        stores.lake.root,
        registry,
        windows,
        assign(sessions, registry).rows_by_key(_SESSION, named=True),
        {tuple(card): score for *card, score in cards.select(_CARD).rows()},
    )


_SESSION = ("organization_id", "session_key")
_CONTENT = (*_SESSION, "content_hash")
_CARD = (*_CONTENT, "profile_id", "profile_version", "overall_score")
