"""Ingest reads every byte once, also if files are renamed or truncated."""

import gzip
import os
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from evaluation_pipelines.progress import Silent
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.telemetry.documents import CUT_OFF
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches, SourceFiles
from evaluation_pipelines.telemetry.unread_files import (
    find_unread_files,
    has_complete_line,
    ingest_lags,
)
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.telemetry.numbered_prompts import numbers, prompts
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line
from evaluation_pipelines_tests.world.lake_files import root_of

FIRST_OF_JUNE = date(2026, 6, 1)
DAY_S = 86_400


def test_a_line_cut_at_any_byte_is_read_once(tmp_path: Path) -> None:
    content = line(claude("user_prompt", 0, n=0, prompt="ü\u2028")) + line(
        claude("user_prompt", 1, n=1)
    )
    end = content.index(b"\n")  # each byte around it, and some of those that only JSON tells apart
    cuts = {0, 1, *range(13, len(content), 151), *range(end - 1, end + 3), len(content) - 1}
    with open_workplace(tmp_path) as workplace:
        for cut in sorted(cuts):
            name = f"{cut}.jsonl"
            workplace.land(name, content[:cut])
            workplace.ingest()
            workplace.land(name, content[cut:], "ab")
        workplace.ingest()
        seen = workplace.landed().group_by("source_file_id").len()["len"].to_list()
    assert set(seen) == {2}


def test_a_small_file_that_grows_is_read_from_its_position(workplace: Workplace) -> None:
    """Its identity is the head at first sight, fewer than 4 KiB."""
    for n in range(12):
        path = workplace.land("logs.jsonl", prompts(n, n + 1), "ab")
        assert workplace.ingest().counts.events == 1
    assert path.stat().st_size > 4096
    assert numbers(workplace.landed()) == list(range(12))
    assert len(SourceFiles(workplace.ledger).all()) == 1


def test_a_file_that_was_emptied_and_started_again_is_read_from_its_beginning(
    workplace: Workplace,
) -> None:
    workplace.land("logs.jsonl", prompts(0, 9))
    workplace.ingest()
    workplace.land("logs.jsonl", prompts(20, 22))
    assert workplace.ingest().counts.events == 2
    workplace.land("logs.jsonl", prompts(22, 40), "ab")
    assert workplace.ingest().counts.events == 18
    assert numbers(workplace.landed()) == [*range(9), *range(20, 40)]


def test_empty_lines_where_a_large_file_is_cut_belong_to_both_parts(tmp_path: Path) -> None:
    lines = [prompts(n, n + 1) for n in range(8)]
    content = b"".join(line + b"\n" * 5 for line in lines)
    for cut in (len(lines[0]) + more for more in (-1, 0, 2, 5)):
        with open_workplace(
            tmp_path / str(cut), parallel_from_bytes=10, ingest_processes=1, batch_bytes=cut
        ) as workplace:
            workplace.land("logs.jsonl", content)
            report = workplace.ingest()
            assert (report.skipped, report.counts.bytes) == ([], len(content))
            assert numbers(workplace.landed()) == list(range(8))


def test_a_line_over_the_limit_is_quarantined_and_the_next_one_is_read(tmp_path: Path) -> None:
    with open_workplace(tmp_path, max_line_bytes=10_000) as workplace:
        long = line(claude("user_prompt", prompt="x" * 9_000_000))
        workplace.land("logs.jsonl", prompts(0, 1) + long + prompts(1, 2))
        workplace.ingest()
        assert numbers(workplace.landed()) == [0, 1]
        (row,) = workplace.quarantined().to_dicts()
    assert row["length_bytes"] == len(long) - 1
    assert "EVAL_MAX_LINE_BYTES" in row["reason"]


def test_an_event_goes_to_the_day_its_session_began_even_days_later(workplace: Workplace) -> None:
    workplace.land("logs.jsonl", line(claude("user_prompt")))
    workplace.ingest()
    workplace.land("logs.jsonl", line(claude("user_prompt", 3 * DAY_S)), "ab")
    assert workplace.ingest().dates == {FIRST_OF_JUNE}
    assert workplace.landed()["session_date"].unique().to_list() == [FIRST_OF_JUNE]


def test_sessions_before_the_first_partition_are_assigned_to_it_and_counted(
    tmp_path: Path,
) -> None:
    with open_workplace(tmp_path, start_date=date(2026, 6, 2)) as workplace:
        workplace.land("logs.jsonl", line(claude("user_prompt"), claude("user_prompt", DAY_S)))
        report = workplace.ingest()
    assert report.dates == {date(2026, 6, 2)}
    assert (report.counts.events, report.counts.out_of_range) == (2, 1)


