"""Reputation in Dagster: requested, computed and checked; only it fails without ClickHouse."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from evaluation_pipelines.defs.automation import LATER_RUN
from evaluation_pipelines.outcomes.table import write_late
from evaluation_pipelines.reputation.submitted import SubmittedEvaluation, SubmittedEvaluations
from evaluation_pipelines.schemas import AGENT_SCORES, REPUTATION_SCORES
from evaluation_pipelines.telemetry.domain.outcome_lines import LateOutcome
from evaluation_pipelines.telemetry.ledger.late_outcomes import OutcomeStore
from evaluation_pipelines_tests.defs.code_location import (
    FIRST_DAY,
    CodeLocation,
    day,
    failure_of,
    session_line,
)

SENSOR = "reputation_sensor"
ASSETS = {"reputation_events", "reputation_scores", "agent_scores"}
GATE = (
    b'{"evaluation_id": "g", "agent_id": "scout", "evaluated_at": "2026-06-01T12:00:00Z", '
    b'"passed": true, "source": "gate"}\n'
)


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> int:
    """The port of a server that is down, with settings that do not wait for it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    monkeypatch.setenv(
        "EVAL_CLICKHOUSE_DSN", f"clickhouse://evaluation:topsecret@127.0.0.1:{port}/default"
    )
    monkeypatch.setenv("EVAL_CLICKHOUSE_PATIENCE_S", "0")
    return port


