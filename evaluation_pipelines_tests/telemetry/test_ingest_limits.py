"""Ingest at its limits: memory, sizes, numbers of files, rights, and everything bad at once."""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches
from evaluation_pipelines.telemetry.ledger.manifest import Manifest
from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.telemetry.collector import FIRST_DAY_S
from evaluation_pipelines_tests.telemetry.limited import (
    ingest_with_little_memory,
    program_without_rights,
    rights_can_be_given_up,
)
from evaluation_pipelines_tests.workplace import Workplace, open_workplace

pytestmark = pytest.mark.slow  # large files, thousands of small ones, processes of their own
MIB = 1024 * 1024

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="only Linux tells its memory there"
)


def good(number: int, **values: object) -> bytes:
    """A line of one prompt."""
    return line(claude("user_prompt", FIRST_DAY_S + number, n=number, **values))


def numbers(workplace: Workplace) -> list[int]:
    """Numbers of all landed events."""
    return sorted(json.loads(text)["n"] for text in workplace.landed()["attributes"])


# -- bad lines -------------------------------------------------------------------------------------

BAD: dict[str, bytes] = {
    "cut": good(0)[: len(good(0)) // 2],
    "empty object": b"{}",
    "blank": b"  \t ",
    "nested too deeply": b"[" * 100_000 + b"]" * 100_000,
    "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "nested values": good(0).replace(
        b'{"stringValue": "claude_code.user_prompt"}',
        b'{"arrayValue":{"values":[' * 5_000 + b"{}" + b"]}}" * 5_000,
    ),
    "not UTF-8": good(0).replace(b"user_prompt", b"user_\xffprompt"),
    "UTF-16": '{"resourceLogs": []}'.encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + good(0),
    "NUL": b"\0" * 5_000,
    "NUL inside": good(0)[:50] + b"\0" + good(0)[50:],
    "carriage returns": b"\r\r\r",
    "not telemetry": b"Traceback (most recent call last):",
    "numbers": b"17",
    "text": b'"resourceLogs"',
    "null": b"null",
    "wrong types": b'{"resourceLogs": {"scopeLogs": "no", "resource": 5}}',
    "wrong types inside": b'{"resourceLogs":[{"resource":[],"scopeLogs":[{"logRecords":[[],5]}]}]}',
    "metrics": b'{"resourceMetrics": [{"anything": true}]}',
    "traces": b'{"resourceSpans": null}',
    "a huge number": good(0).replace(b'"timeUnixNano": "', b'"timeUnixNano": "' + b"9" * 5_000),
    "an attribution of the wrong type": b'{"session_id": [], "masque": {}, "donned_at": 5}',
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_line_costs_nothing_but_itself(workplace: Workplace, bad: bytes) -> None:
    bad = bad.rstrip(b"\n")
    workplace.land("logs.jsonl", good(1) + bad + b"\n" + good(2))
    workplace.land("other.jsonl", good(3))
    workplace.land("last.jsonl", good(4) + bad)  # as long as nothing follows it, it may be cut
    report = workplace.ingest()
    assert report.passed_over == []
    found = Counter(json.loads(text or "{}").get("n") for text in workplace.landed()["attributes"])
    assert [found[number] for number in (1, 2, 3, 4)] == [1, 1, 1, 1]
    assert all(workplace.quarantined()["reason"].str.len_chars() > 0)
    assert len(workplace.build()) >= 1
    assert workplace.ingest().counts.lines == 0


def test_of_a_key_that_stands_twice_the_last_one_counts(workplace: Workplace) -> None:
    twice = good(1).replace(b'{"resourceLogs"', b'{"resourceLogs": [], "resourceLogs"')
    record = good(2).replace(b'"timeUnixNano"', b'"timeUnixNano": "5", "timeUnixNano"')
    workplace.land("logs.jsonl", twice + record)
    counts = workplace.ingest().counts
    assert (counts.quarantined, counts.time_anomalies) == (0, 0)
    assert numbers(workplace) == [1, 2]


@pytest.mark.parametrize("time", ["1000", str(2**63 - 1), str(4_102_444_800 * 10**9)])
def test_times_of_1970_and_of_the_future_are_replaced_and_counted(
    workplace: Workplace, time: str
) -> None:
    record = claude("user_prompt", n=1) | {"timeUnixNano": time}
    workplace.land("logs.jsonl", line(record))
    assert workplace.ingest().counts.time_anomalies == 1
    assert workplace.landed()["event_time"].equals(workplace.landed()["observed_time"])


def test_links_to_files_of_the_system_are_named_and_never_read(workplace: Workplace) -> None:
    root = workplace.landing.root
    (root / "passwd.jsonl").symlink_to("/etc/passwd")
    (root / "etc").symlink_to("/etc")
    (root / "up.jsonl").symlink_to("../../../../../../../etc/passwd")
    (root / "device.jsonl").symlink_to("/dev/zero")
    workplace.land("logs.jsonl", good(1))
    report = workplace.ingest()
    reason = "a link that leads outside the folder"
    assert {each.path: each.reason for each in report.passed_over} == dict.fromkeys(
        ("passwd.jsonl", "etc", "up.jsonl", "device.jsonl"), reason
    )
    assert (numbers(workplace), report.counts.quarantined) == ([1], 0)


# -- sizes -----------------------------------------------------------------------------------------


@needs_proc
@pytest.mark.parametrize(
    ("line_bytes", "limit_bytes"),
    [(150 * MIB, 100 * MIB), (1024 * MIB, 400 * MIB)],
)
def test_a_line_longer_than_the_memory_is_quarantined_and_its_neighbours_are_read(
    tmp_path: Path, line_bytes: int, limit_bytes: int
) -> None:
    with open_workplace(tmp_path) as workplace:
        workplace.land("small.jsonl", good(0))
        with (workplace.landing.root / ".large").open("wb") as file:
            file.write(good(1))
            file.seek(line_bytes, os.SEEK_CUR)  # a hole: zeros that take no room on the disk
            file.write(b"\n" + good(2))
        settings = {"max_line_bytes": 8 * MIB}
        ended = ingest_with_little_memory(tmp_path, limit_bytes, **settings)
        assert (ended.code, ended.err) == (0, "")
        assert numbers(workplace) == [0, 1, 2]
        (length,) = workplace.quarantined()["length_bytes"]
        assert length == line_bytes


@needs_proc
def test_a_file_larger_than_the_memory_is_read_in_pieces(tmp_path: Path) -> None:
    content = b"".join(good(number, text="x" * 500) for number in range(2_000))
    times, extra = 330, 400 * MIB
    with open_workplace(tmp_path) as workplace:
        workplace.land("small.jsonl", good(0))
        with (workplace.landing.root / ".large").open("wb") as file:
            for _ in range(times):
                file.write(content)
            assert file.tell() > 1.5 * extra
        ended = ingest_with_little_memory(tmp_path, extra)
        assert (ended.code, ended.err) == (0, "")
        assert IngestBatches(workplace.ledger).totals().events == 1 + times * 2_000
        assert IngestBatches(workplace.ledger).totals().quarantined == 0


@pytest.mark.parametrize("files", [40, 2_000])
def test_thousands_of_small_files_are_each_read_once(tmp_path: Path, files: int) -> None:
    with open_workplace(tmp_path) as workplace:
        for number in range(files):
            workplace.land(f"{number % 50}/{number}.jsonl", good(number, session__id=f"{number}"))
        report = Ingest(workplace.stores).run()
        assert (report.files, report.counts.events) == (files, files)
        assert Ingest(workplace.stores).run().files == 0
        workplace.land("0/0.jsonl", good(files), "ab")
        assert Ingest(workplace.stores).run().files == 1
        assert numbers(workplace) == list(range(files + 1))
        workplace.build()  # merges the parts
        assert workplace.events().height == files + 1
        (date,) = Manifest(workplace.ledger).dates("agent_events_landed")
        assert date.parts == 1


# -- rights ----------------------------------------------------------------------------------------


@contextmanager
def read_only(*paths: Path) -> Iterator[None]:
    """Nobody may write there meanwhile."""
    before = [(path, path.stat().st_mode) for path in paths]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        yield
    finally:
        for path, mode in before:
            path.chmod(mode)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one line read and two to be read, where rights can be given up."""
    if not sys.platform.startswith("linux") or not rights_can_be_given_up(tmp_path):
        pytest.skip("rights cannot be given up here")
    folder = tmp_path / "data"
    land(folder, "logs.jsonl", good(1))
    assert program_without_rights(folder, "ingest").code == 0
    land(folder, "logs.jsonl", good(2) + good(3, session__id="another"))
    return folder


def land(data: Path, name: str, content: bytes) -> Path:
    """Append to a landing file."""
    path = data / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(content)
    return path


def stored(data: Path) -> list[int]:
    """Numbers of all landed events; nobody has the ledger open before and after."""
    with open_workplace(data) as workplace:
        return numbers(workplace)


def test_a_landing_folder_that_is_read_only_is_all_that_is_needed(data: Path) -> None:
    with read_only(data / "landing", data / "landing/logs.jsonl"):
        ended = program_without_rights(data, "ingest")
    assert (ended.code, ended.err) == (0, "")
    assert stored(data) == [1, 2, 3]


@pytest.mark.parametrize(
    ("locked", "complaint"),
    [
        ("lake/agent_events_landed", "error: cannot write .*check space and permissions"),
        ("lake/_tmp", "error: cannot write .*check space and permissions"),
        ("ledger.db", "error: The ledger .*Check the permissions"),
        (".", "error: The ledger .*Check the permissions of the file and of its folder"),
    ],
)
def test_a_folder_that_may_not_be_written_is_a_clear_error_and_the_next_run_goes_on(
    data: Path, locked: str, complaint: str
) -> None:
    place = data / locked
    with read_only(place, *(each for each in place.glob("session_date=*"))):
        ended = program_without_rights(data, "ingest")
    assert ended.code == 1
    assert re.fullmatch(f"{complaint}.*\n", ended.err), ended.err
    assert stored(data) == [1]

    assert program_without_rights(data, "ingest").code == 0
    assert stored(data) == [1, 2, 3]


def test_a_file_that_may_not_be_read_is_named_and_the_others_are_read(data: Path) -> None:
    secret = land(data, "secret.jsonl", good(4))
    secret.chmod(0)
    ended = program_without_rights(data, "ingest")
    assert ended.code == 0
    assert ended.err.startswith("warning: secret.jsonl is not read: cannot be read: ")
    assert stored(data) == [1, 2, 3]
    secret.chmod(0o600)
    assert program_without_rights(data, "ingest").code == 0
    assert stored(data) == [1, 2, 3, 4]
