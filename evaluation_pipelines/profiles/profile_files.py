"""YAML files of judge profiles: the shipped ones and those in the user's folder."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import yaml

from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError, parse_profile

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
    profiles = [*custom, *((path, each) for path, each in shipped if each.id not in replaced)]
    profiles.sort(key=lambda each: (each[1].id, each[1].version))
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
        has_aliases = any(isinstance(each, yaml.AliasEvent) for each in events)
        root = None if has_aliases else yaml.compose(text, Loader=_LOADER)
        values = None if has_aliases else yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ProfileError(f"{path} is not YAML: {error}") from None
    if has_aliases:
        raise ProfileError(f"{path} has YAML aliases (*name); write out the values")
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
            for each in node.value:
                yield from _repeated_keys(each)


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
