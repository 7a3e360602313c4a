"""Finding the sessions that people name, and the scores that count for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl

from evaluation_pipelines.domain.schemas import AGENT_SESSIONS, SCORECARDS
from evaluation_pipelines.domain.scorecards.matching import assign
from evaluation_pipelines.domain.scorecards.profile import JudgeProfile, ProfileError
from evaluation_pipelines.domain.scorecards.registry import Registry
from evaluation_pipelines.stages.score import SessionNotFoundError
from evaluation_pipelines.stages.stores import Stores


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
class Wanted:
    """What people name: a session key or session id, and where it takes more to be clear."""

    session: str
    organization: str | None = None
    profile: str | None = None


def find_target(stores: Stores, registry: Registry, wanted: Wanted) -> Target:
    """The score of a session by its best-matching profile, or by the one that is named.

    Raises:
        SessionNotFoundError: no window or several fit.
        ProfileError: no profile matches it, or the one named does not.
    """
    session, profile_id = find_window(stores, wanted), wanted.profile
    rows = assign(pl.DataFrame([session], schema=AGENT_SESSIONS.schema, orient="row"), registry)
    which = "is_best_match" if profile_id is None else pl.col("profile_id") == profile_id
    found = rows.filter(which).rows(named=True)
    if not found:
        label = session["classification_label"]
        if profile_id is None:
            raise ProfileError(f"no profile matches {wanted.session}, whose label is {label}")
        registry.find(profile_id)  # says so when there is none of that name
        raise ProfileError(f"{profile_id} does not score {wanted.session}, whose label is {label}")
    profile = registry.find(found[0]["profile_id"], found[0]["profile_version"]).profile
    automatic = _automatic_score(stores, session, profile)
    return Target(session, profile, automatic, bool(found[0]["is_best_match"]))


def find_window(stores: Stores, wanted: Wanted) -> Mapping[str, Any]:
    """The row of ``agent_sessions`` of a session key, or of a session id with one window.

    Raises:
        SessionNotFoundError: none or several fit; the message lists them.
    """
    session, organization = wanted.session, wanted.organization
    session_ids = {session, session.rpartition("#")[0]} - {""}
    known = stores.ledger.sessions.dates_by_session_id(session_ids)
    dates: set[date] = {day for pairs in known.values() for _, day in pairs}
    sessions = stores.lake.read(AGENT_SESSIONS, sorted(dates))
    if organization is not None:
        sessions = sessions.filter(pl.col("organization_id") == organization)
    for name in ("session_key", "session_id"):
        found = sessions.filter(pl.col(name) == session).rows(named=True)
        if len(found) == 1:
            return found[0]
        if found:
            keys = ", ".join(f"{row['session_key']} of {row['organization_id']}" for row in found)
            raise SessionNotFoundError(
                f"{session} has several windows; name one (and its organization) of: {keys}"
            )
    raise SessionNotFoundError(
        f"There is no session {session} in {stores.lake.root}. The command sessions lists them."
    )


def _automatic_score(
    stores: Stores, session: Mapping[str, Any], profile: JudgeProfile
) -> float | None:
    cards = stores.lake.read(SCORECARDS, [session["session_date"]]).filter(
        pl.col("organization_id") == session["organization_id"],
        pl.col("session_key") == session["session_key"],
        pl.col("content_hash") == session["content_hash"],
        pl.col("profile_id") == profile.id,
        pl.col("profile_version") == profile.version,
        ~pl.col("fallback"),
    )
    return None if cards.is_empty() else float(cards["overall_score"].item())
