"""The identity of an event: a hash of its own content.

Clients and collectors send again what was lost on the way, and backups are read under new names;
what they repeat has the same id.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

_SIZE_BYTES = 16

_encode = msgspec.json.Encoder(order="sorted").encode


def content_id(*content: Any) -> bytes:
    """16-byte hash of JSON-like content; the order of keys does not matter."""
    return hashlib.blake2b(_encode(content), digest_size=_SIZE_BYTES).digest()


def event_ids(
    senders: Iterable[bytes],
    times_us: Iterable[int | None],
    bodies: Iterable[Any],
    attributes: Mapping[str, Sequence[Any]],
) -> list[bytes]:
    """The ids of records that have the same attributes.

    Equal for a record that was sent again, whether or not a collector re-encoded it.

    Args:
        senders: Of each record 16 bytes that tell its sender from others.
        times_us: The times as sent, in microseconds.
        bodies: The plain bodies.
        attributes: Name -> plain values.
    """
    names = sorted(attributes)
    said = [body or None for body in bodies]
    contents = zip(times_us, said, *map(attributes.__getitem__, names), strict=True)
    salt, hashed = content_id(*names), hashlib.blake2b
    return [
        hashed(_encode(content), digest_size=_SIZE_BYTES, salt=salt, person=sender).digest()
        for sender, content in zip(senders, contents, strict=True)
    ]
