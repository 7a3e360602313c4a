"""Files of judge profiles, shipped and of the user, and their registration."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from evaluation_pipelines.profiles.domain.profile import (
    ANY_LABEL,
    JudgeProfile,
    ProfileError,
    parse_profile,
)
from evaluation_pipelines.profiles.domain.registry import Origin, Registered, Registry, ranked
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.lake import DamagedPartError
from evaluation_pipelines.storage.stores import Stores

SHIPPED = Path(__file__).resolve().parent / "shipped"

_MAX_BYTES = 1_000_000
# Most builds of PyYAML include the fast loader; both loaders read plain data only.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class ProfileFiles:
    """Profiles with their files, sorted by id and version, and problems of invalid files."""

    profiles: tuple[tuple[Path, JudgeProfile], ...]
    faults: tuple[str, ...]


def read_profiles(folder: Path) -> ProfileFiles:
    """Read the shipped profiles and those in ``folder``, which need not exist.

    A profile in ``folder`` replaces the shipped one with the same id. An invalid file, or a second
    file of the same id and version, is reported in ``faults``; the other files are used.
    """
    custom, faults = _read_folder(folder)
    shipped, shipped_faults = _read_folder(SHIPPED)
    replaced = {profile.id for _, profile in custom}
    profiles = [
        *custom,
        *((path, profile) for path, profile in shipped if profile.id not in replaced),
    ]
    profiles.sort(key=lambda entry: (entry[1].id, entry[1].version))
    return ProfileFiles(tuple(profiles), (*faults, *shipped_faults))


def read_profile(path: Path) -> JudgeProfile:
    """Read the profile in one file.

    Raises:
        ProfileError: The file is not YAML or not a profile; the message names the file.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        text = file.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise ProfileError(f"{path} is larger than {_MAX_BYTES} bytes, the limit for a profile")
    return _parsed(text, path)


@lru_cache(maxsize=64)  # sensors and builds read the same files again and again
def _parsed(text: bytes, path: Path) -> JudgeProfile:
    try:
        # Aliases are refused: with them a small file can expand to any size.
        events = yaml.parse(text, Loader=_LOADER)
        has_aliases = any(isinstance(event, yaml.AliasEvent) for event in events)
        root = None if has_aliases else yaml.compose(text, Loader=_LOADER)
        values = None if has_aliases else yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ProfileError(f"{path} is not YAML: {error}") from None
    if has_aliases:
        raise ProfileError(f"{path} has YAML aliases (*name). Write out the values")
    if repeated := sorted(set(_repeated_keys(root))):
        raise ProfileError(f"{path}: {', '.join(repeated)} occurs more than once in a mapping")
    return parse_profile(values, str(path))


def _repeated_keys(node: yaml.Node | None) -> Iterator[str]:
    """Yield the keys that a mapping has twice: YAML would silently take the last value."""
    match node:
        case yaml.MappingNode():
            names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            yield from (name for name in names if names.count(name) > 1)
            for _, value in node.value:
                yield from _repeated_keys(value)
        case yaml.SequenceNode():
            for child in node.value:
                yield from _repeated_keys(child)


def keep_profile(folder: Path, profile: JudgeProfile, source: Path) -> Path:
    """Copy a profile file unchanged into ``folder`` unless it is already there.

    Returns:
        Path of the file in ``folder``.

    Raises:
        OSError: The folder cannot be written.
    """
    if source.resolve().parent == folder.resolve():
        return source
    target = folder / f"{profile.id}.yaml"
    _replace(target, source.read_bytes())
    return target


