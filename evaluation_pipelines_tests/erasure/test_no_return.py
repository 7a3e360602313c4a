"""What was forgotten does not come back; what is new is not forgotten."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest

from evaluation_pipelines.build import Build
from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.storage.store import SecretKeyError
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines.telemetry.quarantine.retry import Retry
from evaluation_pipelines_tests.erasure.two_people import (
    EMAIL,
    fill_fresh,
    found,
    of_ada,
    of_ben,
    two_people,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, NOON_NS
from evaluation_pipelines_tests.world.lake_files import root_of

ADA = Subject("person", EMAIL)


def forget(workplace: Workplace) -> None:
    Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW).run(ADA)


def in_lake(workplace: Workplace) -> set[str]:
    """Landed sessions."""
    return set(workplace.landed()["session_id"])


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    with open_workplace(tmp_path) as opened:
        fill_fresh(opened, two_people())
        yield opened


def test_the_same_telemetry_in_another_file_is_left_out(workplace: Workplace) -> None:
    forget(workplace)
    (workplace.landing.root / "logs.jsonl").unlink()
    # With a session of before that the lake never had: known by its ids and its time.
    workplace.land("copy.jsonl", of_ben("new", 60) + two_people() + of_ada("unread", -DAY_S))

    counts = workplace.ingest().counts

    assert (counts.events, counts.forgotten) == (8, 12)
    assert in_lake(workplace) == {"sess-of-ben", "new"}
    workplace.build()
    assert set(workplace.sessions()["session_id"]) == {"sess-of-ben", "new"}
    # Found out by its ids, the session stays out by its own id alone.
    assert workplace.ingest().counts.lines == 0


def test_what_a_person_does_afterwards_is_new(workplace: Workplace) -> None:
    forget(workplace)
    later_s = (NOW - datetime.fromtimestamp(NOON_NS / 1e9, NOW.tzinfo)) / timedelta(seconds=1)
    workplace.land("later.jsonl", of_ada("anew", later_s + DAY_S))

    Ingest(workplace.stores, lambda: NOW + timedelta(days=2)).run()

    assert "anew" in in_lake(workplace)


def test_without_its_key_nothing_is_read(workplace: Workplace) -> None:
    forget(workplace)
    workplace.settings.forgotten_key_path.unlink()
    workplace.land("more.jsonl", of_ben("new", 60))

    with pytest.raises(SecretKeyError, match=r"forgotten\.key.*is missing"):
        workplace.ingest()
    assert in_lake(workplace) == {"sess-of-ben"}


def test_the_key_is_private(workplace: Workplace) -> None:
    forget(workplace)
    assert workplace.settings.forgotten_key_path.stat().st_mode & 0o777 == 0o600


def test_a_quarantined_line_that_is_read_later_is_left_out(tmp_path: Path) -> None:
    with open_workplace(tmp_path, max_attributes=5) as strict:
        strict.land("logs.jsonl", of_ada() + of_ben())
        strict.ingest()
        unread = strict.quarantined().height
    with open_workplace(tmp_path) as workplace:
        workplace.land("more.jsonl", of_ada("first"))
        workplace.ingest()
        Forget(workplace.stores, "root", clock=lambda: NOW).run(ADA)
        Retry(workplace.stores, lambda: NOW).run()
        assert unread > 0
        assert in_lake(workplace) == {"sess-of-ben"}


def test_an_ingest_that_is_about_to_commit_is_refused_and_leaves_it_out(
    workplace: Workplace,
) -> None:
    root = workplace.landing.root.parent
    workplace.land("more.jsonl", of_ada("in-flight", 60) + of_ben("new", 60))
    calls: list[int] = []

    def clock() -> datetime:
        # Parts are written when the time of the commit is asked for.
        written = len(list(root_of(workplace.lake).rglob("agent_events_landed/**/*.parquet")))
        if not calls and written > landed:
            calls.append(written)
            Forget(workplace.stores, "root", rewrite_landing=False, clock=lambda: NOW).run(ADA)
        return NOW

    landed = len(list(root_of(workplace.lake).rglob("agent_events_landed/**/*.parquet")))
    report = Ingest(workplace.stores, clock).run()

    assert calls
    assert (report.counts.events, report.counts.forgotten) == (4, 4)
    workplace.build()
    assert {path.partition("/")[0] for path in found(root)} == {"landing"}
    assert in_lake(workplace) == {"sess-of-ben", "new"}


def test_a_build_that_has_begun_does_not_bring_it_back(workplace: Workplace) -> None:
    root, threads = workplace.landing.root.parent, list[Thread]()

    def clock() -> datetime:
        if not threads:  # the dates are locked, and their landed parts are about to be read
            threads.append(Thread(target=forget, args=[workplace]))
            threads[0].start()
        return NOW

    Build(workplace.stores, clock=clock).run(workplace.lake.partitions(AGENT_SESSIONS))
    threads[0].join(60)

    assert found(root) == {}
    assert set(workplace.sessions()["session_id"]) == {"sess-of-ben"}
