"""Lines of a file in any encoding: plain, pretty-printed, or compressed in three ways."""

import gzip
import io
import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import BinaryIO

import pyarrow as pa
import pytest

from evaluation_pipelines.storage.raw_lines import RawLine
from evaluation_pipelines.telemetry.documents import Documents, FileFormat, file_format

LINES = [b'{"n": %d}' % n for n in range(2000)]
CONTENT = b"".join(line + b"\n" for line in LINES)
RANDOM = Random(1)  # noqa: S311 - not for secrets
NOISE = b"".join(b'{"n": "%s"}\n' % RANDOM.randbytes(100).hex().encode() for _ in range(4_000))
"""Lines that hardly compress: a stream of many blocks."""


def zstd(content: bytes) -> bytes:
    packed: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return packed


def messages(*contents: bytes) -> bytes:
    """Return the collector's form: each message after its length."""
    return b"".join(struct.pack(">I", len(p := zstd(content))) + p for content in contents)


def read(handle: BinaryIO) -> list[bytes]:
    return [line.text for line in Documents(handle, 1_000, 500).read(0)]


PRETTY = b'{\n  "resourceLogs": []\n}\n'
BROKEN = b"{\n  oops\n  [1]\n}\n"


@pytest.mark.parametrize(
    ("content", "documents"),
    [
        (b"", []),
        (b"{}\n{}\n", [b"{}", b"{}"]),
        (b"{}\n{", [b"{}"]),
        # A first line that was cut in a text cannot go on.
        (b'{"a": "cut o\n', [b'{"a": "cut o']),
        (b'{"a": "cut o\n{}\n{}\n', [b'{"a": "cut o', b"{}", b"{}"]),
        # A rotation can cut between a line and its newline: a complete object is a complete line.
        (b"{}\n{}", [b"{}", b"{}"]),
        (b"{}\n12", [b"{}"]),
        (b'{"a": NaN}', [b'{"a": NaN}']),
        (b'{"a": "\\ud83d"}', [b'{"a": "\\ud83d"}']),
        # Requests without a newline between or after them: whole ones are read, the last may grow.
        (b'{"a": 1}{"b": 2}', [b'{"a": 1}{"b": 2}']),
        (b'{"a": 1} {"b": 2', [b'{"a": 1} ']),
        (b'{"a": 1}{"b": "}{', [b'{"a": 1}']),
        (b'{"a": "}{\\"b"}', [b'{"a": "}{\\"b"}']),
        (PRETTY[:-1] + PRETTY + b"{}\n", [PRETTY[:-1], PRETTY, b"{}\n"]),
        (PRETTY[:-1] + PRETTY[:-2], [PRETTY[:-1]]),
        (PRETTY, [PRETTY]),
        (PRETTY[:-1], [PRETTY[:-1]]),
        (PRETTY[:-2], []),
        # A file that begins with a document has documents, of one line or several.
        (PRETTY + b"{}\n", [PRETTY, b"{}\n"]),
        (PRETTY + PRETTY + PRETTY[:-2], [PRETTY, PRETTY]),
        (PRETTY + b"\n\n" + PRETTY, [PRETTY, b"", PRETTY]),
        (b"[\n{},\n{}\n]\n", [b"[\n{},\n{}\n]\n"]),
        (b'{\n "a": NaN,\n "b": "\\ud83d"\n}\n', [b'{\n "a": NaN,\n "b": "\\ud83d"\n}\n']),
        # A file that begins with a line has lines.
        (b"{}\n" + PRETTY, [b"{}", *PRETTY.split(b"\n")[:-1]]),
        # A broken document reaches to the next line that begins with a bracket.
        (BROKEN + b"{}\n", [BROKEN, b"{}\n"]),
        (b'{"a": [\n{}\n{}\n', [b'{"a": [\n', b"{}\n", b"{}\n"]),
        (BROKEN[:-2], [BROKEN[:-2]]),
        # A byte order mark is no part of the first line.
        (b"\xef\xbb\xbf{}\n{}\n", [b"{}", b"{}"]),
        (b"\xef\xbb\xbf" + PRETTY, [PRETTY]),
        # After a rotation the newline of the last line is the first byte of the new file.
        (b"\n{}\n", [b"", b"{}"]),
        (b"\n{}\n{}\n", [b"", b"{}", b"{}"]),
        (b"\n", []),
        (b"\n" + PRETTY, [b"", PRETTY]),
        (b"\n" + PRETTY[:-2], [b""]),
        (b'\n{"a', []),  # not known yet whether it has lines
        (b"\n" * 9_000 + b"{}\n", [b"", b"{}"]),  # empty lines are yielded as one
        (b" \n" * 9_000 + b"{}\n", [b" "] * 9_000 + [b"{}"]),
    ],
)
def test_only_complete_lines_and_documents_are_read(content: bytes, documents: list[bytes]) -> None:
    assert read(io.BytesIO(content)) == documents


