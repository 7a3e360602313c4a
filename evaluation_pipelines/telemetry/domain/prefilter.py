"""Which lines can tell of a session, by their bytes: most of a large file need no decoding."""

import re
from collections.abc import Callable

_PLAIN = re.compile(r"[A-Za-z0-9_.:#+-]+", re.ASCII)
_NUMBER = re.compile(r"[0-9.eE+-]+")
_ESCAPED = re.compile(rb"\\u00(?:[2-7]|00)")
"""JSON can spell these letters in another way, which begins so; NUL is dropped from an id."""


def mention_of(key: str) -> Callable[[bytes], bool] | None:
    """Whether a line of JSON may tell of the session with a key, or with that id.

    A line of which it is false never does. None when that cannot be told by bytes: other
    characters than these can be escaped in other ways, and a number can be spelled in many.
    """
    ids = session_ids_of(key)
    if not all(_PLAIN.fullmatch(each) and not _NUMBER.fullmatch(each) for each in ids):
        return None
    shortest = min(ids, key=len).encode()  # the other one begins with it
    return lambda line: shortest in line or _ESCAPED.search(line) is not None


def session_ids_of(key: str) -> set[str]:
    """The ids that a session with this key, or this id, can have: a key is ``id#masque-number``."""
    return {key, key.rpartition("#")[0] or key}
