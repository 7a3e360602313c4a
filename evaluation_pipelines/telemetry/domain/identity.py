"""Identity of an event: a hash of its content.

Clients and collectors resend lost records, and backups are read under new names; a repeated record
has the same id.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

_SIZE_BYTES = 16

_encode = msgspec.json.Encoder(order="sorted").encode


def content_id(*content: Any) -> bytes:
    """Return a 16-byte hash of JSON-like content; the order of keys does not matter."""
    return hashlib.blake2b(_encode(content), digest_size=_SIZE_BYTES).digest()


def event_ids(
    senders: Iterable[bytes],
    times_us: Iterable[int | None],
    bodies: Iterable[Any],
    attributes: Mapping[str, Sequence[Any]],
) -> list[bytes]:
    """Return the ids of records that have the same attributes.

    A record that was sent again has the same id, even if a collector re-encoded it.

    Args:
        senders: 16 bytes per record that identify its sender.
        times_us: Times as sent, in microseconds.
        bodies: Python values of the bodies.
        attributes: Name -> Python values.
    """
    names = sorted(attributes)
    non_empty = [body or None for body in bodies]
    contents = zip(times_us, non_empty, *map(attributes.__getitem__, names), strict=True)
    salt, hashed = content_id(*names), hashlib.blake2b
    return [
        hashed(_encode(content), digest_size=_SIZE_BYTES, salt=salt, person=sender).digest()
        for sender, content in zip(senders, contents, strict=True)
    ]
