"""Retries of quarantined lines: readable ones are stored once, others keep a reason."""

import errno
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from threading import Barrier, Thread
from typing import BinaryIO

import polars as pl
import pyarrow as pa
import pytest

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.expire import Expire
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.schemas import QUARANTINE, Table
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.landing import Landing, LandingFile
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.lock import INGEST, LockLostError, LockTimeoutError, held
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines.storage.replaced_parts import replace_parts
from evaluation_pipelines.telemetry import reread
from evaluation_pipelines.telemetry.domain import reader
from evaluation_pipelines.telemetry.domain.lenient_json import MalformedLineError
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches, SessionIndex
from evaluation_pipelines.telemetry.quarantine import retry as quarantine_retry
from evaluation_pipelines.telemetry.quarantine.entries import (
    all_entries,
)
from evaluation_pipelines.telemetry.quarantine.retry import Retry, RetryReport
from evaluation_pipelines_tests.storage.locks import lose_lock
from evaluation_pipelines_tests.telemetry.quarantine.quarantined_lines import (
    FEW,
    LATER,
    SHORT,
    is_balanced,
    landed,
    long_line,
    many,
    numbered,
    retry,
    short_line,
    totals,
    unresolved,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, SESSION, claude, line


def assert_same_as_a_fresh_ingest(workplace: Workplace, folder: Path, **settings: object) -> None:
    """Assert that counts and events equal those of an ingest without a quarantine."""
    landing = workplace.landing.root
    with open_workplace(folder, landing_dir=landing, **settings) as fresh:
        fresh.ingest()
        assert totals(workplace) == totals(fresh)
        assert IngestBatches(workplace.ledger).names() == IngestBatches(fresh.ledger).names()
        assert landed(workplace) == landed(fresh)
        workplace.build()
        fresh.build()
        same = ["event_id", "session_date", "attributes"]
        assert workplace.events()[same].equals(fresh.events()[same])


def test_lines_that_were_too_long_are_stored_once_when_the_limit_is_raised(tmp_path: Path) -> None:
    bad = b"no telemetry\n"
    content = short_line(0) + long_line(1) + bad + long_line(2, DAY_S) + short_line(3)
    with open_workplace(tmp_path, **SHORT) as workplace:
        workplace.land("logs.jsonl", content)
        workplace.ingest()
        workplace.build()
        assert landed(workplace) == [0, 3]
        assert (totals(workplace).quarantined, totals(workplace).events) == (3, 2)
    with open_workplace(tmp_path) as workplace:
        report = retry(workplace)
        assert (report.resolved, report.events) == (2, 2)
        # Both belong to one session, which began on the first of June.
        assert report.dates == {date(2026, 6, 1)}
        ((entry, reason),) = report.unresolved
        assert entry.offset == len(short_line(0) + long_line(1))
        assert reason.startswith("not JSON")
        assert landed(workplace) == [0, 1, 2, 3]
        assert (totals(workplace).quarantined, totals(workplace).events) == (1, 4)
        assert (totals(workplace).lines, totals(workplace).bytes) == (5, len(content))
        assert RebuildQueue(workplace.ledger).pending(LATER) != []

        again = retry(workplace)
        assert (again.resolved, again.events, len(again.unresolved)) == (0, 0, 1)
        assert landed(workplace) == [0, 1, 2, 3]
        workplace.build()
        assert workplace.events().height == 4
        assert_same_as_a_fresh_ingest(workplace, tmp_path / "fresh")


def test_only_the_broken_records_of_a_line_are_stored_when_they_can_be_read(
    tmp_path: Path,
) -> None:
    content = line(many(0), claude("user_prompt", 5, n=1), many(2))
    unknown = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [many(3)]}]}]})
    unknown = unknown.replace("claude_code.", "")
    lonely = line(many(4)).replace(b'"session.id"', b'"no.session"')
    content += unknown.encode() + b"\n" + lonely
    with open_workplace(tmp_path, **FEW) as workplace:
        workplace.land("logs.jsonl", content)
        workplace.ingest()
        assert landed(workplace) == [1]
        assert [entry[:2] for entry in unresolved(workplace)] == [
            (0, 0),
            (0, 2),
            (len(line(many(0), claude("user_prompt", 5, n=1), many(2))), 0),
            (len(content) - len(lonely), 0),
        ]
    with open_workplace(tmp_path) as workplace:
        report = retry(workplace)
        # One is of an unknown program, one has no session: both are read and counted by name.
        assert (report.resolved, report.events, report.unresolved) == (4, 2, [])
        assert landed(workplace) == [0, 1, 2]
        assert_same_as_a_fresh_ingest(workplace, tmp_path / "fresh")


