"""How much work a change is, counted: every machine finds the same. Benchmarks measure times.

Each case runs after some dates of history and after four times as many. Counts may not grow with
the history, except where its case says what each date adds.
"""

import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, date, datetime
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from evaluation_pipelines.build import Build
from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.expire import Expire
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.judging.run import RunRequest, judge
from evaluation_pipelines.reporting.publish import refresh_published
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.overrides import HumanVerdict, override
from evaluation_pipelines.scorecards.scorecard_queries import read_session_lookup
from evaluation_pipelines.service.keep_current import CurrentData
from evaluation_pipelines.service.kept import Asked
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.landing import Landing
from evaluation_pipelines.storage.queries import _Statements
from evaluation_pipelines.storage.store import LocalStore, StoredFiles
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import DAY_S, session

FEW, MANY = 3, 12
_BEA = "bea@example.com"
_PRICES = {"judge_input_usd_per_mtok": 1.0, "judge_output_usd_per_mtok": 10.0}


@dataclass(frozen=True)
class Work:
    """Files of the lake that are read and written, rows of the former, bytes of the latter, ...

    Attributes:
        statements: Of the ledger; ``queries`` are those of DuckDB.
        python_rows: Rows of frames that become Python values, which are slow.
        landing_files: Landing files that are opened, each time; ``landing_bytes`` are read.
    """

    read: int = 0
    rows: int = 0
    written: int = 0
    bytes_written: int = 0
    statements: int = 0
    queries: int = 0
    python_rows: int = 0
    landing_files: int = 0
    landing_bytes: int = 0


@dataclass(frozen=True)
class Most(Work):
    """Limits of a case, and what each date of history adds to them."""

    of_date: Work = Work()

    def exceeded(self, work: Work, dates: int) -> list[str]:
        """Return what exceeds the limits after that many dates of history."""
        most = {
            field.name: getattr(self, field.name) + getattr(self.of_date, field.name) * dates
            for field in fields(Work)
        }
        found = asdict(work)
        return [
            f"{found[name]} {name}, not {most[name]}" for name in most if found[name] > most[name]
        ]


_INGEST = Most(written=2, bytes_written=26_000, statements=36)
_BUILD = Most(read=26, written=9, bytes_written=127_000, statements=138, queries=17)

