"""Registration of the judge profiles in profile files."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl

from evaluation_pipelines.profiles.domain.matching import ranked
from evaluation_pipelines.profiles.domain.profile import (
    ANY_LABEL,
    JudgeProfile,
    ProfileError,
    parse_profile,
)
from evaluation_pipelines.profiles.domain.registry import Origin, Registered, Registry
from evaluation_pipelines.profiles.profile_files import (
    SHIPPED,
    keep_profile,
    read_profile,
    read_profiles,
)
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import DamagedPartError
from evaluation_pipelines.storage.stores import Stores

_SWITCHED = ("enabled", "samples", "sample_rate")


@dataclass(frozen=True, slots=True)
class Synced:
    """The registry after a sync, and the problems of files that were not registered."""

    registry: Registry
    faults: tuple[str, ...]


def sync_profiles(stores: Stores, now: datetime) -> Synced:
    """Register new and changed profile files, and switch off profiles whose file was removed.

    A file that is invalid or that the version rules refuse is reported in ``faults``, and the
    registered version of its profile remains in use. Dates with sessions whose profiles change are
    queued for a build. If nothing has changed, nothing is written.
    """
    known = ProfileStore(stores.ledger).registry()
    synced = preview_sync(stores.settings, known, now)
    changed = [each for each in synced.registry.versions if each not in known.versions]
    if changed:
        # Before the first profiles no session had one.
        labels = concerned_labels(known, synced.registry) if known.versions else set()
        dates = _dates_with(stores, labels)
        ProfileStore(stores.ledger).register_all(changed, now, dates)
    return synced


def preview_sync(settings: Settings, registry: Registry, now: datetime) -> Synced:
    """Return the registry as ``sync_profiles`` would leave it, without writing anything."""
    files = read_profiles(settings.profiles_dir)
    faults = list(files.faults)
    for path, profile in files.profiles:
        origin: Origin = "shipped" if path.parent == SHIPPED else "file"
        if origin == "shipped" and _is_of_program(registry, profile):
            continue
        offered = _switched(settings, registry, profile) if origin == "shipped" else profile
        try:
            changed = registry.admit(offered, now, origin=origin)
        except ProfileError as error:
            faults.append(f"{path}: {error}")
            continue
        if changed is not None:
            registry = registry.with_version(changed)
    if not files.faults:  # a file that cannot be read may be that of any profile
        registry = _without_removed(registry, {profile.id for _, profile in files.profiles})
    return Synced(registry, tuple(faults))


def _is_of_program(registry: Registry, profile: JudgeProfile) -> bool:
    return any(each.origin == "api" for each in registry.history(profile.id)[-1:])


def _switched(settings: Settings, registry: Registry, profile: JudgeProfile) -> JudgeProfile:
    """Return a shipped profile; one that waits for a judge is on once a judge is configured.

    It stays on where no judge is configured, such as in a terminal without the settings: the scores
    that were paid for count there as well.
    """
    if profile.enabled or profile.method == "heuristic":
        return profile
    if settings.judge_model is not None:
        given = {"samples": settings.judge_samples, "sample_rate": settings.judge_sample_rate}
        return profile.model_copy(update={"enabled": True, **given})
    known = [each.profile for each in registry.history(profile.id) if each.origin == "shipped"]
    kept = {name: getattr(each, name) for each in known[-1:] for name in _SWITCHED}
    return profile.model_copy(update=kept)


def _without_removed(registry: Registry, present: Collection[str]) -> Registry:
    for each in registry.newest():
        is_of_file = each.origin != "api" and each.profile.enabled
        if is_of_file and each.profile.id not in present:
            off = each.profile.model_copy(update={"enabled": False})
            registry = registry.with_version(replace(each, profile=off))
    return registry


def concerned_labels(before: Registry, after: Registry) -> set[str]:
    """Return the labels of sessions that other profiles score now, or in another order.

    A new version of a known profile concerns none otherwise: scorecards that exist keep theirs. Its
    limit of quality risk counts for all sessions at once.
    """
    old, new = before.newest(), after.newest()
    listed = (each.profile.match_labels for each in (*old, *new))
    labels = {label for labels in listed for label in (*labels, ANY_LABEL)}
    return {label for label in labels if _ranking(old, label) != _ranking(new, label)}


def _ranking(profiles: Sequence[Registered], label: str) -> list[tuple[str, float]]:
    return [(each.id, each.quality_risk_fraction) for each in ranked(profiles, label)]


def _dates_with(stores: Stores, labels: Collection[str]) -> list[date]:
    """Return the dates with sessions of some labels, or whose sessions are damaged."""
    if not labels:
        return []
    label = pl.col("classification_label")
    is_concerned = pl.lit(value=True) if ANY_LABEL in labels else label.is_in(sorted(labels))
    columns = ["session_date", "classification_label"]

    def concerned(dates: Sequence[date]) -> list[date]:
        sessions = stores.lake.read(AGENT_SESSIONS, dates, columns)
        return sessions.filter(is_concerned)["session_date"].unique().to_list()

    every = list(stores.lake.partitions(AGENT_SESSIONS))
    try:
        return concerned(every)
    except DamagedPartError:  # of one date; it is built again whatever its sessions are
        found: list[date] = []
    for day in every:
        try:
            found += concerned([day])
        except DamagedPartError:
            found.append(day)
    return found


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
    before = sync_profiles(stores, now).registry
    registered = _register(stores, before, profile, now, rescore_history=rescore_history)
    keep_profile(stores.settings.profiles_dir, profile, path)
    return registered


def set_definition(
    stores: Stores, values: Mapping[str, Any], now: datetime, *, rescore_history: bool = False
) -> Registered:
    """Register a profile that a program sends; builds treat it as one of a file.

    Without ``version``, unchanged content keeps its version and other content gets the next one.
    Method and labels may be missing, too: heuristic, and the id.

    Args:
        stores: Ledger, lake and settings.
        values: The fields of a profile, in snake case or camel case.
        now: Time of the registration.
        rescore_history: As in :func:`set_profile`.

    Returns:
        The version that is registered now.

    Raises:
        ProfileError: The values are no profile.
        ProfileRefusedError: The version rules refuse it.
    """
    before = sync_profiles(stores, now).registry
    profile = with_next_version(before, values)
    stored = _register(stores, before, profile, now, rescore_history=rescore_history, origin="api")
    return stored or before.find(profile.id)


def with_next_version(known: Registry, values: Mapping[str, Any]) -> JudgeProfile:
    """Return the profile that a program sends, with the version it has or gets.

    Raises:
        ProfileError: The values are no profile.
    """
    name = str(values.get("id", "the profile"))
    given = {"version": 1, "method": "heuristic", **values}
    if not {"matchLabels", "match_labels"} & values.keys():
        given["match_labels"] = [name]
    profile = parse_profile(given, name)
    history = known.history(profile.id)
    if "version" in values or not history:
        return profile
    newest = history[-1].profile
    is_same = newest.content_hash == profile.content_hash
    return profile.model_copy(update={"version": newest.version + (not is_same)})


def _register(
    stores: Stores,
    before: Registry,
    profile: JudgeProfile,
    now: datetime,
    *,
    rescore_history: bool,
    origin: Origin = "file",
) -> Registered | None:
    """Register a profile with the dates that it makes due; ``None`` if nothing changed."""
    changed = before.admit(profile, now, rescore_history=rescore_history, origin=origin)
    after = before if changed is None else before.with_version(changed)
    dates = (
        stores.lake.partitions(AGENT_SESSIONS)
        if rescore_history
        else _dates_with(stores, concerned_labels(before, after))
    )
    store = ProfileStore(stores.ledger)
    return store.register(profile, now, rescore_history=rescore_history, dates=dates, origin=origin)
