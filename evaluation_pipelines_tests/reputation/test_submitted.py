"""Evaluations that programs submit: stored once, in the record at once, in ClickHouse once."""

from dataclasses import replace
from datetime import timedelta

import pytest

from evaluation_pipelines.reputation.domain.signals import Retraction
from evaluation_pipelines.reputation.external_signals import retract_external
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.reputation.submitted import (
    EvaluationConflictError,
    SubmittedEvaluation,
    SubmittedEvaluations,
    load_submitted,
    reputation_record,
)
from evaluation_pipelines.reputation.updates import export_agent_ratings
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