def test_a_record_that_still_cannot_be_read_keeps_its_index_and_gets_the_newest_reason(
    tmp_path: Path,
) -> None:
    more = claude("user_prompt", 1, n=1, **numbered(*range(40)))
    with open_workplace(tmp_path, **FEW) as workplace:
        workplace.land("logs.jsonl", line(many(0), more))
        workplace.ingest()
    with open_workplace(tmp_path, max_attributes=30) as workplace:
        report = retry(workplace)
        assert (report.resolved, [reason for _, reason in report.unresolved]) == (
            1,
            ["43 attributes, limit is 30"],
        )
        assert unresolved(workplace) == [(0, 1, "43 attributes, limit is 30")]
        assert totals(workplace).quarantined == 1
    with open_workplace(tmp_path) as workplace:
        assert retry(workplace).resolved == 1
        assert landed(workplace) == [0, 1]
        assert totals(workplace).quarantined == 0


def test_a_partly_readable_line_leaves_its_broken_records_in_quarantine(tmp_path: Path) -> None:
    record = claude("user_prompt", n=1, prompt="x" * 2_000)
    with open_workplace(tmp_path, **SHORT, **FEW) as workplace:
        workplace.land("logs.jsonl", line(many(0), record, many(2)))
        workplace.ingest()
        assert [entry[1] for entry in unresolved(workplace)] == [-1]
    with open_workplace(tmp_path, **FEW) as workplace:
        report = retry(workplace)
        assert (report.resolved, report.events) == (1, 1)
        assert [(index, reason) for _, index, reason in unresolved(workplace)] == [
            (0, "23 attributes, limit is 20"),
            (2, "23 attributes, limit is 20"),
        ]
        assert totals(workplace).quarantined == 2
        assert workplace.quarantined().height == 2
    with open_workplace(tmp_path) as workplace:
        assert retry(workplace).resolved == 2
        assert unresolved(workplace) == []
        assert_same_as_a_fresh_ingest(workplace, tmp_path / "fresh")


def packed_gzip(content: bytes) -> bytes:
    return gzip.compress(content)


def packed_zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


def packed_messages(content: bytes) -> bytes:
    messages = [
        pa.compress(word, codec="zstd", asbytes=True) for word in content.rstrip().split(b"\n")
    ]
    return b"".join(len(message).to_bytes(4, "big") + message for message in messages)


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("logs.jsonl", bytes),
        ("logs.jsonl.gz", packed_gzip),
        ("logs.jsonl.zst", packed_zstd),
        ("logs.jsonl", packed_messages),
    ],
)
def test_lines_are_found_again_in_every_compression(
    tmp_path: Path, name: str, packed: Callable[[bytes], bytes]
) -> None:
    content = b"".join(
        line
        for n in range(0, 30, 3)
        for line in (short_line(n), long_line(n + 1), long_line(n + 2))
    )
    with open_workplace(tmp_path, **SHORT) as workplace:
        workplace.land(name, packed(content))
        workplace.ingest()
        assert landed(workplace) == list(range(0, 30, 3))
    with open_workplace(tmp_path, batch_bytes=5_000) as workplace:
        report = retry(workplace)
        assert (report.resolved, report.events, report.unresolved) == (20, 20, [])
        assert landed(workplace) == list(range(30))
        assert totals(workplace).quarantined == 0