@contextmanager
def without_pauses() -> Iterator[None]:
    """Retry steps without a delay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dg.RetryPolicy, "calculate_delay", lambda _policy, _attempt: 0.0)
        yield


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, object]:
    (made, *_) = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in made.metadata.items()}


def checks(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {
        evaluation.check_name: evaluation.passed
        for evaluation in result.get_asset_check_evaluations()
    }


def test_dates_with_new_scores_are_requested_and_then_the_scores_of_all(
    location: CodeLocation,
) -> None:
    assert location.requested_counts(SENSOR) == {}
    # A score covers the last 90 days.
    newest = (datetime.now(UTC).date() - FIRST_DAY - timedelta(days=2)).days
    first, last = newest - 2, newest
    location.run_ingest(session_line(first) + session_line(last))
    location.build(first, last)
    assert location.requested_counts(SENSOR)["reputation_events"] == 3

    result = location.materialize_range(first, last, "reputation_events")
    made = result.asset_materializations_for_node("reputation_events")
    # One session on the first of three dates, one on the last.
    rows = {
        materialization.partition: materialization.metadata["dagster/partition_row_count"].value
        for materialization in made
    }
    assert rows == {day(first + n).isoformat(): sessions for n, sessions in enumerate((1, 0, 1))}
    shown = metadata(result, "reputation_events")
    assert "completed | " in str(shown.pop("preview"))
    assert shown == {
        "dagster/partition_row_count": 1,
        "dates of this run": 3,
        "signals of this run": 2,
        "new or changed in this run": 2,
        "taken back in this run": 0,
    }
    assert location.materialized("reputation_events") == [
        day(number) for number in range(first, last + 1)
    ]
    assert checks(result) == {"every_signal_has_its_session": True}
    assert location.requested_assets(SENSOR) == ASSETS - {"reputation_events"}

    scores = location.execute_asset("reputation_scores")
    agents = location.execute_asset("agent_scores")
    assert metadata(scores, "reputation_scores")["dagster/row_count"] == 1
    assert "calibrating | 2 |" in str(metadata(agents, "agent_scores")["preview"])
    # Now the names of the agents are known.
    scores = location.execute_asset("reputation_scores")
    assert "| default |" in str(metadata(scores, "reputation_scores")["preview"])
    assert checks(scores) | checks(agents) == {
        "reputation_is_in_range": True,
        "agent_scores_are_in_range": True,
    }
    lake = location.workplace.lake
    assert lake.read_whole(REPUTATION_SCORES).height == lake.read_whole(AGENT_SCORES).height == 1
    # After a rebuild of one date only that date is requested.
    location.requested_counts(SENSOR)
    location.build(last)
    assert location.requested_counts(SENSOR)["reputation_events"] == 1
    # And after a late outcome, which may be a signal.
    assert "reputation_events" not in location.requested_assets(SENSOR)
    merged = LateOutcome("default", f"s-{first}", "merged", "git", read_at=datetime.now(UTC))
    OutcomeStore(location.workplace.ledger).add([merged])
    write_late(location.workplace.stores)
    location.tick("terminal_builds_sensor")
    assert location.requested_counts(SENSOR)["reputation_events"] == 1


def test_files_of_other_systems_are_loaded_when_they_change_and_bad_lines_warn(
    location: CodeLocation,
) -> None:
    assert location.tick("outside_signals_sensor").run_requests == []
    sent = SubmittedEvaluation("acme", "scout", passed=True)
    SubmittedEvaluations(location.workplace.ledger).add(sent, "ci", datetime.now(UTC))
    (request,) = location.tick("outside_signals_sensor").run_requests or []
    assert str(request.run_key).startswith("submitted ")
    location.workplace.land("evaluations/a.jsonl", GATE + b"<script>\n")
    (request,) = location.tick("outside_signals_sensor").run_requests or []
    (again,) = location.tick("outside_signals_sensor").run_requests or []
    # Dagster starts no second run for the same key.
    assert request.run_key == again.run_key
    assert request.tags.items() >= LATER_RUN.items()

    result = location.execute_asset("external_signals")
    shown = metadata(result, "external_signals")
    assert (shown["accepted lines"], shown["rejected lines"]) == (1, 1)
    assert shown["evaluations that programs submitted"] == 1
    assert "| 2 | 1 | 0 | 1 |" in str(shown["files, those loaded last first"])
    (check,) = result.get_asset_check_evaluations()
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert location.tick("outside_signals_sensor").run_requests == []
    location.workplace.land("evaluations/a.jsonl", GATE, "ab")
    (request,) = location.tick("outside_signals_sensor").run_requests or []
    assert request.run_key != again.run_key


def test_without_clickhouse_only_reputation_fails_and_says_why(
    location: CodeLocation, unreachable: int
) -> None:
    location.run_ingest(session_line(0))
    assert location.build(0).success
    with without_pauses():
        result = location.materialize(0, "reputation_events")
    failure = failure_of(result)
    assert (
        f"ClickHouse at clickhouse://evaluation@127.0.0.1:{unreachable}/default could not be"
        in failure
    )
    assert "topsecret" not in failure
    assert sum(event.is_step_up_for_retry for event in result.all_events) == 3
    assert location.execute_asset("analytics_database").success
    assert location.requested_assets() == set()


def test_a_date_that_failed_without_clickhouse_is_requested_again_within_an_hour(
    location: CodeLocation, unreachable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unreachable
    location.requested_counts(SENSOR, at=datetime(2026, 11, 21, 11, 55, tzinfo=UTC))
    location.run_ingest(session_line(0))
    location.build(0)
    asked = location.requested_counts(SENSOR, at=datetime(2026, 11, 21, 11, 56, tzinfo=UTC))
    assert asked["reputation_events"] == 1
    with without_pauses():
        assert not location.materialize(0, "reputation_events").success
    later = location.requested_counts(SENSOR, at=datetime(2026, 11, 21, 11, 57, tzinfo=UTC))
    assert "reputation_events" not in later
    hour = location.requested_counts(SENSOR, at=datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC))
    assert hour["reputation_events"] == 1

    monkeypatch.delenv("EVAL_CLICKHOUSE_DSN")
    assert location.materialize(0, "reputation_events").success
    hour = location.requested_counts(SENSOR, at=datetime(2026, 11, 21, 13, 0, 30, tzinfo=UTC))
    assert "reputation_events" not in hour