@pytest.mark.parametrize("attribution_first", [True, False])
def test_attribution_lines_get_the_date_of_their_session_in_either_order(
    workplace: Workplace, attribution_first: bool
) -> None:
    attribution = b'{"session_id": "s", "masque": "M", "donned_at": "2026-06-02T00:00:01Z"}\n'
    event = line(claude("user_prompt", DAY_S / 2 - 1, session__id="s", organization__id="acme"))
    names = ["1.attribution.jsonl", "2.jsonl"]
    contents = [attribution, event] if attribution_first else [event, attribution]
    for name, content in zip(names, contents, strict=True):
        workplace.land(name, content)
        workplace.ingest()
    # The prompt came at 23:59:59 of June 1st, the don at 00:00:01 of June 2nd.
    days = {date(2026, 6, 2)} if attribution_first else {FIRST_OF_JUNE}
    assert set(workplace.landed()["session_date"]) == days


@pytest.mark.parametrize("new_name", ["logs.jsonl.1", "logs.jsonl-20260601", "old/logs.log"])
def test_the_unread_tail_of_a_file_that_was_rotated_to_another_name_is_read(
    workplace: Workplace, new_name: str
) -> None:
    path = workplace.land("logs.jsonl", prompts(0, 3))
    workplace.ingest()
    workplace.land("logs.jsonl", prompts(3, 5), "ab")
    target = path.parent / new_name
    target.parent.mkdir(exist_ok=True)
    path.rename(target)
    workplace.land("logs.jsonl", prompts(5, 6))
    report = workplace.ingest()
    assert report.skipped == []
    assert sorted(numbers(workplace.landed())) == list(range(6))
    assert workplace.ingest().counts.lines == 0


def test_another_file_with_the_inode_of_a_known_one_is_not_read_under_another_name(
    workplace: Workplace,
) -> None:
    path = workplace.land("logs.jsonl", prompts(0, 3))
    workplace.ingest()
    path.rename(path.with_suffix(".log"))
    workplace.land("logs.log", b"the log of a program\n")
    (skipped,) = workplace.ingest().skipped
    assert skipped.path == "logs.log"
    assert "names must end in .jsonl" in skipped.reason
    assert workplace.quarantined().is_empty()


def test_a_file_with_two_names_is_read_once(workplace: Workplace) -> None:
    path = workplace.land("logs.jsonl", prompts(0, 2))
    os.link(path, path.with_name("again.jsonl"))
    assert workplace.ingest().counts.events == 2


def test_an_unwritable_lake_is_a_clear_error_and_the_next_run_continues(
    workplace: Workplace,
) -> None:
    workplace.land("logs.jsonl", prompts(0, 2))
    root_of(workplace.lake).parent.mkdir(exist_ok=True)
    root_of(workplace.lake).write_text("a file where the folder should be")
    with pytest.raises(LakeError, match="Check space and permissions"):
        workplace.ingest()
    assert IngestBatches(workplace.ledger).totals().lines == 0
    root_of(workplace.lake).unlink()
    assert workplace.ingest().counts.events == 2


IN_BOTH_FORMS = pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("logs.jsonl.gz", gzip.compress),
        ("logs.jsonl.zst", lambda content: pa.compress(content, codec="zstd", asbytes=True)),
    ],
)


class StopAfterTheFirstBatch(Silent):
    """Progress that interrupts the ingest, as a signal does."""

    def advance(self, units: int) -> None:
        """Interrupt the ingest."""
        raise KeyboardInterrupt


def test_an_ingest_interrupted_in_a_compressed_file_continues_from_its_position(
    tmp_path: Path,
) -> None:
    with open_workplace(tmp_path, batch_bytes=2000) as workplace:
        workplace.land("logs.jsonl.gz", gzip.compress(prompts(0, 40)))
        with pytest.raises(KeyboardInterrupt):
            Ingest(workplace.stores, lambda: NOW).run(StopAfterTheFirstBatch())
        assert 0 < workplace.landed().height < 40
        workplace.ingest()
        assert numbers(workplace.landed()) == list(range(40))
        assert workplace.ingest().counts.lines == 0


