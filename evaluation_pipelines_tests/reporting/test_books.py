"""The books of a day: they balance, list unattributed records, and find what was lost."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from pathlib import Path

import polars as pl
import pytest
import sqlalchemy as sa

from evaluation_pipelines.build import Build, DateBuilt, DateFailed
from evaluation_pipelines.reporting.books import settled_books
from evaluation_pipelines.reporting.domain.books import DayBooks
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_EVENTS_LANDED,
    AGENT_SESSIONS,
    EVALUATION_BOOKS,
    SCORECARDS,
    SESSION_EVALUATIONS,
    SESSION_PERFORMANCE,
    Table,
)
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.ledger.tables.telemetry import PART_ORIGINS, PARTS
from evaluation_pipelines.storage.lock import BUILD, held
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line, session
from evaluation_pipelines_tests.world.built_before import build_from
from evaluation_pipelines_tests.world.lake_files import rewrite

DAY = date(2026, 6, 1)


@pytest.fixture
def built(workplace: Workplace) -> Workplace:
    """Two sessions of two events each."""
    build_from(workplace, session("s1") + session("s2", 60))
    return workplace


def books(workplace: Workplace, day: date = DAY, now: datetime = NOW) -> DayBooks:
    return settled_books(workplace.stores, day, now)


def told(found: DayBooks) -> dict[str, str]:
    return {equation.name: str(equation) for equation in found.equations}


def broken(workplace: Workplace) -> dict[str, str]:
    found = books(workplace)
    assert found.is_balanced == all(equation.is_balanced for equation in found.equations)
    return {
        equation.name: str(equation) for equation in found.equations if not equation.is_balanced
    }


def unattributed(found: DayBooks) -> dict[str, int]:
    return {event.what: event.number for event in found.unattributed}


def without_one_of(table: Table) -> Callable[[Workplace], None]:
    """Return a function that takes the first row out of the only file of a table."""
    return lambda workplace: rewrite(workplace.stores, table, lambda rows: rows[1:])


def without_a_part_in_the_manifest(workplace: Workplace) -> None:
    landed = PARTS.c.table_name == AGENT_EVENTS_LANDED.name
    of_landed = PART_ORIGINS.c.part_id.in_(sa.select(PARTS.c.part_id).where(landed))
    with workplace.ledger.engine.begin() as connection:
        connection.execute(sa.delete(PART_ORIGINS).where(of_landed))
        connection.execute(sa.delete(PARTS).where(landed))


def with_an_event_from_nowhere(workplace: Workplace) -> None:
    alien = pl.lit(b"sixteen bytes ...")
    rewrite(
        workplace.stores,
        AGENT_EVENTS,
        lambda events: pl.concat([events, events[:1].with_columns(event_id=alien)]),
    )


def with_a_score_without_session(workplace: Workplace) -> None:
    stray = {"session_key": pl.lit("s9#baseline-1"), "card_id": None}
    rewrite(
        workplace.stores,
        SESSION_EVALUATIONS,
        lambda rows: pl.concat([rows, rows[:1].with_columns(**stray)]),
    )


def test_a_day_balances_with_what_was_sent_twice_and_what_belongs_to_no_session(
    built: Workplace,
) -> None:
    built.land("again.jsonl", session("s1"))
    built.land("odd.jsonl", line(claude("user_prompt", 5, session__id="")) + b"{\n")
    built.ingest()
    built.build()

    found = books(built)
    assert found.is_balanced
    # Two sessions of two events, and the two of s1 once more.
    assert told(found)["every_event_is_kept_once"] == (
        "6 events filed under the day = 4 kept + 2 duplicates"
    )
    assert told(found)["every_session_is_in_one_state"].endswith("= 2 scored by profile")
    # They name no day of their own: they stand under the day on which they were read.
    read_on = unattributed(books(built, NOW.date()))
    assert read_on["events without a session"] == 1
    assert read_on["lines or records in quarantine"] == 1
    assert unattributed(found)["events without a session"] == 0
    stored = built.lake.read(EVALUATION_BOOKS, [DAY])
    assert stored.equals(found.sessions)


def test_a_masque_of_a_session_that_never_came_is_counted(built: Workplace) -> None:
    at = datetime.combine(DAY, time(12), UTC).isoformat()
    worn = [{"session_id": name, "masque": "M", "donned_at": at} for name in ("s1", "S1")]
    built.land("m.attribution.jsonl", "\n".join(map(json.dumps, worn)).encode() + b"\n")
    built.ingest()
    built.build()

    (silent,) = (event for event in books(built).unattributed if "masque" in event.what)
    assert (silent.number, silent.note) == (1, "their ids may be misspelled: S1")


def test_events_outside_the_range_of_partitions_balance_and_are_shown(tmp_path: Path) -> None:
    with open_workplace(tmp_path, start_date=date(2026, 6, 1)) as workplace:
        # Noon of May 31st is filed under June 1st; June 2nd is tomorrow as of these books.
        lines = [session("s0", -86_400), session("s1"), session("s2", 86_400)]
        workplace.land("logs.jsonl", b"".join(lines))
        workplace.ingest()
        workplace.build()
        found = books(workplace, now=datetime(2026, 6, 1, 20, tzinfo=UTC))

        assert found.is_balanced
        assert told(found)["every_event_is_filed"] == (
            "6 events read, all days = "
            "4 filed under days from the start date to today + 2 filed under other days"
        )
        assert unattributed(found)["events older than the first partition"] == 2
        assert unattributed(found)["events under days before the start date or after today"] == 2
        notes = [event.note for event in found.unattributed]
        assert any(note.endswith("built by hand only: 2026-06-02") for note in notes)


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (
            without_one_of(AGENT_EVENTS_LANDED),
            {"landed_parts_are_whole", "every_kept_event_has_landed"},
        ),
        (
            without_a_part_in_the_manifest,
            {"every_event_is_filed", "every_event_is_kept_once", "every_kept_event_has_landed"},
        ),
        (without_one_of(AGENT_EVENTS), {"every_event_is_kept_once"}),
        (
            with_an_event_from_nowhere,
            {"every_event_is_kept_once", "every_kept_event_has_landed"},
        ),
        (
            without_one_of(AGENT_SESSIONS),
            {"every_session_has_a_window", "every_score_has_its_session"},
        ),
        (without_one_of(SESSION_PERFORMANCE), {"every_window_has_its_performance"}),
        (without_one_of(SESSION_EVALUATIONS), {"every_session_is_in_one_state"}),
        (with_a_score_without_session, {"every_score_has_its_session"}),
        (without_one_of(SCORECARDS), {"every_card_is_there"}),
    ],
)
def test_whatever_is_lost_or_invented_breaks_the_books_and_is_named(
    built: Workplace, spoil: Callable[[Workplace], None], names: set[str]
) -> None:
    assert broken(built) == {}
    spoil(built)
    assert broken(built).keys() == names


def test_unbalanced_books_are_not_written_and_hold_no_date_back(built: Workplace) -> None:
    before = built.lake.read(EVALUATION_BOOKS, [DAY])
    without_one_of(SESSION_EVALUATIONS)(built)
    (failed,) = Build(built.stores, [EVALUATION_BOOKS.name], clock=lambda: NOW).run([DAY])

    assert isinstance(failed, DateFailed)
    assert "books_balance" in failed.error
    assert "every_session_is_in_one_state: 2 session windows" in failed.error
    assert failed.broken is not None
    (rule,) = (check for check in failed.broken.checks if check.rule == "books_balance")
    assert rule.examples == ("every_session_is_in_one_state: default, s1#baseline-1",)
    assert built.lake.read(EVALUATION_BOOKS, [DAY]).equals(before)
    touched = RebuildQueue(built.ledger).get(DAY)
    assert touched is not None
    assert (touched.is_built, touched.attempts, touched.last_error) == (True, 0, None)


def test_what_has_landed_and_is_not_built_yet_waits_and_is_shown(built: Workplace) -> None:
    built.land("logs.jsonl", session("s3", 120), "ab")
    built.ingest()

    found = books(built)
    assert (found.is_balanced, found.waits) == (True, "due to be built")
    assert told(found)["every_event_is_kept_once"].endswith(
        "= 4 kept + 2 waiting for the day's build"
    )
    (made,) = built.build()
    assert isinstance(made, DateBuilt)
    assert (made.rows["evaluation_books"], books(built).waits) == (3, None)


def test_a_date_that_was_given_up_does_not_balance(built: Workplace) -> None:
    built.land("logs.jsonl", session("s3", 120), "ab")
    built.ingest()
    touched = RebuildQueue(built.ledger).get(DAY)
    assert touched is not None
    RebuildQueue(built.ledger).mark_failed(DAY, touched.version, "disk full", NOW, max_attempts=1)

    assert broken(built) == {
        "every_event_is_kept_once": "6 events filed under the day, but 4 kept: 2 not accounted for"
    }
    assert books(built).waits == "parked after failed builds: disk full"


def test_a_day_without_any_telemetry_has_empty_books(workplace: Workplace) -> None:
    found = books(workplace)
    assert (found.is_balanced, found.sessions.height, found.judge_cost_usd) == (True, 0, 0.0)


def test_books_are_not_read_while_somebody_builds_the_day(tmp_path: Path) -> None:
    with open_workplace(tmp_path, lock_timeout_seconds=1) as workplace:
        lock = held(workplace.ledger, f"{BUILD}{DAY}")
        with lock, pytest.raises(LakeError, match="2026-06-01 is being built"):
            books(workplace)
