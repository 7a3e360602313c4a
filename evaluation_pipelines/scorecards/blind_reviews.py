"""Blind reviews: audited sessions whose scores are hidden until a person has answered."""

from collections.abc import Collection
from datetime import datetime
from threading import Lock
from typing import TypeAlias

from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import AGENT_SESSIONS, SCORECARDS
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.scorecard_queries import read_session_lookup
from evaluation_pipelines.scorecards.store import (
    AuditSample,
    OverrideStore,
    note_step,
    sessions_seen,
    sessions_that_left,
)
from evaluation_pipelines.sessions.chosen import chosen_of
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.stores import Stores


def open_samples(stores: Stores, which: SessionFilter = ALL_SESSIONS) -> list[AuditSample]:
    """Return the samples of chosen sessions that still get an answer, the oldest first."""
    unanswered = [
        each for each in OverrideStore(stores.ledger).samples() if each.override_id is None
    ]
    left = sessions_that_left(stores.ledger) if unanswered else ()
    found = [each for each in unanswered if each.key not in left]
    return chosen_of(stores.lake, which, found)


def waiting_samples(stores: Stores, organization: str | None) -> list[AuditSample]:
    """Return the samples without an answer of one organization, or of all, the oldest first."""
    return [each for each in open_samples(stores) if organization in {None, each.organization_id}]


_State: TypeAlias = tuple[object, ...]


class BlindReviews:
    """The sessions that wait for a blind review; threads may share one.

    A session waits from the night that draws it until its first answer. A person who has seen
    its score is not asked for it, and it does not wait for them.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lock = Lock()
        self._known: tuple[_State, frozenset[SessionKey]] | None = None

    def waiting(self) -> frozenset[SessionKey]:
        """Return all sessions that wait. Raises LedgerError and LakeError."""
        samples = open_samples(self._stores)
        if not samples:
            return frozenset()
        registry = ProfileStore(self._stores.ledger).registry()
        state = self._state(samples, registry)
        with self._lock:
            if self._known is None or self._known[0] != state:
                keys = frozenset(each.key for each in samples)
                self._known = state, keys - gone(self._stores, samples)
            return self._known[1]

    def waiting_for(self, names: Collection[str]) -> frozenset[SessionKey]:
        """Return the sessions that wait for the reviewer with these names. Raises as above."""
        found = self.waiting()
        return found - sessions_seen(self._stores.ledger, names) if found else found

    def _state(self, samples: Collection[AuditSample], registry: Registry) -> _State:
        """Return what ``gone`` depends on: samples, files and profiles."""
        days = sorted({each.session_date for each in samples})
        files = [
            part.path
            for table in (AGENT_SESSIONS, SCORECARDS)
            for part in self._stores.lake.parts(table, days)
        ]
        profiles = [(each.profile.id, each.profile.version) for each in registry.newest()]
        return (sorted(each.key for each in samples), files, profiles)


def note_request(stores: Stores, by: str, key: SessionKey, now: datetime) -> None:
    """Record that a person asked the judge for the score of a session, and therefore sees it.

    A session that waits for a blind review leaves the sample: its score is no longer one that
    nothing but chance has selected.
    """
    waits = key in {each.key for each in open_samples(stores)}
    note_step(stores.ledger, by, "leave" if waits else "look", now, key)


def gone(stores: Stores, samples: Collection[AuditSample]) -> frozenset[SessionKey]:
    """Return the keys of samples that can no longer be reviewed.

    The session no longer exists, or its profile no longer scores it.
    """
    lookup = read_session_lookup(stores, {each.session_key for each in samples})
    found = set[SessionKey]()
    for each in samples:
        name = SessionName(each.session_key, each.organization_id, each.profile_id)
        try:
            lookup.find(name)
        except (SessionNotFoundError, ProfileError):
            found.add(each.key)
    return frozenset(found)
