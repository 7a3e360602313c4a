"""The registry of judge profiles: which versions there are, and which changes it takes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError, differences


class ProfileRefusedError(ProfileError):
    """A change of a profile that the registry does not take; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Registered:
    """One registered version of a profile.

    Attributes:
        profile: What it says, in the state it was last given.
        registered_at: When this version came in.
        rescore_history: Whether it also counts for sessions that ended before that.
        frozen_until: Until when people have refused new versions by hand, beside the profile's own.
    """

    profile: JudgeProfile
    registered_at: datetime
    rescore_history: bool = False
    frozen_until: datetime | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Profile id and version."""
        return self.profile.id, self.profile.version

    def frozen_at(self, now: datetime) -> datetime | None:
        """Until when no new version is taken; None if one is taken now."""
        limits = (self.profile.frozen_until, self.frozen_until)
        return max((each for each in limits if each is not None and now < each), default=None)


@dataclass(frozen=True, slots=True)
class Registry:
    """All registered versions, sorted by id and version."""

    versions: tuple[Registered, ...] = ()

    @classmethod
    def of(cls, versions: Iterable[Registered]) -> "Registry":
        """A registry of some versions."""
        return cls(tuple(sorted(versions, key=lambda each: each.key)))

    def having(self, registered: Registered) -> "Registry":
        """The registry with one version more, or with that version as it is now."""
        others = (each for each in self.versions if each.key != registered.key)
        return Registry.of((*others, registered))

    def history(self, profile_id: str) -> tuple[Registered, ...]:
        """The versions of a profile, the oldest first."""
        return tuple(each for each in self.versions if each.profile.id == profile_id)

    def newest(self) -> tuple[Registered, ...]:
        """The newest version of every profile, by id."""
        return tuple({each.profile.id: each for each in self.versions}.values())

    def find(self, profile_id: str, version: int | None = None) -> Registered:
        """One version, the newest unless one is named.

        Raises:
            ProfileError: it is not registered; the message names what is.
        """
        known = self.history(profile_id)
        for each in reversed(known):
            if version is None or each.profile.version == version:
                return each
        if known:
            numbers = ", ".join(str(each.profile.version) for each in known)
            raise ProfileError(f"{profile_id} has no version {version}, only: {numbers}")
        names = ", ".join(each.profile.id for each in self.newest()) or "none"
        raise ProfileError(f"There is no profile {profile_id}; registered are: {names}")

    def admit(
        self, profile: JudgeProfile, now: datetime, *, rescore_history: bool = False
    ) -> Registered | None:
        """What the registry has to hold after a profile was given; None when it holds it already.

        Raises:
            ProfileRefusedError: other content under a known version, a version that does not
                grow, or a new version of a frozen profile.
        """
        known = self.history(profile.id)
        same = next((each for each in known if each.key == (profile.id, profile.version)), None)
        if same is None:
            _check_new(profile, known, now)
            return Registered(profile, now, rescore_history, _frozen_by_hand(known))
        _check_same_content(same.profile, profile)
        wanted = replace(
            same, profile=profile, rescore_history=same.rescore_history or rescore_history
        )
        # An older file may still lie about: what it says of labels is out of date.
        return None if wanted == same or same is not known[-1] else wanted


def _check_new(profile: JudgeProfile, known: tuple[Registered, ...], now: datetime) -> None:
    if not known:
        return
    newest = known[-1]
    if profile.version < newest.profile.version:
        raise ProfileRefusedError(
            f"{profile.id} version {profile.version} is refused: version {newest.profile.version} "
            f"is registered already and versions only grow. Make it version "
            f"{newest.profile.version + 1}."
        )
    if (until := newest.frozen_at(now)) is not None:
        raise ProfileRefusedError(
            f"{profile.id} version {profile.version} is refused: version {newest.profile.version} "
            f"is frozen until {until:%Y-%m-%d %H:%M} UTC. Wait, or lift the freeze first."
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
        f"({', '.join(changed)}). What scores mean may only change with the version: "
        f"make it version {given.version + 1}, or undo the change."
    )


def _frozen_by_hand(known: tuple[Registered, ...]) -> datetime | None:
    return known[-1].frozen_until if known else None
