"""Judge profiles: the files that people write, taken over into the registry."""

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
    """The registry after the files were taken over, and why some of them were not."""

    registry: Registry
    faults: tuple[str, ...]


def sync_profiles(stores: Stores, now: datetime) -> Synced:
    """Register what is new or changed in the profile files.

    A file that cannot be used, or that the rules of versions refuse, is a fault; its profile goes
    on as it was last registered. Nothing is written when nothing changed.
    """
    known = ProfileStore(stores.ledger).registry()
    looked = look_at_profiles(stores.settings, known, now)
    for each in looked.registry.versions:
        if each not in known.versions:
            ProfileStore(stores.ledger).register(each.profile, now)
    return looked


def look_at_profiles(settings: Settings, registry: Registry, now: datetime) -> Synced:
    """What the registry will be when the files have been taken over; nothing is written."""
    files = read_profiles(settings.profiles_dir)
    faults = list(files.faults)
    for path, profile in files.profiles:
        try:
            wanted = registry.admit(profile, now)
        except ProfileError as error:
            faults.append(f"{path}: {error}")
            continue
        if wanted is not None:
            registry = registry.having(wanted)
    return Synced(registry, tuple(faults))


def set_profile(
    stores: Stores, path: Path, now: datetime, *, rescore_history: bool
) -> Registered | None:
    """Register the profile of a file and keep the file in the folder; None if nothing changed.

    With ``rescore_history`` all dates become due, so that older sessions get cards of it, too.

    Raises:
        ProfileError: it is not a profile, or the rules of versions refuse it.
        OSError: the file cannot be read or kept.
    """
    profile = read_profile(path)
    sync_profiles(stores, now)
    registered = ProfileStore(stores.ledger).register(profile, now, rescore_history=rescore_history)
    keep_profile(stores.settings.profiles_dir, profile, path)
    if rescore_history:
        RebuildQueue(stores.ledger).touch(stores.lake.partitions(AGENT_SESSIONS), now)
    return registered
