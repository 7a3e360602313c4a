"""Judge profiles as YAML files: those that are shipped, and those of a folder of the user's."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from evaluation_pipelines.profiles.domain.profile import JudgeProfile, ProfileError, parse_profile

SHIPPED = Path(__file__).resolve().parent / "shipped"

_LARGEST_BYTES = 1_000_000
# The fast one comes with most builds of PyYAML; both read only what is plain data.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class ProfileFiles:
    """Profiles by file, sorted by id and version, and the files that could not be used."""

    profiles: tuple[tuple[Path, JudgeProfile], ...]
    faults: tuple[str, ...]


def read_profiles(folder: Path) -> ProfileFiles:
    """The shipped profiles and those of a folder (which need not exist).

    A profile of the folder takes the place of the shipped one of the same id. A file that cannot
    be used is a fault and the others count; so is a second file of the same id and version.
    """
    own, faults = _read_folder(folder)
    shipped, defects = _read_folder(SHIPPED)
    taken = {profile.id for _, profile in own}
    profiles = [*own, *((path, each) for path, each in shipped if each.id not in taken)]
    profiles.sort(key=lambda each: (each[1].id, each[1].version))
    return ProfileFiles(tuple(profiles), (*faults, *defects))


def read_profile(path: Path) -> JudgeProfile:
    """The profile of one file.

    Raises:
        ProfileError: it is not YAML, or not a profile; the message names the file.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        text = file.read(_LARGEST_BYTES + 1)
    if len(text) > _LARGEST_BYTES:
        raise ProfileError(f"{path} is larger than {_LARGEST_BYTES} bytes: not a profile")
    try:
        # Without aliases a small file stays small, however often it names itself.
        events = yaml.parse(text, Loader=_LOADER)
        has_aliases = any(isinstance(each, yaml.AliasEvent) for each in events)
        values = None if has_aliases else yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe one
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ProfileError(f"{path} is not YAML: {error}") from None
    if has_aliases:
        raise ProfileError(f"{path} has aliases (*name), which are not taken: write it out")
    return parse_profile(values, str(path))


def keep_profile(folder: Path, profile: JudgeProfile, source: Path) -> Path:
    """Copy a profile's file, as it is, into the folder unless it is there; gives its place.

    Raises:
        OSError: the folder cannot be written.
    """
    if source.resolve().parent == folder.resolve():
        return source
    place = folder / f"{profile.id}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    staged = place.with_name(f".{place.name}.new")
    staged.write_bytes(source.read_bytes())
    staged.replace(place)
    return place


def _read_folder(folder: Path) -> tuple[list[tuple[Path, JudgeProfile]], list[str]]:
    found: dict[tuple[str, int], tuple[Path, JudgeProfile]] = {}
    faults: list[str] = []
    for path in _files(folder):
        try:
            profile = read_profile(path)
        except (ProfileError, OSError) as error:
            faults.append(str(error))
            continue
        before, _ = found.setdefault((profile.id, profile.version), (path, profile))
        if before != path:
            faults.append(f"{path}: {profile.id} version {profile.version} is in {before} too")
    return list(found.values()), faults


def _files(folder: Path) -> Iterator[Path]:
    paths = (*folder.glob("*.yaml"), *folder.glob("*.yml"))
    return (path for path in sorted(paths) if not path.name.startswith("."))