# A date has 3 sessions of 2 events; "one line" adds a session to one, "a new date" has one of 4.
MOST = {
    "nothing new: ingest": Most(statements=8),
    "nothing new: build": Most(statements=15),
    "nothing new: step of a service": Most(statements=9),
    # Sessions and their evaluations twice, performance and books once: 3 * (2 + 2 + 1 + 1).
    "a service starts": Most(statements=40, of_date=Work(read=7, rows=18)),
    # Each session that is listed is a row and a line of the page: 2 * 3.
    "its first page": Most(statements=14, of_date=Work(python_rows=6)),
    "the page of tools": Most(read=1, statements=16),
    # Of its date: events twice; scorecards and evaluations twice, sessions, performance and tool
    # reports once: 2 * 6 + 3 * (2 + 2 + 1 + 1 + 1).
    "the page of a session": Most(read=10, rows=33, statements=48, queries=9, python_rows=9),
    "the page of a session again": Most(read=9, rows=33 - 6, statements=42, python_rows=9 - 1),
    # Events as landed and as built; sessions and evaluations twice, performance and scorecards
    # once: 6 + 6 + 3 * (2 + 2 + 1 + 1). A window and a row of the books for each session: 3 + 3.
    "the books of a day": Most(read=8, rows=30, statements=73, python_rows=6),
    "the books of a day again": Most(read=2, rows=6, statements=59, python_rows=6),
    # Events and sessions of each date: 6 + 3.
    "the page of doctor": Most(read=1, statements=67, python_rows=1, of_date=Work(read=2, rows=9)),
    # Its 869 bytes: the content, its head three times, a time in its first 64 KiB: 5 * 869. Its
    # format, which is in 8 bytes, is asked for three times: 3 * 8.
    "one line: ingest": replace(_INGEST, python_rows=4, landing_files=3, landing_bytes=4_369),
    # 4 sessions. Landed events twice, built ones four times: 8 * (2 + 4). Sessions 8 times,
    # performance and evaluations twice, tool reports once: 4 * (8 + 2 + 2 + 1). Scorecards of
    # before, and of now twice: 3 + 2 * 4. Python: 3, and 10 for each session.
    "one line: build": replace(_BUILD, rows=48 + 52 + 11, python_rows=3 + 10 * 4),
    # Sessions, performance, evaluations and books of the changed date: 4 * 4.
    "one line: page of sessions": Most(
        read=5, rows=16, statements=32, python_rows=2, of_date=Work(python_rows=6)
    ),
    "one line: page of tools": Most(read=1, statements=16),
    # For each session 7 times its own row, 6 of performance, 3 of evaluations, 2 of books, 2
    # events, a scorecard and a tool report: 22.
    "one line: publish": Most(
        read=7,
        rows=22,
        written=9,
        bytes_written=40_000,
        statements=67,
        queries=2,
        python_rows=1,
        of_date=Work(read=25, rows=3 * 22, python_rows=3),
    ),
    # Sessions and scorecards of the date: 3 + 3.
    "one override": Most(read=2, rows=6, statements=12, python_rows=2),
    # As before, and the override twice.
    "one override: page of sessions": Most(
        statements=34, python_rows=2 + 2, of_date=Work(python_rows=6)
    ),
    # As of one line, with 3 sessions: 6 * (2 + 4) + 3 * (8 + 2 + 2 + 1) + 3 * 3.
    "one override: build": replace(_BUILD, rows=36 + 39 + 9, python_rows=3 + 10 * 3),
    # As of one line, with 3 sessions, and their scorecards: 3 * 5.
    "one override: page of sessions after its build": Most(
        read=7, rows=15, statements=36, python_rows=2 + 2, of_date=Work(python_rows=6)
    ),
    # As of one line, with 1,922 bytes; the file before once more, its head and time: 2 * 869 + 16.
    "a new date: ingest": replace(
        _INGEST, python_rows=5, landing_files=4, landing_bytes=9_634 + 1_754
    ),
    # As of one line, with a session, which has texts: 4 * (2 + 4) + 13 + 2 * 1 + 2 * 4. Python: a
    # session, and its 2 more events and 2 calls.
    "a new date: build": replace(_BUILD, rows=24 + 13 + 2 + 8, python_rows=3 + 10 + 4),
    "a new date: page of sessions": Most(
        read=5, rows=4, statements=36, python_rows=4 + 2, of_date=Work(python_rows=6)
    ),
    # As of one override for each date; one more session on the last, and the new date.
    "all dates built again": Most(
        read=28,
        rows=28 + 48,
        written=9,
        bytes_written=127_000,
        statements=128,
        queries=17,
        python_rows=28,
        of_date=Work(
            read=24, rows=84, written=9, bytes_written=126_000, statements=41, python_rows=30
        ),
    ),
    "a session judged": Most(
        read=5,
        rows=14,
        statements=78,
        queries=9,
        python_rows=14,
        of_date=Work(read=3, rows=9, statements=6, python_rows=15),
    ),
    # Each landing file once, and 8 bytes for its format: 869 + 1,922 + 3 * 8, and 36 lines or 9.
    "a person forgotten": Most(
        read=53,
        rows=98,
        written=9,
        bytes_written=41_000,
        statements=227,
        queries=2,
        python_rows=31,
        landing_files=3,
        landing_bytes=2_815,
        of_date=Work(
            read=46,
            rows=112,
            written=8,
            bytes_written=141_000,
            statements=45,
            python_rows=58,
            landing_bytes=2_812,
        ),
    ),
    "a date expired": Most(statements=50),
    "a request received": Most(statements=2),
}
"""Case -> its limits: the work that was found."""


@cache
def lake_file_rows(path: Path) -> int:
    """Rows of a file of the lake, which never changes."""
    return pq.read_metadata(path).num_rows if path.suffix == ".parquet" else 0


