"""``quarantine list``, ``show`` and ``retry``."""

import re
import subprocess
from collections.abc import Callable

import pyarrow as pa
import pytest

from evaluation_pipelines_tests.program import Program, Ran
from evaluation_pipelines_tests.world import claude, line

LONG = line(claude("user_prompt", prompt="x" * 2_000, session__id="long"))
HOSTILE = b'{"\x1b[2J\x1b[31mred": "\xe2\x80\xae", "x": \x00\n'


def rows(ran: Ran) -> list[str]:
    """Return the lines of the table with one space between cells."""
    _, _, table = ran.out.partition("─\n")
    return [re.sub(r" +", " ", row) for row in table.partition("\n\n")[0].splitlines()]


def names(program: Program) -> list[str]:
    """Return the names of all entries, newest first."""
    table = program("quarantine", "list", "--entries")
    return [row.split()[0] for row in rows(table) if ":" in row.split()[0]]


@pytest.fixture
def filled(program: Program) -> Program:
    """A file with a valid line, a line that is too long, and one that is not JSON."""
    program.land("logs.jsonl", line(claude("user_prompt")) + LONG + HOSTILE)
    program.set("EVAL_MAX_LINE_BYTES", "2000")
    assert program("ingest").code == 0
    program.set("EVAL_MAX_LINE_BYTES", None)
    return program


def test_an_empty_quarantine(program: Program) -> None:
    assert program("quarantine", "list").code == 1  # nothing was ingested
    assert program("ingest").code == 0
    ran = program("quarantine", "list")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("0 entries of 0 files\n")
    ran = program("quarantine", "retry")
    assert (ran.code, ran.out, ran.err) == (
        3,
        "retry: 0 of 0 entries could be read, 0 events on 0 dates\n",
        "",
    )


def test_list_groups_by_file_and_reason_or_lists_all_entries(filled: Program) -> None:
    ran = filled("quarantine", "list")
    assert (ran.code, ran.err) == (0, "")
    second, first, *_ = rows(ran)
    assert first.startswith(
        "logs.jsonl 1 longer than N bytes. Raise EVAL_MAX_LINE_BYTES to read it"
    )
    assert second.startswith("logs.jsonl 1 not JSON: ")
    assert ran.out.endswith("2 entries of 1 file\n")
    assert len(names(filled)) == 2
    ran = filled("quarantine", "list", "--entries", "--limit", "1")
    assert ran.out.endswith("2 entries of 1 file, 1 not shown: use --limit\n")


def test_show_prints_the_position_of_a_line_and_its_sanitized_text(filled: Program) -> None:
    ran = filled("quarantine", "list", names(filled)[0])
    facts = dict(
        re.split(r" {2,}|(?<=^starts with) ", line, maxsplit=1) for line in ran.out.splitlines()
    )
    offset = len(line(claude("user_prompt")) + LONG)
    assert (ran.code, ran.err) == (0, "")
    assert facts["file"] == "logs.jsonl"
    assert facts["line"] == f"from byte {offset:,}, {len(HOSTILE) - 1} bytes long"
    assert re.fullmatch(r"not JSON: .* \(character \d+\)", facts["reason"])
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
    assert facts["starts with"].startswith('{"\ufffd[2J\ufffd[31mred": "\ufffd"')
    printed = subprocess.run(
        ["/bin/sh", "-c", facts["print it"]], cwd=filled.folder, capture_output=True, check=True
    )
    assert printed.stdout == HOSTILE.rstrip(b"\n")


def messages(content: bytes) -> bytes:
    packed = pa.compress(content, codec="zstd", asbytes=True)
    return len(packed).to_bytes(4, "big") + bytes(packed)


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("it's a file.jsonl.gz", lambda content: pa.compress(content, "gzip", asbytes=True)),
        pytest.param("logs.jsonl", messages, id="messages"),
    ],
)
def test_show_prints_the_command_for_a_compressed_file(
    program: Program, name: str, packed: Callable[[bytes], bytes]
) -> None:
    program.land(name, packed(b'{"no": "telemetry"}\n'))
    program("ingest")
    ran = program("quarantine", "list", *names(program))
    command = re.search(r"^print it +(.*)$", ran.out, re.MULTILINE)
    assert command
    if "zstd" in command[1]:
        assert re.fullmatch(
            r"tail -c \+1 .*logs.jsonl \| tail -c \+5 \| head -c \d+ \| zstd -dc", command[1]
        )
        return
    printed = subprocess.run(
        ["/bin/sh", "-c", command[1]], cwd=program.folder, capture_output=True, check=True
    )
    assert printed.stdout == b'{"no": "telemetry"}'


def test_retry_prints_what_it_stored_and_why_the_rest_stays(filled: Program) -> None:
    ran = filled("quarantine", "retry")
    assert ran.code == 4
    assert ran.out == (
        "retry: 1 of 2 entries could be read, 1 event on 1 date\n"
        "Dagster builds these dates. To build them now: evaluation-pipelines build\n"
    )
    told = "warning: logs.jsonl: 1 entry stays in quarantine: not JSON: "
    assert re.fullmatch(rf"{told}.* \(character \d+\)\n", ran.err)
    assert filled("quarantine", "list").out.endswith("1 entry of 1 file\n")
    assert "quarantine: 1 of 3 lines" in filled("status").out
    filled("build")
    assert len(rows(filled("sessions"))) == 2

    again = filled("quarantine", "retry")
    assert again.out == "retry: 0 of 1 entry could be read, 0 events on 0 dates\n"
    (filled.folder / "data/landing/logs.jsonl").unlink()
    gone = filled("quarantine", "retry")
    assert gone.err == (
        "warning: logs.jsonl: 1 entry stays in quarantine: "
        "the file is no longer in the landing folder\n"
    )
    (name,) = names(filled)
    shown = filled("quarantine", "list", name).out
    assert "print it     the file is no longer in the landing folder\n" in shown
    assert "retry it     evaluation-pipelines quarantine retry --file logs.jsonl\n" in shown


def test_retry_of_one_file_does_not_read_others(filled: Program) -> None:
    unknown = filled("quarantine", "retry", "--file", "other.jsonl")
    assert (unknown.code, "No entries of the file other.jsonl" in unknown.err) == (1, True)
    filled.land("other.jsonl", b"no telemetry\n")
    filled("ingest")
    # As quarantine list prints it.
    path = str(filled.folder / "data" / "landing" / "logs.jsonl")
    assert "1 of 2 entries" in filled("quarantine", "retry", "--file", path).out
    assert "0 of 1 entry" in filled("quarantine", "retry", "--file", "logs.jsonl").out
