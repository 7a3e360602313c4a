"""Closed books in Dagster: built after a build of a date, shown, and reported if unbalanced."""

import dagster as dg

from evaluation_pipelines.schemas import EVALUATION_BOOKS, SESSION_EVALUATIONS
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    check_texts,
    day,
    failure_of,
    session_line,
)
from evaluation_pipelines_tests.receiver import Receiver
from evaluation_pipelines_tests.world.lake_files import rewrite

BOOKS, SENSOR = EVALUATION_BOOKS.name, "books_sensor"


def test_books_of_changed_dates_are_requested_closed_and_shown(location: CodeLocation) -> None:
    assert location.requested_counts(SENSOR) == {}
    location.run_ingest(session_line(0) + session_line(1) + session_line(1, "t", 60))
    location.build(0, 1)
    assert location.requested_counts(SENSOR) == {BOOKS: 2}

    result = location.materialize_range(0, 1, BOOKS)
    assert result.success
    assert {
        evaluation.check_name: evaluation.passed
        for evaluation in result.get_asset_check_evaluations()
    } == {
        "every_date_was_built": True,
        "keys_are_unique": True,
        "books_balance": True,
    }
    assert location.materialized(BOOKS) == [day(0), day(1)]
    shown = location.metadata(BOOKS, 1)
    assert (shown["dagster/partition_row_count"], shown["sessions scored by profile"]) == (2, 2)
    assert (shown["sessions postponed"], shown["judge_cost_usd"]) == (0, "0.0")
    assert str(shown["sessions by state"]).startswith("![2 scored](data:image/svg+xml;base64,")
    # Two sessions of four events each.
    assert "every\\_event\\_is\\_kept\\_once | events filed under the day | 8 |" in str(
        shown["equations"]
    )
    assert "| scored | 2 | scored by its best available profile" in str(shown["states"])
    assert "events without a session" in str(shown["not part of a session"])
    assert location.requested_counts(SENSOR) == {}
    # Late telemetry of one date: only its books are closed again.
    location.run_ingest(session_line(1, "u", 120))
    location.build(1)
    assert location.requested_counts(SENSOR) == {BOOKS: 1}


def test_a_date_without_telemetry_is_reported_as_empty(location: CodeLocation) -> None:
    location.run_ingest(session_line(1))
    location.build(1)
    for asset in (BOOKS, "judge_scores"):
        result = location.materialize_range(0, 2, asset)
        assert result.success
        assert location.materialized(asset) == [day(0), day(1), day(2)]
        for quiet in (0, 2):
            assert location.metadata(asset, quiet)["dagster/partition_row_count"] == 0
    assert location.workplace.lake.partitions(EVALUATION_BOOKS) == [day(1)]


def test_books_that_do_not_balance_fail_alone_show_why_and_raise_an_alert(
    location: CodeLocation, receiver: Receiver
) -> None:
    location.run_ingest(session_line(0) + session_line(1))
    location.build(0, 1)
    rewrite(location.workplace.stores, SESSION_EVALUATIONS, lambda rows: rows[:0], day(0))

    result = location.materialize_range(0, 1, BOOKS)
    assert not result.success
    problem = "every_session_is_in_one_state: 1 session windows, but 0: 1 not accounted for"
    assert problem in failure_of(result)
    assert location.materialized(BOOKS) == [day(1)]
    check = location.check(BOOKS, "books_balance")
    assert (check.passed, check.severity, check.blocking) == (
        False,
        dg.AssetCheckSeverity.ERROR,
        True,
    )
    texts = check_texts(check)
    assert (texts["date"], texts["found"]) == (str(day(0)), problem)
    assert texts["examples"] == "every_session_is_in_one_state: default, s-0#baseline-1"
    (observed,) = result.get_asset_observation_events()
    observation = observed.asset_observation_data.asset_observation
    assert observation.partition == str(day(0))
    assert "every\\_session\\_is\\_in\\_one\\_state" in str(observation.metadata["equations"].value)
    (text,) = receiver.texts
    assert text.startswith(f"Books of {day(0)} are not complete\n")
    assert problem in text
    # The date itself counts as built.
    queued = RebuildQueue(location.workplace.ledger).get(day(0))
    assert queued is not None
    assert (queued.is_built, queued.attempts) == (True, 0)
