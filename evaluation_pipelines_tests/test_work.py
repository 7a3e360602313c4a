"""How much work a change is, counted: every machine finds the same. Benchmarks measure times.

Each case runs after some dates of history and after four times as many. Counts may not grow with
the history, except where its case says what each date adds.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import chain
from typing import Any

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
    """Files of the lake that are read and written, bytes written, and statements of the ledger."""

    read: int = 0
    written: int = 0
    bytes_written: int = 0
    statements: int = 0


@dataclass(frozen=True)
class Most(Work):
    """Limits of a case, and what each date of history adds to them."""

    of_date: Work = Work()

    def allows(self, work: Work, dates: int) -> bool:
        """Return whether work after that many dates of history is within the limits."""
        return all(
            getattr(work, name) <= getattr(self, name) + getattr(self.of_date, name) * dates
            for name in ("read", "written", "bytes_written", "statements")
        )


_INGEST = Most(written=2, bytes_written=26_000, statements=36)
_BUILD = Most(read=26, written=9, bytes_written=127_000, statements=138)

MOST = {
    "nothing new: ingest": Most(statements=14),
    "nothing new: build": Most(statements=17),
    "nothing new: step of a service": Most(statements=19),
    "a service starts": Most(statements=40, of_date=Work(read=7)),
    "its first page": Most(statements=14),
    "the page of tools": Most(read=1, statements=16),
    "the page of a session": Most(read=10, statements=48),
    "the page of a session again": Most(read=9, statements=42),
    "the books of a day": Most(read=8, statements=73),
    "the books of a day again": Most(read=2, statements=59),
    # Four statements note that a file has not changed for two seconds, if that is so by now.
    "the page of doctor": Most(read=1, statements=67 + 4, of_date=Work(read=2)),
    "one line: ingest": _INGEST,
    "one line: build": _BUILD,
    "one line: page of sessions": Most(read=5, statements=32),
    "one line: page of tools": Most(read=1, statements=16),
    "one line: publish": Most(
        read=7, written=9, bytes_written=40_000, statements=67, of_date=Work(read=25)
    ),
    "one override": Most(read=2, statements=12),
    "one override: page of sessions": Most(statements=34),
    "one override: build": _BUILD,
    "one override: page of sessions after its build": Most(read=7, statements=36),
    "a new date: ingest": _INGEST,
    "a new date: build": _BUILD,
    "a new date: page of sessions": Most(read=5, statements=36),
    "all dates built again": Most(
        read=28,
        written=9,
        bytes_written=127_000,
        statements=128,
        of_date=Work(read=24, written=9, bytes_written=126_000, statements=41),
    ),
    "a session judged": Most(read=5, statements=78, of_date=Work(read=3, statements=6)),
    "a person forgotten": Most(
        read=53,
        written=9,
        bytes_written=41_000,
        statements=227,
        of_date=Work(read=46, written=8, bytes_written=141_000, statements=45),
    ),
    "a date expired": Most(statements=50),
    "a request received": Most(statements=2),
}
"""Case -> its limits: the work that was found."""


@contextmanager
def counted(workplace: Workplace) -> Iterator[Counter[str]]:
    """Count the work that is done on stores of the workplace meanwhile, by fields of ``Work``."""
    work, engine = Counter[str](), workplace.ledger.engine
    get, put, names = LocalStore.get, LocalStore.put, StoredFiles.names

    def counting_get(store: LocalStore, path: str, *ends: int) -> bytes:
        work["read"] += 1
        return get(store, path, *ends)

    def counting_put(store: LocalStore, path: str, content: bytes, **how: bool) -> None:
        work["written"] += 1
        work["bytes_written"] += len(content)
        put(store, path, content, **how)

    def counting_names(files: StoredFiles) -> Any:  # which DuckDB reads
        work["read"] += len(files.paths)
        return names.__get__(files)

    def count_statement(*_: object) -> None:
        work["statements"] += 1

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalStore, "get", counting_get)
        patched.setattr(LocalStore, "put", counting_put)
        patched.setattr(StoredFiles, "names", property(counting_names))
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
def test_work_is_bounded_whatever_the_history(workplace: Workplace, dates: int) -> None:
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
    assert {name: work for name, work in found.items() if not MOST[name].allows(work, dates)} == {}
