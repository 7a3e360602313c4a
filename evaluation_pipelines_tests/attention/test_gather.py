"""What is unread: files that cannot be read, incomplete lines, a backlog, compressed files."""

import gzip
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evaluation_pipelines.attention import gather
from evaluation_pipelines.attention.domain.item import State
from evaluation_pipelines.attention.domain.items import attention
from evaluation_pipelines.storage.landing import Landing
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.unread_files import UnreadFile, has_complete_line
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.workplace import Workplace


def make_old(path: Path) -> None:
    """Let its last change be two minutes ago."""
    os.utime(path, (time.time() - 120,) * 2)


def kinds(workplace: Workplace) -> set[str]:
    """Return the kinds of the items about unread files that need something."""
    facts = gather.gather_sent(workplace.stores, datetime.now(UTC))
    return {item.kind for item in attention(facts) if item.state is not State.OK} - {"clock"}


def test_a_file_that_cannot_be_read_is_unread_and_not_incomplete(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(workplace.land("logs.jsonl", session_with_texts("a")))

    def refuse(*_: object) -> None:
        raise PermissionError("no permission")

    monkeypatch.setattr(Landing, "open", refuse)
    assert kinds(workplace) == {"unread"}
    # It may never be read: programs that fall silent are reported meanwhile.
    assert gather.gather_sent(workplace.stores, datetime.now(UTC)).silent == []


def test_of_a_backlog_one_file_is_asked_whether_it_has_a_line(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(workplace.land("half.jsonl", b"half a line"))
    for name in "abc":
        workplace.land(f"{name}.jsonl", session_with_texts(name))
    asked = []

    def ask(stores: Stores, unread: UnreadFile) -> bool | None:
        asked.append(unread.file.path)
        return has_complete_line(stores, unread)

    monkeypatch.setattr(gather, "has_complete_line", ask)
    assert kinds(workplace) == {"incomplete_line", "unread"}
    assert asked == ["half.jsonl", "a.jsonl"]
    assert gather.gather_sent(workplace.stores, datetime.now(UTC)).silent is None


def test_unread_bytes_of_a_compressed_file_are_counted_as_they_are_stored(
    workplace: Workplace,
) -> None:
    """More bytes were read from the first member, after decompression, than the file has."""
    first, more = (gzip.compress(session_with_texts(name)) for name in "ab")
    workplace.land("logs.jsonl.gz", first)
    workplace.ingest()
    workplace.land("logs.jsonl.gz", more, "ab")
    facts = gather.gather_sent(workplace.stores, datetime.now(UTC))
    assert facts.unread_bytes == len(more)