def _replace(target: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = target.with_name(f".{target.name}.new")
    try:
        staged.write_bytes(content)
        staged.replace(target)
    finally:
        staged.unlink(missing_ok=True)


def files_fingerprint(folder: Path) -> str:
    """Return a text that changes when a profile file is added, changed or removed."""
    parts = []
    for path in (*_files(folder), *_files(SHIPPED)):
        try:
            status = path.stat()
            parts.append(f"{path}:{status.st_mtime_ns}:{status.st_size}")
        except OSError:  # deleted in between, or a link to nothing
            parts.append(f"{path}: cannot be read")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def switch_profile(folder: Path, profile_id: str, *, enabled: bool) -> Path:
    """Set ``enabled`` in the file of a profile; a shipped one is copied into ``folder`` first.

    The rest of the file stays as it is. If this fails, all files stay as they are.

    Returns:
        Path of the file.

    Raises:
        ProfileError: No file has the profile, or its file cannot be changed.
        OSError: The folder cannot be written.
    """
    files = {profile.id: path for path, profile in read_profiles(folder).profiles}
    if profile_id not in files:
        raise ProfileError(f"There is no file of a profile {profile_id} in {folder}.")
    source = files[profile_id]
    target = source if source.parent == folder else folder / f"{profile_id}.yaml"
    if target != source and target.exists():
        raise ProfileError(f"{target} is not a valid file of {profile_id}: correct or rename it")
    value = str(enabled).lower()
    try:
        content = _with_enabled(source.read_bytes().decode(), value).encode()
        is_switched = _parsed(content, source).enabled is enabled
    except (UnicodeDecodeError, ProfileError):
        is_switched = False
    if not is_switched:
        raise ProfileError(f"{source}: set enabled: {value} there by hand")
    _replace(target, content)
    return target


def _with_enabled(text: str, value: str) -> str:
    """Return the text of a profile with this value of ``enabled``, which is added if missing."""
    fields = _fields(text)
    for key, old in fields.value:
        if key.value == "enabled":
            return f"{text[: old.start_mark.index]}{value}{text[old.end_mark.index :]}"
    first, _ = fields.value[0]
    quote = first.style or ""
    line_end = "\r\n" if "\r\n" in text else "\n"
    separator = ", " if fields.flow_style else f"{line_end}{' ' * first.start_mark.column}"
    start = first.start_mark.index
    return f"{text[:start]}{quote}enabled{quote}: {value}{separator}{text[start:]}"


def _fields(text: str) -> yaml.MappingNode:
    """Return the fields of a profile, which are at the top or below ``profile:``."""
    # Only the loader in Python counts positions in characters of the text.
    match yaml.compose(text, Loader=yaml.SafeLoader):
        case yaml.MappingNode(value=[(_, yaml.MappingNode() as inner)]):
            return inner
        case yaml.MappingNode() as outer:
            return outer
    raise ProfileError("a profile must be a mapping of fields")


def _read_folder(folder: Path) -> tuple[list[tuple[Path, JudgeProfile]], list[str]]:
    found: dict[tuple[str, int], tuple[Path, JudgeProfile]] = {}
    faults: list[str] = []
    for path in _files(folder):
        try:
            profile = read_profile(path)
        except (ProfileError, OSError) as error:
            faults.append(str(error))
            continue
        first, _ = found.setdefault((profile.id, profile.version), (path, profile))
        if first != path:
            faults.append(f"{path}: {profile.id} version {profile.version} is also in {first}")
    return list(found.values()), faults


def _files(folder: Path) -> Iterator[Path]:
    paths = (*folder.glob("*.yaml"), *folder.glob("*.yml"))
    return (path for path in sorted(paths) if not path.name.startswith("."))


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
    changed = [version for version in synced.registry.versions if version not in known.versions]
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
        if origin == "shipped" and _belongs_to_a_program(registry, profile):
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


def _belongs_to_a_program(registry: Registry, profile: JudgeProfile) -> bool:
    return any(registered.origin == "api" for registered in registry.history(profile.id)[-1:])


def _switched(settings: Settings, registry: Registry, profile: JudgeProfile) -> JudgeProfile:
    """Return a shipped profile; one that waits for a judge is on once a judge is configured.

    It stays on if no judge is configured, such as in a terminal without the settings: the scores
    that were paid for count there as well.
    """
    if profile.enabled or profile.method == "heuristic":
        return profile
    if settings.judge_model is not None:
        given = {"samples": settings.judge_samples, "sample_rate": settings.judge_sample_rate}
        return profile.model_copy(update={"enabled": True, **given})
    known = [
        registered.profile
        for registered in registry.history(profile.id)
        if registered.origin == "shipped"
    ]
    kept = {name: getattr(profile, name) for profile in known[-1:] for name in _SWITCHED}
    return profile.model_copy(update=kept)


def _without_removed(registry: Registry, present: Collection[str]) -> Registry:
    for registered in registry.newest():
        is_of_file = registered.origin != "api" and registered.profile.enabled
        if is_of_file and registered.profile.id not in present:
            off = registered.profile.model_copy(update={"enabled": False})
            registry = registry.with_version(replace(registered, profile=off))
    return registry


def concerned_labels(before: Registry, after: Registry) -> set[str]:
    """Return the labels whose sessions are now scored by other profiles or in another order.

    A new version of a known profile affects no other label: existing scorecards keep theirs. Its
    quality risk threshold applies to all sessions immediately.
    """
    old, new = before.newest(), after.newest()
    listed = (registered.profile.match_labels for registered in (*old, *new))
    labels = {label for labels in listed for label in (*labels, ANY_LABEL)}
    return {label for label in labels if _ranking(old, label) != _ranking(new, label)}


def _ranking(profiles: Sequence[Registered], label: str) -> list[tuple[str, float]]:
    return [(profile.id, profile.quality_risk_fraction) for profile in ranked(profiles, label)]


def _dates_with(stores: Stores, labels: Collection[str]) -> list[date]:
    """Return the dates with sessions of some labels, or with damaged sessions."""
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
    """Register a profile that a program sends; builds treat it like one from a file.

    Without ``version``, unchanged content keeps its version and other content gets the next one.
    Method and labels default to heuristic and the id.

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
