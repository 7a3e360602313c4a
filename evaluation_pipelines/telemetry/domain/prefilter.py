"""Prefilter: select lines that may belong to a session by their bytes, without decoding."""

import re
from collections.abc import Callable

_PLAIN = re.compile(r"[A-Za-z0-9_.:#+-]+", re.ASCII)
_NUMBER = re.compile(r"[0-9.eE+-]+|-?inf|nan")
_ESCAPED = re.compile(rb"\\u00(?:[2-7]|00)")
"""Beginnings of JSON escapes of these characters, and of NUL, which is removed from ids."""


def line_filter(key: str) -> Callable[[bytes], bool] | None:
    """Return a predicate that is False for JSON lines that cannot belong to a session key or id.

    None if the bytes cannot decide: other characters can be escaped in other ways, and numbers have
    many spellings.
    """
    shortest = min(session_ids_of(key), key=len)  # the other one starts with it
    if not _PLAIN.fullmatch(shortest) or _NUMBER.fullmatch(shortest):
        return None
    wanted = shortest.encode()
    return lambda line: wanted in line or _ESCAPED.search(line) is not None


def session_ids_of(key: str) -> set[str]:
    """Return the ids that a session with this key or id can have; a key is ``id#masque-n``."""
    return {key, key.rpartition("#")[0] or key}