def test_what_a_truncated_compressed_file_has_is_read_and_the_rest_when_it_comes(
    workplace: Workplace,
) -> None:
    """As while a log is being compressed."""
    packed = gzip.compress(prompts(0, 6_000))
    workplace.land("logs.jsonl.gz", packed[:-3_000])
    report = workplace.ingest()
    read = workplace.landed().height
    assert 2_000 < read < 6_000
    named = [("logs.jsonl.gz", "its end is missing. The lines before it are read")]
    assert [(file.path, file.reason) for file in report.skipped] == named
    # It may still be written: named in every run and by status, but no entry of the quarantine.
    again = workplace.ingest()
    assert (again.counts.lines, again.counts.quarantined) == (0, 0)
    assert [(file.path, file.reason) for file in again.skipped] == named
    _, skipped = ingest_lags(workplace.stores)
    assert [(file.path, file.reason) for file in skipped] == named

    workplace.land("logs.jsonl.gz", packed[-3_000:], "ab")
    whole = workplace.ingest()
    assert (whole.counts.quarantined, whole.skipped) == (0, [])
    assert numbers(workplace.landed()) == list(range(6_000))
    assert workplace.ingest().counts.lines == 0
    assert workplace.quarantined().is_empty()


@IN_BOTH_FORMS
def test_a_compressed_file_that_grows_at_any_byte_gives_each_line_once(
    workplace: Workplace, name: str, pack: Callable[[bytes], bytes]
) -> None:
    """Also where it ends between two members of which the first ends within a line."""
    content = prompts(0, 6)
    packed = b"".join(pack(content[at : at + 700]) for at in range(0, len(content), 700))
    for at in range(0, len(packed), 97):
        workplace.land(name, packed[at : at + 97], "ab")
        workplace.ingest()
    assert numbers(workplace.landed()) == list(range(6))
    assert workplace.quarantined().is_empty()
    assert workplace.ingest().skipped == []


HALF = line(claude("user_prompt", 9))[:200]
BACKUP = "agents-2026-06-01T12-00-00.000-size.jsonl"


def rest(path: Path, seconds: float) -> None:
    """Set the last change of a file to some time ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.parametrize(
    ("name", "seconds", "newer", "quarantined"),
    [
        ("agents.jsonl", 3_600, None, 0),
        ("agents.jsonl", 25 * 3_600, None, 1),
        (BACKUP, 10, "agents.jsonl", 1),
        ("agents.jsonl", 10, BACKUP, 0),
        # A collector may still have its last bytes.
        (BACKUP, -600, "agents.jsonl", 0),
        (BACKUP, 10, "others.jsonl", 0),
        ("collector-0.jsonl", 10, "collector-1.jsonl", 0),
    ],
)
def test_a_half_line_is_quarantined_when_its_file_no_longer_grows(
    workplace: Workplace, name: str, seconds: float, newer: str | None, quarantined: int
) -> None:
    whole = prompts(0, 2)
    path = workplace.land(name, whole + HALF)
    if newer is not None:
        workplace.land(newer, prompts(2, 3))
    rest(path, seconds)
    report = workplace.ingest()
    assert report.counts.quarantined == quarantined
    assert [(file.path, file.reason) for file in report.skipped] == [
        (name, f"200 bytes from byte {len(whole):,} on: {CUT_OFF}")
    ] * quarantined
    unread, _ = find_unread_files(workplace.stores)
    assert [has_complete_line(workplace.stores, file) for file in unread] == [False] * (
        1 - quarantined
    )
    # What is written later is read all the same.
    workplace.land(name, b"\n" + prompts(3, 5), "ab")
    workplace.ingest()
    events = [0, 1, 3, 4] if newer is None else [0, 1, 2, 3, 4]
    assert sorted(numbers(workplace.landed())) == events


def test_a_half_line_that_was_read_before_its_file_came_to_rest(workplace: Workplace) -> None:
    packed = gzip.compress(prompts(0, 2) + HALF)
    paths = [
        workplace.land("plain.jsonl", prompts(2, 4) + HALF),
        workplace.land("lines.jsonl.gz", packed),
        workplace.land("cut.jsonl.gz", packed[:-20]),
    ]
    assert workplace.ingest().counts.quarantined == 0
    for path in paths:
        rest(path, 25 * 3_600)
    assert workplace.ingest().counts.quarantined == 3
    again = workplace.ingest()
    assert (again.files, again.skipped) == (0, [])


def test_ingest_status_and_doctor_name_a_half_line(program: Program) -> None:
    path = program.land("agents.jsonl", prompts(0, 2) + HALF)
    rest(path, 25 * 3_600)
    size = path.stat().st_size
    assert f"agents.jsonl: 200 bytes from byte {size - 200:,} on: cut off" in program("ingest").err
    for command in (("status",), ("doctor", "--offline")):
        out = " ".join(program(*command).out.split())
        assert f"agents.jsonl, byte {size - 200:,}: cut off" in out
