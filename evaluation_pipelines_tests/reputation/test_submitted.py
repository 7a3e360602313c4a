"""Evaluations that programs submit: stored once, in the record at once, in ClickHouse once."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.reputation.domain.signals import Retraction, session_event_id
from evaluation_pipelines.reputation.external_signals import retract_external
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.reputation.submitted import (
    EvaluationConflictError,
    EvaluationError,
    SubmittedEvaluation,
    SubmittedEvaluations,
    agent_windows,
    counted,
    load_submitted,
    reputation_record,
    with_submitted,
)
from evaluation_pipelines.reputation.updates import export_agent_ratings
from evaluation_pipelines.schemas import AGENT_WINDOWS
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines_tests.workplace import NOW, Workplace

LATER = NOW + timedelta(minutes=5)
SENT = SubmittedEvaluation("acme", "scout", passed=True, evaluation_id="run-1", latency_ms=40.0)


def submit(workplace: Workplace, number: int, **changes: object) -> None:
    submitted = SubmittedEvaluations(workplace.ledger)
    for index in range(number):
        sent = SubmittedEvaluation("acme", "scout", passed=True, evaluation_id=f"run-{index}")
        submitted.add(replace(sent, **changes), "ci", NOW)  # type: ignore[arg-type]


def test_the_same_evaluation_again_changes_nothing(ledger: Ledger) -> None:
    submitted = SubmittedEvaluations(ledger)
    first = submitted.add(SENT, "ci", NOW)
    assert submitted.add(SENT, "other", LATER) == first
    timed = replace(SENT, evaluated_at=NOW, source="rest")
    assert submitted.add(timed, "other", LATER) == first


@pytest.mark.parametrize(
    "change", [{"passed": False}, {"latency_ms": 41.0}, {"model": "m"}, {"evaluated_at": LATER}]
)
def test_other_content_under_its_id_is_a_conflict(
    ledger: Ledger, change: dict[str, object]
) -> None:
    submitted = SubmittedEvaluations(ledger)
    first = submitted.add(SENT, "ci", NOW)
    with pytest.raises(EvaluationConflictError, match="another evaluation run-1"):
        submitted.add(replace(SENT, **change), "ci", LATER)  # type: ignore[arg-type]
    assert submitted.add(SENT, "ci", LATER) == first


def test_an_id_belongs_to_one_agent_of_one_organization(ledger: Ledger) -> None:
    submitted = SubmittedEvaluations(ledger)
    for other in (SENT, replace(SENT, organization_id="b"), replace(SENT, agent_id="c")):
        submitted.add(replace(other, passed=other is SENT), "ci", NOW)
    assert submitted.newest("acme", "scout", NOW).height == 1
    assert submitted.waiting() == 3


def test_they_are_loaded_in_parts_and_again_into_a_new_clickhouse(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation_pipelines.reputation.submitted._ROWS_AT_A_TIME", 2)
    submitted = SubmittedEvaluations(ledger)
    for number in range(5):
        submitted.add(replace(SENT, evaluation_id=f"run-{number}"), "ci", NOW)
    parts = list(submitted.to_load(NOW))
    assert [[row["evaluation_id"] for row in rows] for rows in parts] == [
        ["run-0", "run-1"],
        ["run-2", "run-3"],
        ["run-4"],
    ]
    for rows in parts[:2]:
        submitted.mark_loaded(rows, NOW)
    assert [len(rows) for rows in submitted.to_load(NOW)] == [1]
    assert [len(rows) for rows in submitted.to_load(LATER)] == [2, 2, 1]


def test_without_an_id_each_is_a_new_one(ledger: Ledger) -> None:
    submitted, sent = SubmittedEvaluations(ledger), replace(SENT, evaluation_id=None)
    assert submitted.add(sent, "ci", NOW) != submitted.add(sent, "ci", NOW)


def test_the_record_is_the_same_before_and_after_a_refresh(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    submit(workplace, 50, latency_ms=40.0)
    before = reputation_record(workplace.stores, "acme", "scout", NOW)
    # 400 * 1 + 250 * (1 - 40/100) + 200 * 50/50 + 150 * 50/500 = 400 + 150 + 200 + 15 = 765.
    assert (before["score"], before["avg_latency_ms"]) == (765, 40)

    assert load_submitted(workplace.stores, reputation_store, NOW) == 50
    assert load_submitted(workplace.stores, reputation_store, NOW) == 0
    assert SubmittedEvaluations(workplace.ledger).waiting() == 0
    (exported,) = export_agent_ratings(workplace.stores, reputation_store, NOW).to_dicts()
    assert (exported["score"], exported["evaluations_in_all"]) == (765, 50)
    assert reputation_record(workplace.stores, "acme", "scout", NOW) == before
    # The agent of another organization with this name is another agent.
    other = reputation_record(workplace.stores, "other", "scout", NOW)
    assert (other["lifecycle"], other["eval_count"]) == ("new", 0)


def test_a_kill_before_they_are_marked_loads_them_again_and_none_counts_twice(
    workplace: Workplace, reputation_store: ReputationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(workplace, 3)
    with monkeypatch.context() as patched:
        patched.setattr(SubmittedEvaluations, "mark_loaded", _killed)
        with pytest.raises(KeyboardInterrupt):
            load_submitted(workplace.stores, reputation_store, NOW)
    assert load_submitted(workplace.stores, reputation_store, LATER) == 3
    assert reputation_store.evaluations(LATER)["evaluations_in_all"].to_list() == [3, 3, 3]


def test_one_that_was_taken_back_counts_nowhere(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    submit(workplace, 3)
    retraction = Retraction("run-1", ("acme", "scout"))
    retract_external(workplace.stores, reputation_store, "evaluations", retraction, NOW)
    assert reputation_record(workplace.stores, "acme", "scout", NOW)["eval_count"] == 2
    load_submitted(workplace.stores, reputation_store, LATER)
    assert reputation_store.evaluations(LATER).height == 2


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


AGENT = ("acme", "scout")


def window(first: int, last: int, in_all: int | None = None) -> pl.DataFrame:
    """Return evaluations with these numbers, a minute apart, all passed without a latency."""
    rows = [
        {
            "organization_id": "acme",
            "agent_id": "scout",
            "evaluation_id": f"e{number:04}",
            "evaluated_at": NOW - timedelta(days=1) + timedelta(minutes=number),
            "passed": True,
            "latency_budget_ms": 100.0,
            "evaluations_in_all": in_all,
        }
        for number in range(first, last)
    ]
    return pl.DataFrame(rows, schema=AGENT_WINDOWS.schema)


NONE = window(0, 0)


def record(workplace: Workplace, exported: pl.DataFrame, submitted: pl.DataFrame) -> dict[str, Any]:
    workplace.lake.write_whole(exported, AGENT_WINDOWS)
    for row in submitted.drop("evaluations_in_all").iter_rows(named=True):
        SubmittedEvaluations(workplace.ledger).add(SubmittedEvaluation(**row), "ci", NOW)
    return reputation_record(workplace.stores, *AGENT, NOW)


@pytest.mark.parametrize(
    ("exported", "submitted", "score", "lifecycle", "number", "progress"),
    [
        (NONE, NONE, None, "new", 0, "0/50"),
        (window(0, 40, 40), window(35, 48), None, "calibrating", 48, "48/50"),
        # 400 * 1 + 250 * 0 (no latency) + 200 * 50/50 + 150 * 50/500 = 615.
        (window(0, 49, 49), window(49, 50), 615, "active", 50, None),
        # 499 of 500 passed, streak 0: floor(400 * 0.998 + 0 + 0 + 150) = 549.
        (
            *(window(0, 500, 500), window(500, 501).with_columns(passed=False)),
            *(549, "mature", 500, None),
        ),
    ],
)
def test_the_newest_500_count_whichever_side_they_are_from(
    workplace: Workplace,
    exported: pl.DataFrame,
    submitted: pl.DataFrame,
    score: int | None,
    lifecycle: str,
    number: int,
    progress: str | None,
) -> None:
    found = record(workplace, exported, submitted)
    assert (found["score"], found["lifecycle"]) == (score, lifecycle)
    assert (found["eval_count"], found["progress"]) == (number, progress)
    assert score != 549 or found["streak"] == 0


def test_an_old_evaluation_that_left_the_window_changes_nothing(workplace: Workplace) -> None:
    expected = record(workplace, window(100, 600, 600), NONE)
    assert record(workplace, window(100, 600, 600), window(0, 50)) == expected


def test_each_agent_has_its_own_window_and_numbers() -> None:
    other = pl.lit("other").alias("agent_id")
    exported = pl.concat([window(0, 3, 3).with_columns(other), window(0, 500, 700)])
    submitted = pl.concat([window(499, 502), window(2, 5).with_columns(other)])
    found = counted(with_submitted(exported, submitted), ())
    counts = found.group_by("agent_id").agg(
        pl.len(), pl.col("evaluation_id").min(), pl.col("evaluations_in_all").unique()
    )
    # scout: e0000 to e0501 are 502, the newest 500 begin with e0002, two are new. other: e0000 to
    # e0004, of which two are new.
    assert {name: more for name, *more in counts.rows()} == {
        "scout": [500, "e0002", [702]],
        "other": [5, "e0000", [5]],
    }


def test_sessions_that_await_review_are_not_counted() -> None:
    ids = [str(session_event_id("acme", key)) for key in ("a#baseline-1", "b#baseline-1")]
    windows = window(0, 5, 9).with_columns(
        evaluation_id=pl.Series([ids[0], "e1", ids[1], "e3", "e4"])
    )
    found = counted(windows, {("acme", "a#baseline-1"), ("acme", "unknown#baseline-1")})
    assert found["evaluation_id"].to_list() == ["e1", ids[1], "e3", "e4"]
    assert found["evaluations_in_all"].unique().to_list() == [9 - 1]


def test_500_remain_without_the_sessions_that_await_review() -> None:
    waits = str(session_event_id("acme", "a#baseline-1"))
    is_it = pl.col("evaluation_id") == "e0250"
    name = pl.when(is_it).then(pl.lit(waits)).otherwise("evaluation_id").alias("evaluation_id")
    windows = with_submitted(window(0, 500, 500).with_columns(name), window(500, 503))
    found = counted(windows, {("acme", "a#baseline-1")})
    # Of 503 one waits. The newest 500 of the other 502 begin with e0002.
    assert (found.height, found["evaluation_id"][0]) == (500, "e0002")
    assert found["evaluations_in_all"].unique().to_list() == [502]


def test_for_no_agents_nothing_is_read(workplace: Workplace) -> None:
    workplace.lake.write_whole(window(0, 3, 3), AGENT_WINDOWS)
    (part,) = workplace.lake.parts(AGENT_WINDOWS)
    workplace.lake.store.delete(part.path)
    assert agent_windows(workplace.stores, [], NOW).equals(NONE)


def test_what_was_left_out_has_defaults() -> None:
    row = SubmittedEvaluation(*AGENT, passed=True).completed("new-id", NOW)
    assert (row["evaluation_id"], row["evaluated_at"], row["source"]) == ("new-id", NOW, "rest")
    assert (row["latency_budget_ms"], row["latency_ms"], row["model"]) == (100.0, None, None)


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (SubmittedEvaluation("acme", "", passed=True), "agent_id"),
        (SubmittedEvaluation("acme", "a\0b", passed=True), "agent_id"),
        (SubmittedEvaluation("acme", "a", passed=True, evaluation_id="x" * 1025), "evaluation_id"),
        (
            SubmittedEvaluation("acme", "a", passed=True, evaluated_at=NOW + timedelta(days=400)),
            "evaluated_at",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(sent: SubmittedEvaluation, problem: str) -> None:
    with pytest.raises(EvaluationError, match=problem):
        sent.completed("id", NOW)
