"""Which sessions wait for a blind review, and by whom: the one rule for pages, API and terminal."""

from collections.abc import Collection
from datetime import datetime
from threading import Lock
from typing import TypeAlias

from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.domain.registry import Registry
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import AGENT_SESSIONS, SCORECARDS
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.ledger.override_store import AuditSample
from evaluation_pipelines.scorecards.ledger.review_store import ReviewStore
from evaluation_pipelines.scorecards.open_samples import open_samples
from evaluation_pipelines.scorecards.session_lookup import read_session_lookup
from evaluation_pipelines.sessions.domain.find_session import SessionNotFoundError
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.stores import Stores

_State: TypeAlias = tuple[object, ...]


class BlindReviews:
    """The sessions that wait for a blind review; threads may share one.

    A session waits from the night that draws it until its first answer. Whoever has seen its score
    is not asked for it, and it does not wait for them.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._lock = Lock()
        self._known: tuple[_State, frozenset[SessionKey]] | None = None

    def waiting(self) -> frozenset[SessionKey]:
        """Return all sessions that wait; raises LedgerError and LakeError."""
        samples = open_samples(self._stores)
        if not samples:
            return frozenset()
        registry = ProfileStore(self._stores.ledger).registry()
        state = self._state(samples, registry)
        with self._lock:
            if self._known is None or self._known[0] != state:
                keys = frozenset(map(key_of, samples))
                self._known = state, keys - gone(self._stores, samples)
            return self._known[1]

    def waiting_for(self, names: Collection[str]) -> frozenset[SessionKey]:
        """Return the sessions that wait for the reviewer with these names; raises as above."""
        found = self.waiting()
        return found - ReviewStore(self._stores.ledger).not_blind(names) if found else found

    def _state(self, samples: Collection[AuditSample], registry: Registry) -> _State:
        """Return what ``gone`` depends on: samples, files and profiles."""
        days = sorted({each.session_date for each in samples})
        files = [
            part.path
            for table in (AGENT_SESSIONS, SCORECARDS)
            for part in self._stores.lake.parts(table, days)
        ]
        profiles = [(each.profile.id, each.profile.version) for each in registry.newest()]
        return (sorted(map(key_of, samples)), files, profiles)


def note_request(stores: Stores, by: str, key: SessionKey, now: datetime) -> None:
    """Record that a person asked the judge for the score of a session, and therefore sees it.

    A session that waits for a blind review leaves the sample: its score is no longer one that
    nothing but chance has selected.
    """
    reviews = ReviewStore(stores.ledger)
    if key in map(key_of, open_samples(stores)):
        reviews.leave(by, key, now)
    else:
        reviews.look(by, key, now)


def key_of(sample: AuditSample) -> SessionKey:
    """Return the key of the session of a sample."""
    return sample.organization_id, sample.session_key


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
            found.add(key_of(each))
    return frozenset(found)
