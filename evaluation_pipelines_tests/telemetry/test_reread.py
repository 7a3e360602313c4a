"""Landed parts that are damaged or missing are read again from their landing files."""

import errno
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import BinaryIO

import pytest

from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED, Table
from evaluation_pipelines.storage.landing import Landing, LandingFile
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.parts import Part
from evaluation_pipelines.telemetry.domain import event_ids
from evaluation_pipelines.telemetry.quarantine.retry import Retry
from evaluation_pipelines.telemetry.reread import Reread, RereadPart
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line, session
from evaluation_pipelines_tests.world.lake_files import root_of

FIRST = date(2026, 6, 1)


def prompt(name: str, second: float = 0) -> bytes:
    return line(claude("user_prompt", second, session__id=name, prompt=f"the text of {name}"))


def pretty(name: str) -> bytes:
    return json.dumps(json.loads(prompt(name)), indent=1).encode() + b"\n"


@pytest.fixture
def landed(tmp_path: Path) -> Iterator[Workplace]:
    """Two batches of one file, with texts, on two dates; merged from two parts on."""
    with open_workplace(tmp_path, compact_parts=3) as workplace:
        workplace.land("logs.jsonl", session("a") + prompt("a", 5) + session("b", DAY_S))
        workplace.ingest()
        workplace.land("logs.jsonl", session("c") + prompt("c", 5), "ab")
        workplace.ingest()
        yield workplace


def parts(workplace: Workplace, table: Table) -> list[Part]:
    return Manifest(workplace.ledger).current(table.name, FIRST)


def damage(workplace: Workplace, part: Part) -> None:
    path = root_of(workplace.lake) / part.path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def reread(workplace: Workplace) -> list[RereadPart]:
    return Reread(workplace.stores, clock=lambda: NOW).run()


@pytest.mark.parametrize("table", [AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED])
@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_damaged_part_has_the_same_rows_again(landed: Workplace, table: Table, how: str) -> None:
    before, old = landed.landed(), parts(landed, table)
    landed.build()
    if how == "damaged":
        damage(landed, old[0])
    else:
        (root_of(landed.lake) / old[0].path).unlink()
    (result,) = reread(landed)
    assert (result.part, result.why_not) == (old[0], None)
    assert result.damage.startswith(str(root_of(landed.lake) / old[0].path))
    assert landed.landed().sort("event_id").equals(before.sort("event_id"))
    assert [
        queued_date.session_date for queued_date in RebuildQueue(landed.ledger).pending(NOW)
    ] == [FIRST]
    landed.build()
    assert landed.events().height == before.height
    assert reread(landed) == []


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (prompt("a").rstrip(), b"\n" + prompt("b", 1)),  # the newline was not yet written
        (prompt("a"), b"\n\n" + prompt("b", 1)),
        (pretty("a").rstrip(), b"\n" + pretty("b")),
        (pretty("a"), prompt("b", 1)),
    ],
)
def test_what_followed_later_does_not_matter(tmp_path: Path, first: bytes, then: bytes) -> None:
    with open_workplace(tmp_path) as workplace:
        workplace.land("logs.jsonl", first)
        workplace.ingest()
        (old,) = parts(workplace, AGENT_EVENTS_LANDED)
        workplace.land("logs.jsonl", then, "ab")
        workplace.ingest()
        damage(workplace, old)
        (result,) = reread(workplace)
        assert result.why_not is None
        assert workplace.landed().height == 2


def test_a_merged_part_is_read_again_from_all_its_bytes(landed: Workplace) -> None:
    landed.land("more.jsonl", session("d"))
    landed.ingest()
    before = landed.landed()
    landed.build()
    (merged,) = parts(landed, AGENT_EVENTS_LANDED)
    assert "merged" in merged.path
    damage(landed, merged)
    (result,) = reread(landed)
    assert result.why_not is None
    assert landed.landed().sort("event_id").equals(before.sort("event_id"))


def test_a_part_whose_landing_file_is_gone_stays_damaged_and_says_so(landed: Workplace) -> None:
    (first, _) = parts(landed, AGENT_EVENTS_LANDED)
    damage(landed, first)
    (landed.landing.root / "logs.jsonl").unlink()
    (result,) = reread(landed)
    assert result.why_not == "logs.jsonl: the file is no longer in the landing folder"
    assert parts(landed, AGENT_EVENTS_LANDED)[0] == first


def test_a_copy_with_the_old_name_is_read_where_the_renamed_file_cannot_be(
    landed: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, _) = parts(landed, AGENT_EVENTS_LANDED)
    damage(landed, first)
    path, renamed = landed.landing.root / "logs.jsonl", landed.landing.root / "renamed.jsonl"
    path.rename(renamed)
    open_file = Landing.open

    def refused(landing: Landing, file: LandingFile) -> BinaryIO:
        if file.path == renamed.name:
            raise PermissionError(errno.EACCES, "Permission denied", str(renamed))
        return open_file(landing, file)

    monkeypatch.setattr(Landing, "open", refused)
    for content in (b"", renamed.read_bytes()):
        (result,) = reread(landed)
        assert result.why_not == "logs.jsonl: Permission denied"
        path.write_bytes(content)
    (result,) = reread(landed)
    assert result.why_not is None


def test_a_landing_file_with_other_content_replaces_nothing(landed: Workplace) -> None:
    (first, _) = parts(landed, AGENT_EVENTS_LANDED)
    damage(landed, first)
    path = landed.landing.root / "logs.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"user_prompt"', b'"user_PROMPT"'))
    (result,) = reread(landed)
    assert result.why_not is not None
    assert parts(landed, AGENT_EVENTS_LANDED)[0] == first


def test_events_of_a_retried_line_can_be_read_again(tmp_path: Path) -> None:
    with open_workplace(tmp_path, max_line_bytes=1024) as workplace:
        long = line(claude("user_prompt", session__id="a", prompt="x" * 2000))
        workplace.land("logs.jsonl", session("b") + long)
        workplace.ingest()
    with open_workplace(tmp_path) as workplace:
        assert Retry(workplace.stores, clock=lambda: NOW).run().resolved == 1
        retried = parts(workplace, AGENT_EVENTS_LANDED)[-1]
        damage(workplace, retried)
        (result,) = reread(workplace)
        assert (result.part, result.why_not) == (retried, None)
        assert sorted(workplace.landed()["session_id"].unique()) == ["a", "b"]


@pytest.mark.parametrize("table", [AGENT_EVENTS_LANDED, EVENT_TEXTS_LANDED])
def test_events_of_a_version_with_other_ids_are_not_parted_from_their_texts(
    landed: Workplace, monkeypatch: pytest.MonkeyPatch, table: Table
) -> None:
    damage(landed, parts(landed, table)[0])
    monkeypatch.setattr(event_ids, "_SIZE_BYTES", 15)  # what another version makes
    (result,) = reread(landed)
    assert result.why_not is not None
    assert "other ids than before" in result.why_not
