"""Ids of events.

The id of an event is a hash of what names it, or else of what its agent wrote: clients and
collectors resend lost records, and backups are read under new names; a repeated record has the same
id. Attributes that a pipeline adds on the way, to the resource or the record, are no part of it;
nor is the organization, which may be one of them.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

import msgspec

_SIZE_BYTES = 16

_encode = msgspec.json.Encoder(order="sorted").encode


def content_id(*content: Any) -> bytes:
    """Return a 16-byte hash of JSON-like content; the order of keys does not matter."""
    return hashlib.blake2b(_encode(content), digest_size=_SIZE_BYTES).digest()


def event_ids(
    identities: Iterable[tuple[Any, ...]],
    bodies: Iterable[Any],
    attributes: Mapping[str, Sequence[Any]],
) -> list[bytes]:
    """Return the ids of records that do not name themselves.

    A record that was sent again has the same id, even if a collector re-encoded it, stored its
    values as texts, or left out attributes without a value.

    Args:
        identities: Prefix, session, name and times of each record.
        bodies: Python values of the bodies.
        attributes: Name -> Python values of the attributes that identify a record.
    """
    names = tuple(sorted(attributes))
    columns = [_texts(attributes[name]) for name in names]
    rows = zip(*columns, strict=True) if columns else repeat(())
    records = zip(identities, _texts(bodies), rows, strict=False)
    if all(map(all, columns)):
        return [_content_hash(names, content) for content in records]
    found = list[bytes]()
    for identity, body, values in records:
        named = tuple(name for name, value in zip(names, values, strict=True) if value)
        kept = tuple(value for value in values if value)
        found.append(_content_hash(named, (identity, body, kept)))
    return found


def with_ordinal(event_id: bytes, ordinal: int) -> bytes:
    """Return the id of one of the equal records of a request, counted from 0."""
    return content_id(event_id.hex(), ordinal) if ordinal else event_id


def _content_hash(names: tuple[str, ...], content: Sequence[Any]) -> bytes:
    return hashlib.blake2b(_encode(content), digest_size=_SIZE_BYTES, salt=_salt(names)).digest()


@lru_cache(maxsize=4096)
def _salt(names: tuple[str, ...]) -> bytes:
    return content_id(*names)


def _texts(values: Iterable[Any]) -> Sequence[str]:
    """Return values as the texts that spell them; null is the empty text."""
    found = list(values)
    if set(map(type, found)) <= {str}:
        return found
    return [
        value if isinstance(value, str) else "" if value is None else _encode(value).decode()
        for value in found
    ]


_NAMED_BY = {
    "user_prompt": "prompt_id",
    "tool_result": "tool_use_id",
    "tool_decision": "tool_use_id",
    "api_request": "request_id",
    "api_error": "request_id",
    "api_refusal": "request_id",
}
"""Event name -> column whose value only one record of that name and time has."""

_NAME = ("session_id", "source_cli", "source_event_name")


def named_ids(
    columns: Mapping[str, Sequence[Any]], times_us: Sequence[int | None], prefix: str | None
) -> list[bytes | None]:
    """Return ids of records that name themselves, by number in their process or id of their call.

    An attribute that a collector adds or changes makes no other event of them. None for a record
    that has no such name, or no time: numbers begin again when a session is resumed. ``prefix`` is
    part of the ids.
    """
    nothing = [None] * len(times_us)
    identity = zip(*(columns.get(name) or nothing for name in _NAME), times_us, strict=True)
    hashed, found = hashlib.blake2b, list[bytes | None]()
    for of_record, (kind, name) in zip(identity, _own_names(columns, nothing), strict=True):
        if name is None or of_record[-1] is None:
            found.append(None)
        else:
            content = _encode((prefix, *of_record, kind, name))
            found.append(hashed(content, digest_size=_SIZE_BYTES).digest())
    return found


def _own_names(
    columns: Mapping[str, Sequence[Any]], nothing: Sequence[None]
) -> Iterable[tuple[str, Any]]:
    """Return what each record calls itself by, and its name or None."""
    sequences = columns.get("sequence") or nothing
    if None not in sequences:
        return zip(repeat("sequence"), sequences, strict=False)
    keys = (columns.get(_NAMED_BY.get(name, "")) or nothing for name in columns["event_name"])
    return [
        ("key", key[index]) if sequence is None else ("sequence", sequence)
        for index, (sequence, key) in enumerate(zip(sequences, keys, strict=True))
    ]
