"""Registry of judge profiles and the rules for new versions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError, differences

Origin = Literal["shipped", "file", "api"]


class ProfileRefusedError(ProfileError):
    """A profile change that the registry refuses; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Registered:
    """One registered version of a profile.

    Attributes:
        profile: Its latest definition.
        registered_at: When this version was first registered.
        rescore_history: Whether it also applies to sessions that ended before ``registered_at``.
        origin: ``shipped`` with this program, ``file`` of the user, or ``api``: set by a program.
    """

    profile: JudgeProfile
    registered_at: datetime
    rescore_history: bool = False
    origin: Origin = "file"

    @property
    def key(self) -> tuple[str, int]:
        """Profile id and version."""
        return self.profile.id, self.profile.version

    def frozen_at(self, now: datetime) -> datetime | None:
        """Return the end of the current freeze; ``None`` if new versions are accepted."""
        until = self.profile.frozen_until
        return None if until is None or until <= now else until


@dataclass(frozen=True, slots=True)
class Registry:
    """All registered versions, sorted by id and version."""

    versions: tuple[Registered, ...] = ()

    @classmethod
    def of(cls, versions: Iterable[Registered]) -> "Registry":
        """Return a registry of ``versions``."""
        return cls(tuple(sorted(versions, key=lambda each: each.key)))

    def with_version(self, registered: Registered) -> "Registry":
        """Return the registry with ``registered`` added, or replaced if its key is known."""
        others = (each for each in self.versions if each.key != registered.key)
        return Registry.of((*others, registered))

    def history(self, profile_id: str) -> tuple[Registered, ...]:
        """Return the versions of a profile, oldest first."""
        return tuple(each for each in self.versions if each.profile.id == profile_id)

    def newest(self) -> tuple[Registered, ...]:
        """Return the newest version of every profile, sorted by id."""
        return tuple({each.profile.id: each for each in self.versions}.values())

    def find(self, profile_id: str, version: int | None = None) -> Registered:
        """Return one version of a profile, by default the newest.

        Raises:
            ProfileError: The version is not registered; the message lists the registered ones.
        """
        known = self.history(profile_id)
        for each in reversed(known):
            if version is None or each.profile.version == version:
                return each
        if known:
            numbers = ", ".join(str(each.profile.version) for each in known)
            raise ProfileError(
                f"{profile_id} has no version {version}; registered versions: {numbers}"
            )
        names = ", ".join(each.profile.id for each in self.newest()) or "none"
        raise ProfileError(f"There is no profile {profile_id}; registered profiles: {names}")

    def admit(
        self,
        profile: JudgeProfile,
        now: datetime,
        *,
        rescore_history: bool = False,
        origin: Origin = "file",
    ) -> Registered | None:
        """Return the version to store for ``profile``; ``None`` if nothing has changed.

        A shipped profile is a default: another one of its id replaces it as the next version.

        Raises:
            ProfileRefusedError: A known version has other content, the version is lower than the
                newest, or the profile is frozen and the version is new.
        """
        known = self.history(profile.id)
        if known:
            version = _version_to_store(known, profile, origin)
            profile = profile.model_copy(update={"version": version})
        same = next((each for each in known if each.key == (profile.id, profile.version)), None)
        if same is None:
            _check_new(profile, known, now)
            return Registered(profile, now, rescore_history, origin)
        _check_same_content(same.profile, profile)
        changed = replace(
            same,
            profile=profile,
            rescore_history=same.rescore_history or rescore_history,
            origin=same.origin if profile == same.profile and origin == "api" else origin,
        )
        # The file of an older version may still exist; its labels and other fields are outdated.
        return None if changed == same or same is not known[-1] else changed


def _version_to_store(known: Sequence[Registered], profile: JudgeProfile, origin: Origin) -> int:
    """Return the version of a profile: its own, unless it replaces another one of its id.

    A default and what replaces it do not share a version, whatever number their files have.
    """
    newest, own = known[-1], profile.version
    same = [each for each in known if each.profile.content_hash == profile.content_hash]
    taken = [each for each in known if each.profile.version == own]
    following = newest.profile.version + 1
    if origin == "api" and newest.origin == "file" and newest in same and own == following - 1:
        # The file is read again and again: what a program changes is a version of its own.
        is_equal = newest.profile == profile
        return own if is_equal else following
    if origin == newest.origin and taken and taken[0] in same:
        return own
    is_of_default = any(each.origin == "shipped" and own <= each.profile.version for each in known)
    if "shipped" not in {origin, newest.origin} and not is_of_default:
        return own
    if newest in same:
        return newest.profile.version
    if own > newest.profile.version:
        return own
    former = [each for each in same if each.origin == origin != newest.origin]
    return former[-1].profile.version if former and origin != "shipped" else following


def _check_new(profile: JudgeProfile, known: tuple[Registered, ...], now: datetime) -> None:
    if not known:
        return
    newest = known[-1]
    if profile.version < newest.profile.version:
        raise ProfileRefusedError(
            f"{profile.id} version {profile.version} is refused: version {newest.profile.version} "
            f"is already registered. Set the version to "
            f"{newest.profile.version + 1} or higher."
        )
    if (until := newest.frozen_at(now)) is not None:
        raise ProfileRefusedError(
            f"{profile.id} version {profile.version} is refused: version {newest.profile.version} "
            f"is frozen until {until:%Y-%m-%d %H:%M} UTC. Wait until then."
        )


def _check_same_content(known: JudgeProfile, given: JudgeProfile) -> None:
    if known.content_hash == given.content_hash:
        return
    changed = [
        name
        for name, _, _ in differences(known, given)
        if name.partition(".")[0] in known.versioned()
    ]
    raise ProfileRefusedError(
        f"{given.id} version {given.version} is refused: it is registered with other content "
        f"({', '.join(changed)}). These fields may only change together with the version: set it "
        f"to {given.version + 1}, or undo the change."
    )
