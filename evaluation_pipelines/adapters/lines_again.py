"""Single lines of a landing file that was read before, found again by their place."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluation_pipelines.adapters.documents import Documents, Form
from evaluation_pipelines.adapters.landing import KEPT_BYTES, RawLine
from evaluation_pipelines.domain.telemetry.reader import first_bytes


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stood, how long it was, and how it began (empty where that is not known)."""

    offset: int
    length_bytes: int
    first_bytes: str


def lines_again(documents: Documents, places: Sequence[Place]) -> Iterator[RawLine | None]:
    """The line at each place, in the order given, which must be that of the offsets.

    None where the file holds something else now. A compressed stream is read through once.
    """
    if documents.form.is_stream:
        found = _of_stream(documents, places)
    elif documents.form is Form.ZSTD_MESSAGES:
        found = (next(documents.read(place.offset), None) for place in places)
    else:
        found = (_of_plain(documents, place) for place in places)
    for place, line in zip(places, found, strict=True):
        yield line if line is not None and _is_it(line, place, documents.form) else None


def _of_plain(documents: Documents, place: Place) -> RawLine | None:
    length, limit = place.length_bytes, documents.max_line_bytes
    size = length if length <= limit else KEPT_BYTES
    text = os.pread(documents.handle.fileno(), size, place.offset)
    return RawLine(place.offset, text, length, place.offset + length)


def _of_stream(documents: Documents, places: Sequence[Place]) -> Iterator[RawLine | None]:
    lines = documents.read(places[0].offset)
    line = next(lines, None)
    for place in places:
        while line is not None and line.offset < place.offset:
            line = next(lines, None)
        yield line


def _is_it(line: RawLine, place: Place, form: Form) -> bool:
    if line.offset != place.offset:
        return False
    if line.defect is not None or not place.first_bytes:
        return True
    if first_bytes(line.text) != place.first_bytes:
        return False
    # A message that is too long is never unpacked to its end: its length is not known.
    return line.length_bytes == place.length_bytes or form is Form.ZSTD_MESSAGES