CONTENTS = {
    "documents": PRETTY * 3,
    "a document, then lines": PRETTY + b"{}\n{}\n" + PRETTY,
    "numbers": b'{\n "a": 1.5e-7,\n "b": -1\n}\n' * 2,
    "what only a lenient parser reads": b'{\n "a": NaN,\n "b": "\\ud83d cut"\n}\n' * 2,
    "lines": b'{"a": 1}\n{"b": 2}\n',
    "blank lines": b"\n\n" + PRETTY + b"\n \n" + PRETTY,
    "an array": b"[\n {},\n {}\n]\n" + PRETTY,
    "broken lines": b'{"a": "cut o\n{}\n',
    "broken in the middle": PRETTY + b"{\n  oops\n" + PRETTY,
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_the_documents_do_not_depend_on_when_they_are_read(content: bytes) -> None:
    def texts(lines: Iterable[RawLine]) -> list[tuple[int, bytes]]:
        return [(line.offset, line.text.strip()) for line in lines if line.text.strip()]

    whole = texts(Documents(io.BytesIO(content), 1_000, 500).read(0))
    for cut in range(len(content)):
        first = list(Documents(io.BytesIO(content[:cut]), 1_000, 500).read(0))
        position = first[-1].next_offset if first else 0
        rest = Documents(io.BytesIO(content), 1_000, 500).read(position)
        assert texts(first) + texts(rest) == whole, cut
        # And the same bytes, later.
        again = Documents(io.BytesIO(content), 1_000, 500).read(0, position)
        assert texts(again) == texts(first), cut


@pytest.mark.parametrize("following", [b"", b"{}\n"])
def test_a_line_after_a_blank_one_has_the_same_offset_whatever_follows_it(following: bytes) -> None:
    documents = Documents(io.BytesIO(b"\n{}\n" + following), 1_000, 500)
    assert documents.is_lines
    assert [line.offset for line in documents.read(0)][:2] == [0, 1]


@pytest.mark.parametrize(
    ("content", "cut"),
    [
        (b"{}\n{", b"{"),
        (b'{"a": 1}{"b', b'{"b'),
        (b'{"a', b'{"a'),
        (PRETTY + PRETTY[:-2], PRETTY[:-2]),
        (b"{}\n", None),
        (b"{}", None),
        (b"{}\n\n ", None),
        (PRETTY, None),
        (messages(b"{}") + b"\0\0\0\x09\x28\xb5", b"\0\0\0\x09\x28\xb5"),
    ],
)
def test_what_a_file_that_does_not_grow_ends_with_is_a_defect(
    content: bytes, cut: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with path.open("rb") as handle:
        *before, last = Documents(handle, 1_000, 500, is_final=True).read(0)
        assert (last.text if last.defect else None) == cut
        if cut is not None:
            assert (last.offset, last.next_offset) == (len(content) - len(cut), len(content))
            # Read again as a range, it is the same; in a file that grows it is not read yet.
            handle.seek(0)
            assert list(Documents(handle, 1_000, 500).read(0, len(content))) == [*before, last]
            handle.seek(0)
            assert list(Documents(handle, 1_000, 500).read(0)) == before


def test_lines_without_newlines_are_read_in_pieces_within_the_limit() -> None:
    """A file of one line that is longer than the limit is not lost, and fits in memory."""
    content = b"".join(b'{"n": %d}' % n for n in range(10, 99))  # 89 requests of 9 bytes
    for end in (b"", b"\n"):
        lines = list(Documents(io.BytesIO(content + end), 30, 500).read(0))
        assert b"".join(line.text for line in lines) == content
        assert {line.length_bytes for line in lines} == {27, 18}  # 3 * 9; 89 is 29 * 3 + 2
        assert not any(line.is_overlong for line in lines)


def test_a_document_over_the_limit_is_one_overlong_line() -> None:
    content = b"{\n" + b' "a": 1,\n' * 1_000
    long, short = Documents(io.BytesIO(content + PRETTY), 500, 500).read(0)
    assert (long.text, long.length_bytes) == (content[:256], len(content))
    assert (long.is_overlong, long.next_offset) == (True, len(content))
    assert short.text == PRETTY


@pytest.mark.parametrize(
    ("form", "packed"),
    [
        (FileFormat.PLAIN, CONTENT),
        (FileFormat.GZIP, gzip.compress(CONTENT)),
        (FileFormat.GZIP, gzip.compress(CONTENT[:9_000]) + gzip.compress(CONTENT[9_000:])),
        (FileFormat.ZSTD, zstd(CONTENT)),
        (FileFormat.ZSTD, zstd(CONTENT[:9_000]) + zstd(CONTENT[9_000:])),
        (FileFormat.MESSAGES, messages(*LINES)),
    ],
)
def test_every_format_has_the_same_lines_from_any_line_offset(
    form: FileFormat, packed: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(packed)
    with path.open("rb") as handle:
        documents = Documents(handle, 1_000, 500)
        lines = list(documents.read(0))
        assert documents.form is file_format(handle) is form
        assert [line.text for line in lines] == LINES
        later = Documents(handle, 1_000, 500).read(lines[1234].next_offset)
        assert [line.text for line in later] == LINES[1235:]


def read_packed(tmp_path: Path, packed: bytes) -> tuple[list[RawLine], Documents]:
    path = tmp_path / "file"
    path.write_bytes(packed)
    with path.open("rb") as handle:
        documents = Documents(handle, 1_000, 500)
        return list(documents.read(0)), documents


@pytest.mark.parametrize("cut", [1, 8, 20, 500, 4_000])
@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_all_of_a_truncated_stream_is_read_and_its_end_is_named(
    pack: Callable[[bytes], bytes], cut: int, tmp_path: Path
) -> None:
    packed = pack(NOISE)[:-cut]
    lines, documents = read_packed(tmp_path, packed)
    assert documents.unfinished == "its end is missing. The lines before it are read"
    assert [line.text for line in lines] == NOISE.split(b"\n")[: len(lines)]
    if pack is gzip.compress:
        # What was decompressed before it is all there, and may be continued.
        whole = zlib.decompressobj(wbits=31).decompress(packed)
        assert lines[-1].next_offset == whole.rindex(b"\n") + 1


FLAWS = {
    "other content after the end": lambda packed: packed + b"not compressed",
    "zeros after the end": lambda packed: packed + bytes(1_000),
    "a wrong checksum": lambda packed: packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:],
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_all_lines_before_a_flaw_at_the_end_are_read(flaw: str, tmp_path: Path) -> None:
    (*lines, last), documents = read_packed(tmp_path, FLAWS[flaw](gzip.compress(CONTENT)))
    assert [line.text for line in lines] == LINES
    assert last.offset == len(CONTENT)
    assert last.defect is not None
    assert "cannot be decompressed" in last.defect
    assert documents.unfinished is None


def test_what_precedes_a_bad_byte_in_the_middle_is_read(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(NOISE))
    middle = len(packed) // 2
    packed[middle : middle + 200] = b"\xff" * 200
    (*lines, flaw), _ = read_packed(tmp_path, bytes(packed))
    # It is noticed some lines after it: without half of them, and a few, all are right.
    precede = NOISE.count(b"\n") // 2 - 10
    assert [line.text for line in lines[:precede]] == NOISE.split(b"\n")[:precede]
    assert flaw.defect is not None
    assert flaw.next_offset > flaw.offset


def test_a_stream_that_ends_within_a_line_may_go_on(tmp_path: Path) -> None:
    lines, documents = read_packed(tmp_path, gzip.compress(CONTENT + b'{"n": 2'))
    assert [line.text for line in lines] == LINES
    assert documents.unfinished == "it ends within a line. The lines before it are read"
    complete, documents = read_packed(tmp_path, gzip.compress(CONTENT + b'{"n": 2}'))
    assert complete[-1].text == b'{"n": 2}'
    assert documents.unfinished is None


def test_a_decompression_bomb_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress((b" " * 999 + b"\n") * 80_000))  # a thousand times smaller
    with path.open("rb") as handle:
        *_, last = Documents(handle, 1_000, 100).read(0)
    assert last.defect is not None
    assert "EVAL_MAX_DECOMPRESSION_RATIO" in last.defect


def test_an_incomplete_message_is_not_read_yet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for cut in (2, 7, len(messages(b"{}")) - 1):
        path.write_bytes(messages(b'{"a": 1}') + messages(b"{}")[:cut])
        with path.open("rb") as handle:
            assert read(handle) == [b'{"a": 1}']


def test_an_overlong_message_is_not_read_before_its_end_is_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(messages(b"{}") + struct.pack(">I", 2_000_000_000) + zstd(b"[]"))
    with path.open("rb") as handle:
        documents = Documents(handle, 1_000, 500)
        assert [line.text for line in documents.read(0)] == [b"{}"]
        assert documents.unfinished is not None
        assert documents.unfinished.startswith("a message of 2000000000 bytes at ")


def test_a_broken_or_overlong_message_does_not_affect_others(tmp_path: Path) -> None:
    broken = bytearray(messages(b"x" * 500))
    broken[8:] = b"\xff" * len(broken[8:])  # after the length and the magic number of the frame
    packed = messages(b"{}") + bytes(broken) + messages(b"y" * 3_000, b"[]")
    path = tmp_path / "file"
    path.write_bytes(packed)
    with path.open("rb") as handle:
        lines = list(Documents(handle, 1_000, 500).read(0))
    assert [line.text[:2] for line in lines] == [b"{}", b"", b"yy", b"[]"]
    assert lines[1].defect is not None
    assert lines[2].is_overlong


def test_a_stream_that_cannot_seek_is_read_as_plain_lines() -> None:
    assert file_format(io.BytesIO(b"")) is FileFormat.PLAIN
    assert read(io.BytesIO(CONTENT)) == LINES
