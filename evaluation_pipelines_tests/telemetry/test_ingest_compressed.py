"""Ingest of compressed files: while they grow, cut, flawed, and as backups."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from evaluation_pipelines.progress import Silent
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.unread_files import ingest_lags
from evaluation_pipelines_tests.telemetry.numbered_prompts import numbers, prompts
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace

IN_BOTH_FORMS = pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("logs.jsonl.gz", gzip.compress),
        ("logs.jsonl.zst", lambda content: pa.compress(content, codec="zstd", asbytes=True)),
    ],
)


@IN_BOTH_FORMS
def test_a_compressed_file_is_read_once_and_again_only_when_it_grows(
    workplace: Workplace, name: str, pack: Callable[[bytes], bytes]
) -> None:
    workplace.land(name, pack(prompts(0, 30)))
    assert workplace.ingest().counts.events == 30
    assert workplace.ingest().counts.lines == 0
    workplace.land(name, pack(prompts(30, 35)), "ab")
    assert workplace.ingest().counts.events == 5
    assert numbers(workplace.landed()) == list(range(35))


def test_a_compressed_backup_is_counted_once(workplace: Workplace) -> None:
    live = workplace.land("logs.jsonl", prompts(0, 6))
    workplace.ingest()
    workplace.land("logs-1.jsonl.gz", gzip.compress(live.read_bytes()))
    live.unlink()
    workplace.ingest()
    workplace.build()
    assert workplace.events().height == 6


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
    packed = gzip.compress(prompts(0, 20_000))
    workplace.land("logs.jsonl.gz", packed[:-3_000])
    report = workplace.ingest()
    read = workplace.landed().height
    assert 10_000 < read < 20_000
    named = [("logs.jsonl.gz", "its end is missing; the lines before it are read")]
    assert [(each.path, each.reason) for each in report.skipped] == named
    # It may still be written: named in every run and by status, but no entry of the quarantine.
    again = workplace.ingest()
    assert (again.counts.lines, again.counts.quarantined) == (0, 0)
    assert [(each.path, each.reason) for each in again.skipped] == named
    _, skipped = ingest_lags(workplace.stores)
    assert [(each.path, each.reason) for each in skipped] == named

    workplace.land("logs.jsonl.gz", packed[-3_000:], "ab")
    whole = workplace.ingest()
    assert (whole.counts.quarantined, whole.skipped) == (0, [])
    assert numbers(workplace.landed()) == list(range(20_000))
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


def test_a_compressed_file_without_any_complete_line_is_reported_until_it_has_one(
    workplace: Workplace,
) -> None:
    packed = gzip.compress(prompts(0, 20))
    workplace.land("logs.jsonl.gz", packed[:20])
    for _ in range(2):
        (skipped,) = workplace.ingest().skipped
        assert (skipped.path, skipped.reason) == (
            "logs.jsonl.gz",
            "its end is missing; the lines before it are read",
        )
    workplace.land("logs.jsonl.gz", packed[20:], "ab")
    assert workplace.ingest().skipped == []
    assert numbers(workplace.landed()) == list(range(20))


def test_a_file_of_compressed_messages_is_read_while_it_grows(
    workplace: Workplace,
) -> None:
    whole = b""
    for n in range(5):
        packed = pa.compress(prompts(n, n + 1).rstrip(), codec="zstd", asbytes=True)
        whole += len(packed).to_bytes(4, "big") + packed
    workplace.land("logs.jsonl", whole[:900])
    workplace.ingest()
    workplace.land("logs.jsonl", whole[900:], "ab")
    workplace.ingest()
    assert workplace.ingest().counts.lines == 0
    assert numbers(workplace.landed()) == [0, 1, 2, 3, 4]


def test_a_message_that_is_not_complete_is_named_and_nothing_is_read_twice(
    workplace: Workplace,
) -> None:
    packed = pa.compress(prompts(0, 1).rstrip(), codec="zstd", asbytes=True)
    cut = (2_000_000_000).to_bytes(4, "big") + packed[:20]
    workplace.land("logs.jsonl", len(packed).to_bytes(4, "big") + packed + cut)
    for events in (1, 0, 0):
        report = workplace.ingest()
        assert (report.counts.events, report.counts.quarantined) == (events, 0)
        ((path, reason),) = [(each.path, each.reason) for each in report.skipped]
        assert path == "logs.jsonl"
        assert reason.startswith("a message of 2000000000 bytes")


def test_a_decompression_bomb_is_quarantined_and_the_other_files_are_read(
    workplace: Workplace,
) -> None:
    workplace.land("bomb.jsonl.gz", gzip.compress(prompts(0, 1) + (b" " * 999 + b"\n") * 80_000))
    workplace.land("logs.jsonl", prompts(1, 3))
    report = workplace.ingest()
    assert (report.counts.events, report.counts.quarantined) == (3, 1)
    assert "EVAL_MAX_DECOMPRESSION_RATIO" in workplace.quarantined()["reason"].item()
    assert workplace.ingest().counts.lines == 0
