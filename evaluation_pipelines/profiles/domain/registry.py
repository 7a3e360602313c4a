"""Registry of judge profiles and the rules for new versions."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError, differences

Origin = Literal["file", "api"]


class ProfileRefusedError(ProfileError):
    """A profile change that the registry refuses; the message says what to do."""


class ProfileHeldError(ProfileRefusedError):
    """A profile has its definition from elsewhere: a file, or a program."""


@dataclass(frozen=True, slots=True)
class Registered:
    """One registered version of a profile.

    Attributes:
        profile: Its latest definition.
        registered_at: When this version was first registered.
        rescore_history: Whether it also applies to sessions that ended before ``registered_at``.
        frozen_until: End of a freeze set by a command, in addition to ``profile.frozen_until``.
        origin: ``file``, or ``api`` for a profile that a program has set.
    """

    profile: JudgeProfile
    registered_at: datetime
    rescore_history: bool = False
    frozen_until: datetime | None = None
    origin: Origin = "file"

    @property
    def key(self) -> tuple[str, int]:
        """Profile id and version."""
        return self.profile.id, self.profile.version

    def frozen_at(self, now: datetime) -> datetime | None:
        """Return the end of the current freeze; ``None`` if new versions are accepted."""
        limits = (self.profile.frozen_until, self.frozen_until)
        return max((each for each in limits if each is not None and now < each), default=None)


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

        Raises:
            ProfileRefusedError: A known version has other content, the version is lower than the
                newest, or the profile is frozen and the version is new.
            ProfileHeldError: A file has the profile and ``origin`` is ``api``, or the reverse.
        """
        known = self.history(profile.id)
        if known and known[-1].origin != origin:
            raise ProfileHeldError(_held(profile.id, known[-1].origin))
        same = next((each for each in known if each.key == (profile.id, profile.version)), None)
        if same is None:
            _check_new(profile, known, now)
            return Registered(profile, now, rescore_history, _manual_freeze(known), origin)
        _check_same_content(same.profile, profile)
        changed = replace(
            same, profile=profile, rescore_history=same.rescore_history or rescore_history
        )
        # The file of an older version may still exist; its labels and other fields are outdated.
        return None if changed == same or same is not known[-1] else changed


def _held(profile_id: str, origin: Origin) -> str:
    if origin == "file":
        return f"The profile {profile_id} is that of a file: change the file, or choose another id."
    return f"{profile_id} was set by a program, not by a file: choose another id."


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
            f"is frozen until {until:%Y-%m-%d %H:%M} UTC. Wait until then, or lift the freeze."
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


def _manual_freeze(known: tuple[Registered, ...]) -> datetime | None:
    return known[-1].frozen_until if known else None