def test_equal_lines_are_one_entry_and_all_resolved_with_it(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **FEW) as workplace:
        workplace.land("logs.jsonl", line(many(1), many(2)) * 3 + short_line(0))
        workplace.ingest()
        entries = all_entries(workplace.stores)
        assert entries["lines"].to_list() == [3, 3]
        assert (totals(workplace).lines, totals(workplace).quarantined) == (4, 6)
    with open_workplace(tmp_path) as workplace:
        report = retry(workplace)
        assert (report.resolved, report.unresolved) == (2, [])
        assert all_entries(workplace.stores).is_empty()
        # As records that were sent three times: a build keeps one of each.
        assert_same_as_a_fresh_ingest(workplace, tmp_path / "fresh")


def test_equal_attribution_lines_are_counted_as_in_a_fresh_ingest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a fault of this program that made lines unreadable."""
    worn = {"session_id": "s1", "masque": "A", "donned_at": "2026-06-01T12:00:00Z"}
    attribution = json.dumps(worn).encode() + b"\n"

    def refuse(_line: bytes) -> None:
        raise MalformedLineError("cannot be read")

    with open_workplace(tmp_path) as workplace:
        workplace.land("logs.jsonl", attribution * 3 + short_line(0) * 2)
        with monkeypatch.context() as patched:
            patched.setattr(reader, "decode_line", refuse)
            workplace.ingest()
        assert totals(workplace).quarantined == 5
        assert retry(workplace).resolved == 2
        counts = totals(workplace)
        assert (counts.attribution_lines, counts.quarantined) == (3, 0)
        # Three times the don, twice the prompt: a build keeps one of each.
        assert counts.events == 5
        workplace.build()
        assert workplace.events().height == 2


def other_session(number: int, second: float = 0) -> bytes:
    return line(claude("user_prompt", second, n=number, session__id="another-one"))


def test_what_was_erased_since_stays_out_and_counted(tmp_path: Path) -> None:
    content = short_line(0) + other_session(1) + long_line(2) + other_session(3)
    content += long_line(4)
    with open_workplace(tmp_path, **SHORT) as workplace:
        workplace.land("logs.jsonl", content)
        workplace.ingest()
        Forget(workplace.stores, "root", clock=lambda: NOW).run(Subject("session", "another-one"))
        assert landed(workplace) == [0]
    with open_workplace(tmp_path) as workplace:
        assert retry(workplace).resolved == 2
        assert landed(workplace) == [0, 2, 4]
        assert (totals(workplace).events, totals(workplace).forgotten) == (5, 0)
        assert is_balanced(workplace)


@pytest.mark.parametrize("kind", ["events", "sessions"])
def test_what_has_expired_since_stays_out_and_counted(tmp_path: Path, kind: str) -> None:
    old = short_line(0) + long_line(1)
    new = other_session(2, 182 * DAY_S)
    with open_workplace(tmp_path, **{f"keep_{kind}_days": 30}, **SHORT) as workplace:
        workplace.land("logs.jsonl", old + new + line(many(3)) + b"no telemetry\n")
        workplace.ingest()
        workplace.build()
        Expire(workplace.stores, clock=lambda: NOW).run()
        assert landed(workplace) == [2]
        known = SessionIndex(workplace.ledger).starts([SESSION, "another-one"])
    with open_workplace(tmp_path) as workplace:
        assert retry(workplace).resolved == 1
        assert landed(workplace) == [2]
        # The line that can be read now is of the date that has expired.
        assert (totals(workplace).events, totals(workplace).forgotten) == (3, 1)
        assert is_balanced(workplace)
        assert SessionIndex(workplace.ledger).starts([SESSION, "another-one"]) == known


def test_an_entry_that_has_expired_does_not_come_back_with_others(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **FEW) as workplace:
        workplace.land("logs.jsonl", b"no telemetry\n" + line(many(0)))
        workplace.ingest()
        (part,) = Manifest(workplace.ledger).current(QUARANTINE.name, None)
        left = workplace.quarantined().filter(pl.col("offset") > 0)
        replace_parts(workplace.ledger, workplace.lake, None, [(part, left)], NOW, lambda *_: None)
    with open_workplace(tmp_path) as workplace:
        assert retry(workplace).resolved == 1
        assert unresolved(workplace) == []
        assert totals(workplace).quarantined == 1


def test_a_renamed_file_that_grew_is_found(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **SHORT) as workplace:
        path = workplace.land("logs.jsonl", long_line(0))
        workplace.ingest()
        path.rename(path.with_name("backup.jsonl"))
        workplace.land("backup.jsonl", short_line(1), "ab")
    with open_workplace(tmp_path) as workplace:
        assert retry(workplace).resolved == 1
        workplace.ingest()
        assert landed(workplace) == [0, 1]


def test_a_copy_of_the_landing_folder_can_be_retried(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **SHORT) as workplace:
        path = workplace.land("logs.jsonl", long_line(0))
        workplace.ingest()
        content = path.read_bytes()
        path.rename(tmp_path / "original.jsonl")  # keeps its inode, so that the copy has another
        path.write_bytes(content)
    with open_workplace(tmp_path) as workplace:
        assert retry(workplace).resolved == 1
        assert landed(workplace) == [0]


class FailingLanding(Landing):
    """Landing folder where one file is deleted before it is opened, and others cannot be."""

    deleted = ""
    refused = ""
    opened: tuple[str, ...] = ()

    def open(self, file: LandingFile) -> BinaryIO:
        """Open a file, note its path, and fail as told."""
        self.opened += (file.path,)
        if file.path == self.refused:
            raise PermissionError(errno.EACCES, "Permission denied", str(self.root / file.path))
        if file.path == self.deleted:
            (self.root / file.path).unlink()
        return super().open(file)


def test_a_file_that_cannot_be_opened_is_named_and_the_others_are_retried(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **SHORT) as workplace:
        for number, name in enumerate(("a.jsonl", "b.jsonl", "c.jsonl")):
            workplace.land(name, long_line(number))
        workplace.ingest()
    with open_workplace(tmp_path) as workplace:
        landing = FailingLanding(workplace.landing.root)
        landing.refused = "b.jsonl"
        report = Retry(replace(workplace.stores, landing=landing), lambda: LATER).run()
        assert [(entry.path, why) for entry, why in report.unresolved] == [
            ("b.jsonl", "Permission denied")
        ]
        assert (report.resolved, landed(workplace)) == (2, [0, 2])


def test_a_copy_is_retried_if_the_file_itself_vanishes(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **SHORT) as workplace:
        path = workplace.land("logs.jsonl", long_line(0))
        workplace.ingest()
        path.rename(path.with_name("moved.jsonl"))
        workplace.land("logs.jsonl", long_line(0))
    with open_workplace(tmp_path) as workplace:
        landing = FailingLanding(workplace.landing.root)
        landing.deleted = "moved.jsonl"
        report = Retry(replace(workplace.stores, landing=landing), lambda: LATER).run()
        assert (report.resolved, landing.opened) == (1, ("moved.jsonl", "logs.jsonl"))


def test_a_changed_file_is_opened_once(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **SHORT) as workplace:
        path = workplace.land("logs.jsonl", long_line(0))
        workplace.ingest()
        emptied(path)
        landing = FailingLanding(workplace.landing.root)
        ((_, reason),) = Retry(replace(workplace.stores, landing=landing)).run().unresolved
        assert (reason, landing.opened) == (reread.REPLACED, ("logs.jsonl",))


def gone(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(short_line(7))


def rewritten_beyond_its_head(path: Path) -> None:
    """Keep the first 4 KiB and the length."""
    content = path.read_bytes()
    changed = content[:4096] + content[4096:].replace(b'"claude-code"', b'"another-one"')
    assert changed != content
    path.write_bytes(changed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (gone, reread.GONE),
        (emptied, reread.REPLACED),
        (rewritten_beyond_its_head, quarantine_retry.CHANGED),
    ],
)
def test_entries_of_a_deleted_or_changed_file_stay_with_that_reason(
    tmp_path: Path, change: Callable[[Path], None], reason: str
) -> None:
    first = line(claude("compaction", n=0, text="y" * 1_000)) * 5
    with open_workplace(tmp_path, **SHORT) as workplace:
        # The second line begins after the head that identifies the file.
        path = workplace.land("logs.jsonl", first + long_line(1))
        workplace.ingest()
        before = totals(workplace)
    change(path)
    with open_workplace(tmp_path) as workplace:
        report = retry(workplace)
        assert [found for _, found in report.unresolved] == [reason]
        assert (report.resolved, report.events) == (0, 0)
        assert totals(workplace) == before
        assert len(unresolved(workplace)) == 1


def test_the_rest_of_a_decompression_bomb_is_not_read_as_one_line(tmp_path: Path) -> None:
    with open_workplace(tmp_path, max_decompression_ratio=2) as workplace:
        content = short_line(0) + b" " * 80_000_000 + short_line(1)
        workplace.land("bomb.jsonl.gz", gzip.compress(content))
        workplace.ingest()
    with open_workplace(tmp_path, max_decompression_ratio=100_000) as workplace:
        ((_, reason),) = retry(workplace).unresolved
        assert "put a fixed copy under another name" in reason
        assert landed(workplace) == [0]


def test_nothing_is_retried_while_telemetry_is_read(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **SHORT) as workplace:
        workplace.land("logs.jsonl", long_line(0))
        workplace.ingest()
    with open_workplace(tmp_path, lock_timeout_seconds=1) as workplace:
        with held(workplace.ledger, INGEST), pytest.raises(LockTimeoutError, match="lock ingest"):
            retry(workplace)
        assert retry(workplace).resolved == 1


def test_two_concurrent_retries_store_the_result_of_one(tmp_path: Path) -> None:
    content = b"".join(map(long_line, range(40)))
    with open_workplace(tmp_path, **SHORT) as workplace:
        workplace.land("a.jsonl", content)
        workplace.land("b.jsonl", content.replace(b"xxx", b"yyy"))
        workplace.ingest()
    reports: list[RetryReport] = []
    barrier = Barrier(2)

    def one() -> None:
        with open_workplace(tmp_path, batch_bytes=5_000) as workplace:
            barrier.wait()
            reports.append(retry(workplace))

    threads = [Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_workplace(tmp_path) as workplace:
        rest = retry(workplace)
        assert sum(report.resolved for report in [*reports, rest]) == 80
        assert landed(workplace) == sorted([*range(40), *range(40)])
        assert totals(workplace).quarantined == 0


def test_a_retry_that_fails_before_its_commit_is_completed_by_the_next_one(tmp_path: Path) -> None:
    with open_workplace(tmp_path, **SHORT) as workplace:
        workplace.land("logs.jsonl", long_line(0) + long_line(1))
        workplace.ingest()
    with open_workplace(tmp_path) as workplace:

        class LockLosingLake(Lake):
            """Lake that loses the lock before a part is written, and another ingest takes it."""

            def write_part(
                self, frame: pl.DataFrame, table: Table, session_date: date | None, name: str
            ) -> NewPart:
                lose_lock(workplace.ledger, INGEST)
                return super().write_part(frame, table, session_date, name)

        lake = LockLosingLake(workplace.lake.store, Manifest(workplace.ledger))
        stores = replace(workplace.stores, lake=lake)
        with pytest.raises(LockLostError, match="lock ingest is lost"):
            Retry(stores, lambda: LATER).run()
        assert landed(workplace) == []
        assert retry(workplace).resolved == 2
        assert landed(workplace) == [0, 1]