class CountedFile(io.FileIO):
    """An open landing file; bytes that are read are counted."""

    def __init__(self, handle: BinaryIO, work: Counter[str]) -> None:
        super().__init__(os.dup(handle.fileno()))
        handle.close()
        self._work = work

    def readinto(self, into: Any) -> Any:
        """Read a piece."""
        size = super().readinto(into)
        self._work["landing_bytes"] += size or 0
        return size

    def readall(self) -> Any:
        """Read the rest."""
        content = super().readall()
        self._work["landing_bytes"] += len(content or b"")
        return content


def python_rows(frame: pl.DataFrame, *_: object) -> dict[str, int]:
    """Count the rows that the program makes Python values of, once if Polars calls itself."""
    caller = sys._getframe(2).f_globals["__name__"]
    return {"python_rows": 0 if caller.startswith("polars") else frame.height}


@contextmanager
def counted(workplace: Workplace) -> Iterator[Counter[str]]:
    """Count the work that is done on stores of the workplace meanwhile, by fields of ``Work``."""
    work, engine = Counter[str](), workplace.ledger.engine
    opened, pread, landing_files = Landing.open, os.pread, list[CountedFile]()

    def counting(
        method: Callable[..., Any], count: Callable[..., dict[str, int]]
    ) -> Callable[..., Any]:
        def counted_method(*arguments: Any, **options: Any) -> Any:
            work.update(count(*arguments))
            return method(*arguments, **options)

        return counted_method

    def count_read(files: StoredFiles) -> dict[str, int]:  # which DuckDB reads
        found = [lake_file_rows(Path(files.store.where(path))) for path in files.paths]
        return {"read": len(found), "rows": sum(found)}

    def counting_open(landing: Landing, *which: Any) -> Any:
        landing_files.append(CountedFile(opened(landing, *which), work))
        work["landing_files"] += 1
        return io.BufferedReader(landing_files[-1])

    def counting_pread(descriptor: int, *which: int) -> bytes:
        content = pread(descriptor, *which)
        if any(not file.closed and file.fileno() == descriptor for file in landing_files):
            work["landing_bytes"] += len(content)
        return content

    def count_statement(*_: object) -> None:
        work["statements"] += 1

    counters: list[tuple[type, str, Callable[..., dict[str, int]]]] = [
        (LocalStore, "get", lambda store, path, *_: count_read(StoredFiles(store, [path]))),
        (LocalStore, "put", lambda _, __, content: {"written": 1, "bytes_written": len(content)}),
        *((_Statements, name, lambda *_: {"queries": 1}) for name in ("create", "rows")),
        *((pl.DataFrame, name, python_rows) for name in ("iter_rows", "rows", "to_dicts")),
    ]
    with pytest.MonkeyPatch.context() as patched:
        for owner, name, count in counters:
            patched.setattr(owner, name, counting(getattr(owner, name), count))
        names = counting(StoredFiles.names.__get__, count_read)
        patched.setattr(StoredFiles, "names", property(names))
        patched.setattr(Landing, "open", counting_open)
        patched.setattr(os, "pread", counting_pread)
        sa.event.listen(engine, "before_cursor_execute", count_statement)
        try:
            yield work
        finally:
            sa.event.remove(engine, "before_cursor_execute", count_statement)


