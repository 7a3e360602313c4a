"""The landing folder: what lies there, and its lines to the last byte."""

import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation_pipelines.storage.landing import (
    HEAD_BYTES,
    Landing,
    LandingFile,
    SkippedFile,
    first_time_ns,
    read_head,
    summarize_skipped,
)
from evaluation_pipelines.storage.raw_lines import RawLine, read_lines

NOON = b"1780315200000000000"


def landing_of(tmp_path: Path, **files: bytes) -> Landing:
    """A folder with files; ``__`` in a name stands for a slash."""
    for name, content in files.items():
        path = tmp_path / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f"{path.name}.jsonl").write_bytes(content)
    return Landing(tmp_path)


def paths(files: list[LandingFile]) -> list[str]:
    return [file.path for file in files]


# -- which files -----------------------------------------------------------------------------------


def test_telemetry_files_of_all_folders_are_listed_by_path(tmp_path: Path) -> None:
    landing = landing_of(tmp_path, b=b"12", a__logs=b"1", a__deep__er=b"")
    (tmp_path / "c.json").write_bytes(b"123")
    files, passed_over = landing.list_files()
    assert [(file.path, file.size_bytes) for file in files] == [
        ("a/deep/er.jsonl", 0),
        ("a/logs.jsonl", 1),
        ("b.jsonl", 2),
        ("c.json", 3),
    ]
    assert passed_over == []


def test_other_folders_and_hidden_files_are_left_out_quietly(tmp_path: Path) -> None:
    landing = landing_of(tmp_path, signals__s=b"", evaluations__e=b"", a__signals__kept=b"")
    (tmp_path / ".hidden.jsonl").write_bytes(b"")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.jsonl").write_bytes(b"")
    files, passed_over = landing.list_files()
    assert (paths(files), passed_over) == (["a/signals/kept.jsonl"], [])


def test_what_looks_like_telemetry_and_is_not_read_is_named(tmp_path: Path) -> None:
    landing = landing_of(tmp_path / "landing", good=b"")
    root = landing.root
    os.mkfifo(root / "pipe.jsonl")
    (root / "folder.jsonl").mkdir()
    (root / "gone.jsonl").symlink_to(root / "nothing")
    (tmp_path / "outside").mkdir()
    (root / "out.jsonl").symlink_to(tmp_path / "outside")
    (root / "in.jsonl").symlink_to(root / "good.jsonl")
    files, passed_over = landing.list_files()
    assert paths(files) == ["good.jsonl"]
    assert {file.path: file.reason.partition(":")[0] for file in passed_over} == {
        "gone.jsonl": "cannot be looked at",
        "out.jsonl": "a link that leads outside the folder",
        "pipe.jsonl": "not a regular file",
    }


NAMES = [
    "a.JSONL",
    "a.jsonl.1",
    "a.jsonl.old",
    "b.json.bak",
    "c.ndjson",
    "d.log",
    "d.log.2",
    "e.zip",
    "f.txt",
    "jsonl",
]


def test_other_names_of_telemetry_are_not_read_and_said(tmp_path: Path) -> None:
    landing = landing_of(tmp_path, good=b"")
    for name in [*NAMES, "x.jsonl.bz2", "x.jsonl.1.gz"]:
        (tmp_path / name).write_bytes(b"{}\n")
    files, passed_over = landing.list_files()
    assert paths(files) == ["good.jsonl"]
    assert [file.path for file in passed_over] == [*NAMES, "x.jsonl.1.gz", "x.jsonl.bz2"]
    (renamed, packed) = summarize_skipped(passed_over)
    assert renamed[0] == "a.JSONL, a.jsonl.1, a.jsonl.old, b.json.bak, c.ndjson and 5 more"
    assert "rename it" in renamed[1]
    assert packed == ("e.zip, x.jsonl.bz2", "only .gz and .zst can be unpacked: unpack it first")


def test_a_known_file_is_listed_under_any_name(tmp_path: Path) -> None:
    landing = landing_of(tmp_path, logs=b"1")
    ((file,), _) = landing.list_files()
    (tmp_path / "logs.jsonl").rename(tmp_path / "logs.jsonl.1")
    (tmp_path / "other.jsonl.1").write_bytes(b"2")
    files, passed_over = landing.list_files({(file.device, file.inode)})
    assert paths(files) == ["logs.jsonl.1"]
    assert [skipped_file.path for skipped_file in passed_over] == ["other.jsonl.1"]


@pytest.mark.skipif(sys.platform == "darwin", reason="APFS takes only UTF-8 names")
def test_a_name_that_is_no_text_is_passed_over_and_stops_nothing(tmp_path: Path) -> None:
    landing = landing_of(tmp_path, good=b"")
    with open(os.fsencode(tmp_path) + b"/\xff.jsonl", "wb"):  # noqa: PTH123 - a name of bytes
        pass
    files, passed_over = landing.list_files()
    assert paths(files) == ["good.jsonl"]
    assert passed_over == [SkippedFile("\ufffd.jsonl", "its name is not UTF-8: rename it")]


