"""Registration of the judge profiles in profile files."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from evaluation_pipelines.profiles.domain.profile import ProfileError
from evaluation_pipelines.profiles.domain.registry import Registered, Registry
from evaluation_pipelines.profiles.profile_files import keep_profile, read_profile, read_profiles
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores


@dataclass(frozen=True, slots=True)
class Synced:
    """The registry after a sync, and the problems of files that were not registered."""

    registry: Registry
    faults: tuple[str, ...]


def sync_profiles(stores: Stores, now: datetime) -> Synced:
    """Register new and changed profile files.

    A file that is invalid or that the version rules refuse is reported in ``faults``, and the
    registered version of its profile remains in use. If nothing has changed, nothing is written.
    """
    known = ProfileStore(stores.ledger).registry()
    synced = preview_sync(stores.settings, known, now)
    for each in synced.registry.versions:
        if each not in known.versions:
            ProfileStore(stores.ledger).register(each.profile, now)
    return synced


def preview_sync(settings: Settings, registry: Registry, now: datetime) -> Synced:
    """Return the registry as ``sync_profiles`` would leave it, without writing anything."""
    files = read_profiles(settings.profiles_dir)
    faults = list(files.faults)
    for path, profile in files.profiles:
        try:
            changed = registry.admit(profile, now)
        except ProfileError as error:
            faults.append(f"{path}: {error}")
            continue
        if changed is not None:
            registry = registry.with_version(changed)
    return Synced(registry, tuple(faults))


def set_profile(
    stores: Stores, path: Path, now: datetime, *, rescore_history: bool
) -> Registered | None:
    """Register the profile of a file and copy the file to the profiles folder.

    Args:
        stores: Ledger, lake and settings.
        path: Profile file.
        now: Time of the registration.
        rescore_history: Whether sessions that ended before now get scorecards of this version; all
            session dates are then scheduled for a rebuild.

    Returns:
        The registered version; ``None`` if nothing changed.

    Raises:
        ProfileError: The file is not a profile, or the version rules refuse it.
        OSError: The file cannot be read or copied.
    """
    profile = read_profile(path)
    sync_profiles(stores, now)
    registered = ProfileStore(stores.ledger).register(profile, now, rescore_history=rescore_history)
    keep_profile(stores.settings.profiles_dir, profile, path)
    if rescore_history:
        RebuildQueue(stores.ledger).touch(stores.lake.partitions(AGENT_SESSIONS), now)
    return registered