def steps(workplace: Workplace, dates: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the cases in their order."""
    pages = Service(workplace)
    browser, kept = pages.browser(), pages.app.state.kept

    def visit(path: str) -> None:
        assert browser.get(path).status_code == 200

    def land(name: str, second: int) -> None:
        workplace.land(f"{name}.jsonl", session(name, second))

    def score() -> None:
        target = read_session_lookup(workplace.stores, ["s0-0#baseline-1"])
        found = target.find(SessionName("s0-0#baseline-1"))
        override(workplace.stores, found, HumanVerdict(30, "Ann", "it guessed"), "person", NOW)

    def start() -> None:
        kept.warm(NOW)
        kept.comparisons.get(Asked(), NOW, 60.0)  # computed by another thread

    stores, publish = workplace.stores, partial(refresh_published, workplace.stores, NOW)
    see_sessions, see_tools = partial(visit, "/sessions"), partial(visit, "/tools")
    see_session = partial(visit, "/sessions/s0-0%23baseline-1")
    see_books = partial(visit, "/operations/books/2026-06-01")
    doctor = Service(workplace, datetime(2026, 6, 3, tzinfo=UTC)).browser()
    see_doctor = partial(doctor.get, "/operations/doctor")
    see_doctor()  # keeps the sessions
    publish()
    yield "nothing new: ingest", workplace.ingest
    yield "nothing new: build", workplace.build
    service = CurrentData(stores, lambda: NOW)
    service.step()
    yield "nothing new: step of a service", service.step
    yield "a service starts", start
    yield "its first page", see_sessions
    yield "the page of tools", see_tools
    yield "the page of a session", see_session
    yield "the page of a session again", see_session
    yield "the books of a day", see_books
    yield "the books of a day again", see_books
    yield "the page of doctor", see_doctor
    land("more", (dates - 1) * DAY_S + 3600)
    yield "one line: ingest", workplace.ingest
    yield "one line: build", workplace.build
    yield "one line: page of sessions", see_sessions
    yield "one line: page of tools", see_tools
    yield "one line: publish", publish
    yield "one override", score
    yield "one override: page of sessions", see_sessions
    yield "one override: build", workplace.build
    yield "one override: page of sessions after its build", see_sessions
    workplace.land("next.jsonl", session_with_texts("next", dates * DAY_S))
    yield "a new date: ingest", workplace.ingest
    yield "a new date: build", workplace.build
    yield "a new date: page of sessions", see_sessions


def rare_steps(workplace: Workplace) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the cases of a night, of an erasure and of the receiver."""
    stores, days = workplace.stores, workplace.stores.lake.partitions(AGENT_SESSIONS)

    def having(**settings: object) -> Stores:
        return replace(stores, settings=stores.settings.model_copy(update=settings))

    def judged(url: str) -> None:
        by = having(openai_base_url=url, judge_model="judge-1", **_PRICES)
        assert len(judge(by, RunRequest("Ann"), days, clock=lambda: NOW).totals) == 1

    def expire() -> None:
        first_kept = (NOW.date() - date(2026, 6, 2)).days
        done = Expire(having(keep_sessions_days=first_kept), clock=lambda: NOW).run()
        assert done.dates["sessions"] == [date(2026, 6, 1)]

    def receive() -> None:
        how = {"Content-Type": "application/json"}
        answer = Service(workplace).client().post("/v1/logs", content=session("new"), headers=how)
        assert answer.status_code == 200

    yield "all dates built again", partial(Build(stores, clock=lambda: NOW).run, days)
    with open_judge_endpoint() as endpoint:
        yield "a session judged", partial(judged, endpoint.base_url)
        assert len(endpoint.requests) == 2  # the score, and the missing tools
    forget = Forget(stores, "Ann", clock=lambda: NOW)
    yield "a person forgotten", partial(forget.run, Subject("user", _BEA))
    yield "a date expired", expire
    yield "a request received", receive


@pytest.mark.parametrize("dates", [FEW, MANY])
def test_work_is_bounded_whatever_the_history(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, dates: int
) -> None:
    # Files are looked at again two seconds after their last change: here at once, on any machine.
    monkeypatch.setattr("evaluation_pipelines.storage.landing._SETTLED_NS", 0)
    of_dates = ((day, number) for day in range(dates) for number in range(3))
    users = ("ann@example.com", _BEA, "ann@example.com")
    lines = (
        session(f"s{day}-{number}", day * DAY_S + number * 60, user__email=users[number])
        for day, number in of_dates
    )
    workplace.land("logs.jsonl", b"".join(lines))
    workplace.ingest()
    workplace.build()
    found = dict[str, Work]()
    for name, step in chain(steps(workplace, dates), rare_steps(workplace)):
        with counted(workplace) as work:
            step()
        found[name] = Work(**work)
    assert list(found) == list(MOST)
    assert {
        name: more for name, work in found.items() if (more := MOST[name].exceeded(work, dates))
    } == {}
