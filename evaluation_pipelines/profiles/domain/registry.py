"""Registry of judge profiles, the rules for new versions, and their assignment to sessions."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import polars as pl

from evaluation_pipelines.profiles.domain.profile import (
    ANY_LABEL,
    JudgeProfile,
    ProfileError,
)
from evaluation_pipelines.schemas import CONTENT_KEY, SESSION_KEY

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
        return cls(tuple(sorted(versions, key=lambda version: version.key)))

    def with_version(self, registered: Registered) -> "Registry":
        """Return the registry with ``registered``, replacing the version with the same key."""
        others = (version for version in self.versions if version.key != registered.key)
        return Registry.of((*others, registered))

    def history(self, profile_id: str) -> tuple[Registered, ...]:
        """Return the versions of a profile, oldest first."""
        return tuple(version for version in self.versions if version.profile.id == profile_id)

    def newest(self) -> tuple[Registered, ...]:
        """Return the newest version of every profile, sorted by id."""
        return tuple({version.profile.id: version for version in self.versions}.values())

    def find(self, profile_id: str, version: int | None = None) -> Registered:
        """Return one version of a profile, by default the newest.

        Raises:
            ProfileError: The version is not registered; the message lists the registered ones.
        """
        known = self.history(profile_id)
        for registered in reversed(known):
            if version is None or registered.profile.version == version:
                return registered
        if known:
            numbers = ", ".join(str(entry.profile.version) for entry in known)
            raise ProfileError(
                f"{profile_id} has no version {version}. Registered versions: {numbers}"
            )
        names = ", ".join(entry.profile.id for entry in self.newest()) or "none"
        raise ProfileError(f"There is no profile {profile_id}. Registered profiles: {names}")

    def admit(
        self,
        profile: JudgeProfile,
        now: datetime,
        *,
        rescore_history: bool = False,
        origin: Origin = "file",
    ) -> Registered | None:
        """Return the version to store for ``profile``; ``None`` if nothing has changed.

        A shipped profile is a default: any other profile with the same id replaces it as the next
        version.

        Raises:
            ProfileRefusedError: A known version has other content, the version is lower than the
                newest, or the profile is frozen and the version is new.
        """
        known = self.history(profile.id)
        if known:
            version = _version_to_store(known, profile, origin)
            profile = profile.model_copy(update={"version": version})
        same = next(
            (registered for registered in known if registered.key == (profile.id, profile.version)),
            None,
        )
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

    A default and what replaces it never share a version number, even if their files do.
    """
    newest, own = known[-1], profile.version
    same = [
        registered
        for registered in known
        if registered.profile.content_hash == profile.content_hash
    ]
    taken = [registered for registered in known if registered.profile.version == own]
    next_version = newest.profile.version + 1
    if origin == "api" and newest.origin == "file" and newest in same and own == next_version - 1:
        # The file is read again and again, so an API change gets its own version.
        is_equal = newest.profile == profile
        return own if is_equal else next_version
    if origin == newest.origin and taken and taken[0] in same:
        return own
    is_of_default = any(
        registered.origin == "shipped" and own <= registered.profile.version for registered in known
    )
    if "shipped" not in {origin, newest.origin} and not is_of_default:
        return own
    if newest in same:
        return newest.profile.version
    if own > newest.profile.version:
        return own
    former = [registered for registered in same if registered.origin == origin != newest.origin]
    return former[-1].profile.version if former and origin != "shipped" else next_version


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
    before, after = known.versioned(), given.versioned()
    changed = [name for name, value in after.items() if value != before[name]]
    raise ProfileRefusedError(
        f"{given.id} version {given.version} is refused: it is registered with other content "
        f"({', '.join(changed)}). These fields may only change together with the version: set it "
        f"to {given.version + 1}, or undo the change."
    )


ASSIGNMENTS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "profile_id": pl.String(),
        "profile_version": pl.Int64(),
        "rank": pl.Int64(),
        "is_best_match": pl.Boolean(),
    }
)
"""Profiles of sessions; ``rank`` is 0 for the best match by labels, then 1 and so on."""

CARD_VERSION = (*CONTENT_KEY, "profile_id", "profile_version", "fallback")
"""Scorecard columns that ``assign`` reads."""


def applies(profile: JudgeProfile, label: str) -> bool:
    """Return whether a profile scores sessions with ``label``."""
    return label in profile.match_labels or ANY_LABEL in profile.match_labels


def ranked(known: Sequence[Registered], label: str) -> list[JudgeProfile]:
    """Return the enabled profiles that apply to ``label``, best match first.

    A profile that lists the label precedes one that applies to all labels. Ties are resolved by the
    fewest labels (all labels count as the most), then a profile of the user before a shipped one
    (with a judge before without), then the highest version, then the first id.
    """
    applicable = [
        registered
        for registered in known
        if registered.profile.enabled and applies(registered.profile, label)
    ]
    applicable.sort(key=lambda entry: _place(entry, label))
    return [registered.profile for registered in applicable]


def assign(sessions: pl.DataFrame, registry: Registry, cards: pl.DataFrame) -> pl.DataFrame:
    """Return the profiles of each session, in the version that applies to it.

    Labels, order and ``enabled`` are those of a profile's newest version. A session is scored by
    the newest version, however long ago it ended; one that has a card keeps the version of its
    card, unless a later one was registered with ``rescore_history``.

    Args:
        sessions: Rows with CONTENT_KEY and ``classification_label``.
        registry: All registered versions.
        cards: Rows of ``scorecards`` with CARD_VERSION of these sessions.

    Returns:
        Table with the columns of ``ASSIGNMENTS``.
    """
    newest = registry.newest()
    labels = sessions["classification_label"].unique(maintain_order=True).to_list()
    frames = [ASSIGNMENTS.to_frame()]
    for label in labels:
        labeled = sessions.filter(pl.col("classification_label") == label)
        for rank, profile in enumerate(ranked(newest, label)):
            history = registry.history(profile.id)
            frames.append(
                labeled.join(_carded(cards, history), on=CONTENT_KEY, how="left").select(
                    *SESSION_KEY,
                    profile_id=pl.lit(profile.id),
                    profile_version=_version(history),
                    rank=pl.lit(rank, pl.Int64),
                    is_best_match=pl.lit(rank == 0),
                )
            )
    return pl.concat(frames).sort(*SESSION_KEY, "profile_id")


def _carded(cards: pl.DataFrame, history: Sequence[Registered]) -> pl.DataFrame:
    """Return the newest version that has scored each content, ``carded``."""
    of_history = pl.col("profile_version").is_in(
        [registered.profile.version for registered in history]
    )
    return (
        cards.filter(pl.col("profile_id") == history[0].profile.id, of_history, ~pl.col("fallback"))
        .group_by(CONTENT_KEY)
        .agg(carded=pl.col("profile_version").max())
    )


def _version(history: Sequence[Registered]) -> pl.Expr:
    newest = history[-1].profile.version
    rescored = max(
        (registered.profile.version for registered in history if registered.rescore_history),
        default=0,
    )
    kept = pl.max_horizontal("carded", pl.lit(rescored, pl.Int64))
    return pl.when(pl.col("carded").is_null()).then(pl.lit(newest, pl.Int64)).otherwise(kept)


def _place(registered: Registered, label: str) -> tuple[bool, float, int, int, str]:
    profile = registered.profile
    breadth = math.inf if ANY_LABEL in profile.match_labels else len(profile.match_labels)
    is_shipped = registered.origin == "shipped"
    default = is_shipped + (is_shipped and profile.method == "heuristic")
    return label not in profile.match_labels, breadth, default, -profile.version, profile.id
