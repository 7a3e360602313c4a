"""Ledger storage of the registry of judge profiles."""

import json
from collections.abc import Collection, Iterable
from datetime import date, datetime
from functools import lru_cache

import sqlalchemy as sa

from evaluation_pipelines.profiles.domain.profile import JudgeProfile
from evaluation_pipelines.profiles.domain.registry import Origin, Registered, Registry
from evaluation_pipelines.storage.ledger.engine import insert_into, reading, writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.rebuild_queue import touch
from evaluation_pipelines.storage.ledger.tables.judging import JUDGE_PROFILES

_PROFILE = JUDGE_PROFILES.c


class ProfileStore:
    """Operations on ``judge_profiles``; every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._engine = ledger.engine
        self._as_of = ledger.as_of

    def registry(self) -> Registry:
        """Return all versions, as of the ledger's time if it has one."""
        with reading(self._engine) as connection:
            known = _registry(connection)
        if self._as_of is None:
            return known
        return Registry.of(
            version for version in known.versions if version.registered_at <= self._as_of
        )

    def register(
        self,
        profile: JudgeProfile,
        now: datetime,
        *,
        rescore_history: bool = False,
        dates: Collection[date] = (),
        origin: Origin = "file",
    ) -> Registered | None:
        """Register a new version, or the changes to a known one, and queue dates for a build.

        Returns:
            The stored version; ``None`` if nothing changed.

        Raises:
            ProfileRefusedError: The version rules refuse it; nothing is written.
        """
        version = Registered(profile, now, origin=origin)
        changed = self.register_all([version], now, dates, rescore_history=rescore_history)
        return changed[0] if changed else None

    def register_all(
        self,
        versions: Iterable[Registered],
        now: datetime,
        dates: Collection[date],
        *,
        rescore_history: bool = False,
    ) -> list[Registered]:
        """Register profiles as :meth:`register` does, all or none; return what was stored."""
        stored = list[Registered]()
        with writing(self._engine) as connection:
            for version in versions:
                changed = _registry(connection).admit(
                    version.profile, now, rescore_history=rescore_history, origin=version.origin
                )
                if changed is not None:
                    _store(connection, changed)
                    stored.append(changed)
            touch(connection, dates, now)
        return stored


def _registry(connection: sa.Connection) -> Registry:
    rows = connection.execute(sa.select(JUDGE_PROFILES)).mappings()
    return Registry.of(
        Registered(
            _parsed(row["definition"]),
            row["registered_at"],
            row["rescore_history"],
            row["origin"],
        )
        for row in rows
    )


@lru_cache(maxsize=256)
def _parsed(definition: str) -> JudgeProfile:
    """Return a profile; a build reads the registry for each of its dates."""
    return JudgeProfile.model_validate(json.loads(definition))


def _store(connection: sa.Connection, registered: Registered) -> None:
    profile = registered.profile
    content = {
        "content_hash": profile.content_hash,
        "definition": profile.model_dump_json(),
        "rescore_history": registered.rescore_history,
        "origin": registered.origin,
    }
    row = {
        "profile_id": profile.id,
        "version": profile.version,
        "registered_at": registered.registered_at,
        **content,
    }
    insert = insert_into(connection, JUDGE_PROFILES).values(row)
    key = [_PROFILE.profile_id, _PROFILE.version]
    connection.execute(insert.on_conflict_do_update(index_elements=key, set_=content))
