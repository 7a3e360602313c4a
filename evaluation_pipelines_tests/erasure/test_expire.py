"""Expiry of texts, events, sessions, quarantine and landing files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.build import Build, DateFailed
from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.expire import Expire, Expiry, first_kept
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.erasure.ledger_rows import expire_ledger_rows
from evaluation_pipelines.erasure.selection import select
from evaluation_pipelines.judging.session_windows import read_windows
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    EVENT_TEXTS_LANDED,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    TOOL_REPORTS,
)
from evaluation_pipelines.settings.data import ExpirySettings
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import Expired, RebuildQueue, expired_dates
from evaluation_pipelines.storage.lock import BUILD, held
from evaluation_pipelines.storage.parts import NewPart
from evaluation_pipelines_tests.erasure.two_people import (
    EMAIL,
    PHRASE,
    USER,
    of_ada,
    of_ben,
)
from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S
from evaluation_pipelines_tests.world.lake_files import root_of

OLD, NEW = date(2026, 6, 1), date(2026, 11, 30)
SINCE_OLD = (NEW - OLD).days * DAY_S


@contextmanager
def opened(folder: Path, **settings: Any) -> Iterator[Workplace]:
    """Sessions of Ada and Ben on an old and of both on a new date."""
    with open_workplace(folder, **settings) as workplace:
        fill(
            workplace,
            of_ada() + of_ben() + of_ada("new-ada", SINCE_OLD) + of_ben("new-ben", SINCE_OLD),
        )
        yield workplace


def expire(workplace: Workplace, *, dry_run: bool = False) -> Expiry:
    return Expire(workplace.stores, dry_run, lambda: NOW).run()


def figures(workplace: Workplace) -> list[pl.DataFrame]:
    tables = (AGENT_SESSIONS, SESSION_PERFORMANCE, SESSION_EVALUATIONS)
    read = [workplace.lake.read(table, [OLD, NEW]) for table in tables]
    reports = workplace.lake.read(TOOL_REPORTS, [OLD, NEW])
    return [*read, reports.select(pl.exclude(pl.List))]


def refusal(workplace: Workplace) -> str:
    """Why the old date is not built again."""
    (failed,) = Build(workplace.stores, clock=lambda: NOW).run([OLD])
    assert isinstance(failed, DateFailed)
    return failed.error


def test_a_day_is_kept_for_as_many_days_as_are_set() -> None:
    kept, today = ExpirySettings(keep_events_days=30), date(2026, 6, 30)
    assert first_kept(kept, "events", today) == date(2026, 5, 31)
    assert first_kept(kept, "texts", today) == date.min


def test_texts_go_and_figures_stay(tmp_path: Path) -> None:
    with opened(tmp_path, keep_texts_days=30) as workplace:
        before = figures(workplace)
        planned = expire(workplace, dry_run=True)
        assert planned.dates == {"texts": [OLD]}
        assert workplace.lake.read(EVENT_TEXTS_LANDED, [OLD]).height == 8

        done = expire(workplace)

        assert (done.dates, done.rows) == (planned.dates, {"event_texts_landed": 8})
        assert done.freed_bytes > 0
        assert done.oldest == {"sessions": OLD, "events": OLD, "texts": NEW}
        assert workplace.lake.read(EVENT_TEXTS_LANDED, [OLD]).height == 0
        assert workplace.lake.read(EVENT_TEXTS_LANDED, [NEW]).height == 8
        for old, new in zip(before, figures(workplace), strict=True):
            assert old.equals(new)
        current = Manifest(workplace.ledger).all_tables()
        with_phrase = {
            part.session_date
            for part in current
            if PHRASE in repr(pl.read_parquet(root_of(workplace.lake) / part.path).rows())
        }
        assert with_phrase == {NEW}
        reports = workplace.lake.read(TOOL_REPORTS, [OLD])
        assert "string not found" not in repr(reports.rows())
        levels = {
            window.session_date: window.content_level
            for window in read_windows(workplace.stores, [OLD, NEW], NOW)
        }
        assert levels == {OLD: "none", NEW: "full"}
        assert "EVAL_KEEP_TEXTS_DAYS" in refusal(workplace)
        assert expire(workplace).dates == {}


def test_a_date_that_expired_is_never_queued_again(tmp_path: Path) -> None:
    with opened(tmp_path, keep_texts_days=30) as workplace:
        expire(workplace)
        queue = RebuildQueue(workplace.ledger)
        queue.touch([OLD, NEW], NOW)
        assert [queued_date.session_date for queued_date in queue.pending(NOW)] == [NEW]


def test_events_go_and_sessions_and_scores_stay(tmp_path: Path) -> None:
    with opened(tmp_path, keep_events_days=30) as workplace:
        before = figures(workplace)

        done = expire(workplace)

        assert done.dates == {"events": [OLD]}
        assert {name: rows for name, rows in done.rows.items() if "landed" in name} == {
            "agent_events_landed": 8,
            "event_texts_landed": 8,
        }
        assert done.oldest == {"sessions": OLD, "events": NEW, "texts": NEW}
        assert workplace.lake.read(AGENT_EVENTS, [OLD]).height == 0
        for old, new in zip(before, figures(workplace), strict=True):
            assert old.equals(new)
        assert "EVAL_KEEP_EVENTS_DAYS" in refusal(workplace)
        built = Build(workplace.stores, clock=lambda: NOW).run([NEW])
        assert not [
            result for result in built if isinstance(result, DateFailed)
        ]  # the books balance


def test_texts_that_come_after_the_events_expired_do_not_bring_the_events_back(
    tmp_path: Path,
) -> None:
    with open_workplace(tmp_path) as workplace:
        in_turn: tuple[Expired, ...] = ("events", "texts")
        for what in in_turn:
            with writing(workplace.ledger.engine) as connection:
                expire_ledger_rows(connection, OLD, what, NOW)
        assert expired_dates(workplace.ledger) == {OLD: "events"}
        with writing(workplace.ledger.engine) as connection:
            expire_ledger_rows(connection, NEW, "texts", NOW)
            expire_ledger_rows(connection, NEW, "events", NOW)
        assert expired_dates(workplace.ledger) == {OLD: "events", NEW: "events"}


def test_everything_of_a_date_goes(tmp_path: Path) -> None:
    with opened(tmp_path, keep_sessions_days=30, keep_texts_days=1) as workplace:
        # Of a version that had another table.
        part = NewPart("removed_table", OLD, "removed_table/1.parquet", 0, 0, "")
        Manifest(workplace.ledger).switch([part], NOW)
        done = expire(workplace)
        assert done.dates == {"sessions": [OLD]}
        assert {table.session_date for table in Manifest(workplace.ledger).all_tables()} == {NEW}
        assert [row.session_date for row in RebuildQueue(workplace.ledger).all()] == [NEW]
        built = Build(workplace.stores, clock=lambda: NOW).run([NEW])
        assert not [result for result in built if isinstance(result, DateFailed)]


def test_nothing_expires_unless_it_is_set(tmp_path: Path) -> None:
    with opened(tmp_path) as workplace:
        assert expire(workplace).dates == {}


def test_what_has_expired_can_still_be_forgotten(tmp_path: Path) -> None:
    with opened(tmp_path, keep_events_days=30) as workplace:
        expire(workplace)
        for subject in (Subject("user", EMAIL), Subject("user", USER), Subject("person", EMAIL)):
            assert select(workplace.stores, subject).named_sessions.height == 2
        Forget(workplace.stores, "root", clock=lambda: NOW).run(Subject("person", EMAIL))
        assert workplace.sessions()["session_id"].to_list() == ["sess-of-ben", "new-ben"]


def test_a_date_that_is_being_built_waits_for_the_next_run(tmp_path: Path) -> None:
    with opened(tmp_path, keep_texts_days=30, lock_timeout_seconds=1) as workplace:
        with held(workplace.ledger, f"{BUILD}{OLD}"):
            done = expire(workplace)
        assert done.dates == {}
        assert "is being built" in done.busy[0]
        assert expire(workplace).dates == {"texts": [OLD]}


def test_quarantined_lines_go_by_the_day_on_which_they_were_read(tmp_path: Path) -> None:
    with open_workplace(tmp_path, keep_quarantine_days=30) as workplace:
        workplace.land("a.jsonl", b"{oops\n")
        workplace.ingest()
        assert expire(workplace).rows == {}
        last_day = Expire(workplace.stores, clock=lambda: NOW + timedelta(days=30)).run()
        assert last_day.rows == {}  # the first day that is kept
        later = Expire(workplace.stores, clock=lambda: NOW + timedelta(days=31)).run()
        assert later.rows == {"quarantine": 1}
        assert workplace.quarantined().height == 0


@pytest.mark.parametrize("dry_run", [True, False])
def test_old_landing_files_go_if_they_were_read_and_are_not_open(
    tmp_path: Path, dry_run: bool
) -> None:
    with open_workplace(tmp_path, keep_landing_days=30) as workplace:
        paths = [workplace.land(name, of_ben(name)) for name in ("read.jsonl", "open.jsonl")]
        workplace.ingest()
        paths += [workplace.land(name, of_ben(name)) for name in ("unread.jsonl",)]
        long_ago = (NOW - timedelta(days=31)).timestamp()
        for path in paths:
            os.utime(path, (long_ago, long_ago))
        young = workplace.land("young.jsonl", of_ben("young"))
        with paths[1].open("ab"):
            done = expire(workplace, dry_run=dry_run)
        left = {path.name for path in workplace.landing.root.iterdir()}
        everything = {path.name for path in (*paths, young)}
        if dry_run:
            assert (set(done.files), left) == ({"read.jsonl", "open.jsonl"}, everything)
        else:
            assert (done.files, left) == (["read.jsonl"], everything - {"read.jsonl"})
