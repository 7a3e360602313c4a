from datetime import timedelta

import pytest

from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.telemetry.domain.organizations import ANY_ORGANIZATION
from evaluation_pipelines.telemetry.domain.subagents import SessionStart
from evaluation_pipelines.telemetry.ledger.ingest_batches import (
    SessionDateTakenError,
    SessionIndex,
    SourceFiles,
)
from evaluation_pipelines_tests.storage.ledger.ledger_builders import (
    MARCH_1,
    MARCH_2,
    add_file,
    batch,
    commit,
    new_part,
    session,
)


def store(ledger: Ledger, *sessions: SessionStart) -> None:
    add_file(ledger)
    position = SourceFiles(ledger).get("f1").position
    commit(ledger, batch(position, position + 1, sessions=sessions))


def test_sessions_are_found_by_organization_and_id(ledger: Ledger) -> None:
    store(ledger, session("1"), session("1", MARCH_2, "beta"), session("s2", MARCH_2))

    keys = [("acme", "1"), ("beta", "1"), ("beta", "s2"), ("acme", "s3")]
    assert SessionIndex(ledger).session_dates(keys) == {
        ("acme", "1"): MARCH_1,
        ("beta", "1"): MARCH_2,
    }


def test_sessions_are_found_by_id_alone_in_all_organizations(ledger: Ledger) -> None:
    store(
        ledger,
        session("1", MARCH_2, "beta"),
        session("1", MARCH_1, "acme"),
        session("s2", MARCH_2, ANY_ORGANIZATION),
        session("s3"),
    )

    assert SessionIndex(ledger).dates_by_session_id(["1", "s2", "s4"]) == {
        "1": [("acme", MARCH_1), ("beta", MARCH_2)],
        "s2": [("*", MARCH_2)],
    }


def test_an_empty_query_has_an_empty_result(ledger: Ledger) -> None:
    assert SessionIndex(ledger).session_dates([]) == {}
    assert SessionIndex(ledger).dates_by_session_id([]) == {}


@pytest.mark.slow
def test_thousands_of_sessions_are_looked_up_in_one_call(ledger: Ledger) -> None:
    days = {f"s{n}": MARCH_1 + timedelta(days=n % 7) for n in range(40_000)}
    store(ledger, *(session(session_id, day) for session_id, day in days.items()))

    asked = [("acme", f"s{n}") for n in range(-1, 40_000)]
    assert SessionIndex(ledger).session_dates(asked) == {
        ("acme", key): d for key, d in days.items()
    }


def test_a_session_that_is_known_keeps_its_first_event(ledger: Ledger) -> None:
    store(ledger, session("s1"))
    store(ledger, session("s1"), session("s2"))

    assert len(SessionIndex(ledger).session_dates([("acme", "s1"), ("acme", "s2")])) == 2


def test_a_session_that_another_reader_dated_differently_stops_the_batch(ledger: Ledger) -> None:
    store(ledger, session("s1", MARCH_1))
    add_file(ledger)
    late = batch(1, 50, parts=(new_part("a"),), sessions=(session("s1", MARCH_2),))

    with pytest.raises(SessionDateTakenError, match="2026-03-01, not 2026-03-02"):
        commit(ledger, late)

    assert SourceFiles(ledger).get("f1").position == 1
    assert Manifest(ledger).known_paths(MARCH_1) == set()
    assert SessionIndex(ledger).session_dates([("acme", "s1")]) == {("acme", "s1"): MARCH_1}


def test_another_organization_of_a_session_id_has_its_date(ledger: Ledger) -> None:
    store(ledger, session("s1", MARCH_1))
    with pytest.raises(SessionDateTakenError, match="2026-03-01, not 2026-03-02"):
        store(ledger, session("s1", MARCH_2, "beta"))


def test_session_ids_are_values_and_never_sql(ledger: Ledger) -> None:
    evil = "'; DROP TABLE session_index; --%s:name?"
    store(ledger, session(evil))

    assert SessionIndex(ledger).session_dates([("acme", evil)]) == {("acme", evil): MARCH_1}