def test_a_folder_that_is_missing_is_said_to_be(tmp_path: Path) -> None:
    files, (passed,) = Landing(tmp_path / "nothing").list_files()
    assert files == []
    assert passed.path == str(tmp_path / "nothing")
    assert passed.reason.startswith("there is no such folder yet: ")


def test_a_file_that_was_exchanged_after_it_was_listed_is_not_opened(tmp_path: Path) -> None:
    landing = landing_of(tmp_path, logs=b"old")
    ((file,), _) = landing.list_files()
    with landing.open(file) as handle:
        assert handle.read() == b"old"
    (tmp_path / "other").write_bytes(b"new")
    (tmp_path / "other").replace(tmp_path / "logs.jsonl")
    with pytest.raises(FileNotFoundError, match="another file than when it was listed"):
        landing.open(file)


# -- who a file is ---------------------------------------------------------------------------------


def test_the_head_is_the_first_bytes_and_reading_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * (HEAD_BYTES + 1))
    with path.open("rb") as handle:
        handle.seek(7)
        whole, some = read_head(handle), read_head(handle, 3)
        assert handle.tell() == 7
        assert (whole.size_bytes, some.size_bytes) == (HEAD_BYTES, 3)
        # SHA-256 of "xxx"
        assert some.sha256 == "cd2eb0837c9b4c962c22d2ff8b5441b7b45805887f051d39bf133b583baf6860"
        assert read_head(handle, HEAD_BYTES * 2) == whole
    path.write_bytes(b"xxx")
    with path.open("rb") as handle:
        assert read_head(handle) == some


@pytest.mark.parametrize(
    ("content", "time_ns"),
    [
        (b'{"timeUnixNano": "' + NOON + b'"}', int(NOON)),
        (b'{"timeUnixNano":' + NOON + b"}", int(NOON)),
        # Codex sends 0 there.
        (b'{"timeUnixNano":"0","observedTimeUnixNano":"' + NOON + b'"}', int(NOON)),
        (b'{"startTimeUnixNano":"' + NOON + b'"}', None),
        (b"{}", None),
        (b"", None),
    ],
)
def test_the_first_time_of_a_file_tells_which_is_the_older(
    tmp_path: Path, content: bytes, time_ns: int | None
) -> None:
    (tmp_path / "f").write_bytes(content)
    with (tmp_path / "f").open("rb") as handle:
        assert first_time_ns(handle) == time_ns


# -- lines -----------------------------------------------------------------------------------------


def texts(lines: list[RawLine]) -> list[bytes]:
    return [line.text for line in lines]


@given(st.binary(max_size=300), st.integers(1, 400))
def test_lines_joined_are_the_file_and_their_offsets_are_theirs(content: bytes, limit: int) -> None:
    lines = list(read_lines(io.BytesIO(content), 0, limit))
    assert sum(line.next_offset - line.offset for line in lines) == len(content)
    for line in lines:
        whole = content[line.offset : line.offset + line.length_bytes]
        assert line.is_overlong == (len(whole) > limit and len(whole) > 256)
        assert whole.startswith(line.text)
        assert b"\n" not in whole
        assert line.is_terminated == (content[line.offset + len(whole) :][:1] == b"\n")


def test_reading_on_from_an_offset_gives_the_rest() -> None:
    content = b"one\ntwo\n\nthree"
    assert texts(list(read_lines(io.BytesIO(content), 4, 100))) == [b"two", b"", b"three"]


def test_empty_lines_in_a_row_are_one() -> None:
    lines = list(read_lines(io.BytesIO(b"\n\n\none\n\ntwo\n\n\n\n"), 0, 100))
    assert [(line.text, line.offset, line.next_offset) for line in lines] == [
        (b"", 0, 3),
        (b"one", 3, 7),
        (b"", 7, 8),
        (b"two", 8, 12),
        (b"", 12, 15),
    ]


def test_lines_that_cross_the_boundaries_of_chunks_are_whole() -> None:
    """Chunks are 4 MiB: lines of many lengths, some longer than a chunk."""
    lengths = (5_000_000, 0, 1, 1_000_000, 4 * 1024 * 1024 - 1, 4 * 1024 * 1024, 0, 5_000_000, 7)
    lines = [bytes([65 + n]) * length for n, length in enumerate(lengths)]
    read = list(read_lines(io.BytesIO(b"\n".join(lines) + b"\n"), 0, 10_000_000))
    assert texts(read) == lines


def test_of_a_line_over_the_limit_the_beginning_and_the_length_are_kept() -> None:
    content = b"a\n" + b"x" * 9_000_000 + b"\nb\n"
    first, long, last = read_lines(io.BytesIO(content), 0, 1_000)
    assert (first.text, last.text) == (b"a", b"b")
    assert (long.text, long.length_bytes, long.is_overlong) == (b"x" * 256, 9_000_000, True)
    assert (long.offset, long.next_offset, last.offset) == (2, 9_000_003, 9_000_003)
