"""Names of the files of one rotation, and which of two is newer."""

import re

_ENDING = r"\.(?:jsonl|json|pb)(?:\.(?:gz|zst))?"
_ENDINGS = re.compile(_ENDING)
_BACKUP = re.compile(rf"{_ENDING}\.(\d{{1,4}})\Z")
_STAMP = re.compile(
    r"(?:\A|[-_.])(20\d\d([-_.]?)(?:0[1-9]|1[0-2])\2(?:0[1-9]|[12]\d|3[01])[\dTZ:._+-]*)"
    r"(?:-(?:size|time|manual))?\Z"
)
"""A date, and more of a time; a number alone may be that of a pod, a user or a host."""

_LIVE = (1,)


def place_in_series(path: str) -> tuple[str, tuple[int, ...]]:
    """Return the series of a file and a rank in it, which is greater for a newer file.

    A rotation adds a time to the name or a number behind it: of the same series as
    ``agents.jsonl``, which is the newest, are ``agents-2026-11-28T09-00-00.000-size.jsonl`` and
    ``agents.jsonl.1`` (``.2`` is older). ``agents-1.jsonl`` and ``agents-2.jsonl`` are two series:
    both may be live.
    """
    folder, _, name = path.rpartition("/")
    backup = _BACKUP.search(name)
    stem = _ENDINGS.sub("", name[: backup.start(1) - 1] if backup else name)
    stamp = _STAMP.search(stem)
    series = f"{folder}/{stem[: stamp.start()] if stamp else stem}"
    if backup:
        return series, (0, -int(backup[1]))
    return series, (0, *map(int, re.findall(r"\d+", stamp[1]))) if stamp else _LIVE
