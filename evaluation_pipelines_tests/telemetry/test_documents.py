"""Lines of a file in any encoding: plain, pretty-printed, or compressed in three ways."""

import gzip
import io
import struct
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest

from evaluation_pipelines.telemetry.documents import Documents, FileFormat, file_format

LINES = [b'{"n": %d}' % n for n in range(2000)]
CONTENT = b"".join(line + b"\n" for line in LINES)


def zstd(content: bytes) -> bytes:
    """Return one zstd frame."""
    packed: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return packed


def messages(*contents: bytes) -> bytes:
    """Return the collector's form: each message after its length."""
    return b"".join(struct.pack(">I", len(p := zstd(each))) + p for each in contents)


def read(handle: BinaryIO, path: str = "a.jsonl") -> list[bytes]:
    """Return the texts of all lines."""
    return [line.text for line in Documents(handle, path, 1_000, 500).read(0)]


PRETTY = b'{\n  "resourceLogs": []\n}\n'


@pytest.mark.parametrize(
    ("path", "content", "documents"),
    [
        ("a.jsonl", b"{}\n{}\n", [b"{}", b"{}"]),
        ("a.jsonl", b"{}\n{", [b"{}"]),
        # A rotation can cut between a line and its newline: a complete object is a complete line.
        ("a.jsonl", b"{}\n{}", [b"{}", b"{}"]),
        ("a.jsonl", b"{}\n12", [b"{}"]),
        ("a.jsonl", PRETTY, PRETTY.split(b"\n")[:-1]),
        ("a.json", PRETTY, [PRETTY]),
        ("a.json", PRETTY[:-2], []),
        ("a.json", b"{}\n{}\n", [b"{}", b"{}"]),
        ("a.json", b"{\n oops\n}", [b"{\n oops\n}"]),
        ("a.json", b"", []),
    ],
)
def test_only_complete_lines_or_one_complete_document_are_read(
    path: str, content: bytes, documents: list[bytes]
) -> None:
    assert read(io.BytesIO(content), path) == documents


def test_a_document_over_the_limit_is_one_overlong_line() -> None:
    content = b"{\n" + b'"a": 1,\n' * 1_000
    (line,) = Documents(io.BytesIO(content), "a.json", 500, 500).read(0)
    assert (line.text, line.length_bytes) == (content[:256], len(content))
    assert (line.is_overlong, line.next_offset) == (True, len(content))


@pytest.mark.parametrize(
    ("form", "packed"),
    [
        (FileFormat.PLAIN, CONTENT),
        (FileFormat.GZIP, gzip.compress(CONTENT)),
        (FileFormat.GZIP, gzip.compress(CONTENT[:9_000]) + gzip.compress(CONTENT[9_000:])),
        (FileFormat.ZSTD, zstd(CONTENT)),
        (FileFormat.ZSTD, zstd(CONTENT[:9_000]) + zstd(CONTENT[9_000:])),
        (FileFormat.ZSTD_MESSAGES, messages(*LINES)),
    ],
)
def test_every_format_has_the_same_lines_from_any_line_offset(
    form: FileFormat, packed: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(packed)
    with path.open("rb") as handle:
        documents = Documents(handle, "a.jsonl", 1_000, 500)
        lines = list(documents.read(0))
        assert documents.form is file_format(handle) is form
        assert [line.text for line in lines] == LINES
        later = Documents(handle, "a.jsonl", 1_000, 500).read(lines[1234].next_offset)
        assert [line.text for line in later] == LINES[1235:]


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_truncated_stream_is_reported_and_has_no_wrong_line(pack: object, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(pack(CONTENT)[:-20])  # type: ignore[operator]
    with path.open("rb") as handle:
        documents = Documents(handle, "a.jsonl", 1_000, 500)
        lines = [line.text for line in documents.read(0)]
    assert documents.ends_early
    assert lines == LINES[: len(lines)]


def test_a_damaged_stream_ends_in_a_line_with_the_defect(tmp_path: Path) -> None:
    first = zstd(b"{}\n" * 3)
    # The bytes after the magic number of the second frame are no frame.
    path = tmp_path / "file"
    path.write_bytes(first + zstd(CONTENT)[:4] + b"\xff" * 100)
    with path.open("rb") as handle:
        *_, last = Documents(handle, "a.jsonl", 1_000, 500).read(0)
    assert last.defect is not None
    assert "cannot be decompressed" in last.defect


def test_a_decompression_bomb_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress((b" " * 999 + b"\n") * 80_000))  # a thousand times smaller
    with path.open("rb") as handle:
        *_, last = Documents(handle, "a.jsonl", 1_000, 100).read(0)
    assert last.defect is not None
    assert "EVAL_MAX_DECOMPRESSION_RATIO" in last.defect


def test_an_incomplete_message_is_not_read_yet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for cut in (2, 7, len(messages(b"{}")) - 1):
        path.write_bytes(messages(b'{"a": 1}') + messages(b"{}")[:cut])
        with path.open("rb") as handle:
            assert read(handle) == [b'{"a": 1}']


def test_a_broken_or_overlong_message_does_not_affect_others(tmp_path: Path) -> None:
    broken = bytearray(messages(b"x" * 500))
    broken[8:] = b"\xff" * len(broken[8:])  # after the length and the magic number of the frame
    packed = messages(b"{}") + bytes(broken) + messages(b"y" * 3_000, b"[]")
    path = tmp_path / "file"
    path.write_bytes(packed)
    with path.open("rb") as handle:
        lines = list(Documents(handle, "a.jsonl", 1_000, 500).read(0))
    assert [line.text[:2] for line in lines] == [b"{}", b"", b"yy", b"[]"]
    assert lines[1].defect is not None
    assert lines[2].is_overlong


def test_a_stream_that_cannot_seek_is_read_as_plain_lines() -> None:
    assert file_format(io.BytesIO(b"")) is FileFormat.PLAIN
    assert read(io.BytesIO(CONTENT)) == LINES
