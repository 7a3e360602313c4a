"""Names of the files of one rotation, and which of two is newer."""

import re

_ENDINGS = re.compile(r"\.(?:jsonl|json|pb)(?:\.(?:gz|zst))?")
_BACKUP = re.compile(r"\.(\d{1,4})\Z")
_STAMP = re.compile(r"(?:\A|[-_.])(\d[\dTZ:._+-]*)(?:-(?:size|time|manual))?\Z")
_LIVE = (1,)


def place_in_series(path: str) -> tuple[str, tuple[int, ...]]:
    """Return the series of a file and a rank in it, which is greater for a newer file.

    A rotation adds a time or a number to the name: ``agents-2026-11-28T09-00-00.000-size.jsonl``,
    ``agents.jsonl.1`` (``.2`` is older) and ``agents-2.jsonl`` (``-1`` is older) are of the same
    series as ``agents.jsonl``, which is the newest.
    """
    folder, _, name = path.rpartition("/")
    backup = _BACKUP.search(name)
    stem = _ENDINGS.sub("", name[: backup.start()] if backup else name)
    stamp = _STAMP.search(stem)
    series = f"{folder}/{stem[: stamp.start()] if stamp else stem}"
    if backup:
        return series, (0, -int(backup[1]))
    return series, (0, *map(int, re.findall(r"\d+", stamp[1]))) if stamp else _LIVE
