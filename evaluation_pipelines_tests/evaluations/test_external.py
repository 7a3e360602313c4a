"""Evaluations by other programs: genuine events of pydantic-evals and azure-ai-evaluation."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from evaluation_pipelines.reporting.session_view import session_view
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.reputation.updates import bridge_sessions
from evaluation_pipelines.schemas import AGENT_EVENTS
from evaluation_pipelines.sessions.external import external_evaluations
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import DAY_S, NOON_NS, attributes, session

CAPTURES = Path(__file__).parent.parent / "data" / "evaluations"
NOON_OF_CAPTURE = (1_795_953_600 - NOON_NS // 10**9) / DAY_S
"""Days from noon of the builders to 2026-11-29T12:00:00Z."""

CAPTURED = {
    # name -> value, label, passed, evaluator, error
    "IsNonEmpty": (1.0, "pass", True, "IsNonEmpty 2", None),
    "Brevity": (0.88, None, None, "Brevity", None),  # 1 - 12 characters / 100
    "Tone": (None, "friendly", None, "Tone", None),
    "Broken": (None, None, None, "Broken", "ValueError"),
    "f1_score": (2 / 3, "pass", True, None, None),
}


def test_captured_events_are_evaluations_of_the_session_that_they_name(
    workplace: Workplace,
) -> None:
    work = session("chat-7", NOON_OF_CAPTURE * DAY_S, agent__id="helper")
    workplace.land("work.jsonl", work)
    workplace.ingest()
    workplace.build()
    before = workplace.sessions()
    for path in sorted(CAPTURES.iterdir()):
        workplace.land(path.name, path.read_bytes())
    report = workplace.ingest()
    workplace.build()

    assert (report.counts.events, report.counts.unattributed) == (5, 0)
    assert workplace.sessions().equals(before)  # they are no work of the session
    view = session_view(workplace.stores, SessionName("chat-7"), NOW)
    assert {
        evaluation["name"]: tuple(
            evaluation[name] for name in ("value", "label", "passed", "evaluator", "error_type")
        )
        for evaluation in view.external
    } == CAPTURED


def test_they_count_for_the_agent_that_they_name_or_else_that_of_the_session(
    workplace: Workplace, reputation_store: ReputationStore
) -> None:
    workplace.land("work.jsonl", session("chat-7", NOON_OF_CAPTURE * DAY_S, agent__id="helper"))
    for path in CAPTURES.iterdir():
        workplace.land(path.name, path.read_bytes())
    workplace.ingest()
    workplace.build()
    days = workplace.lake.partitions(AGENT_EVENTS)
    for _ in range(2):
        bridge_sessions(workplace.stores, reputation_store, days, NOW)

    ids = external_evaluations(workplace.lake, days)["evaluation_id"]
    found = reputation_store.evaluations(NOW)
    found = found.filter(pl.col("evaluation_id").is_in(ids.implode()))
    assert sorted(found.select("agent_id", "passed").rows()) == [
        ("helper", True),
        ("support-agent", True),
    ]


def evaluation(name: str, trace: str = "", span: str = "", **more: object) -> dict[str, Any]:
    """An evaluation as a library writes it that knows only the span."""
    return {
        "observedTimeUnixNano": str(NOON_NS),
        "eventName": "gen_ai.evaluation.result",
        "traceId": trace,
        "spanId": span,
        "attributes": attributes(
            {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": 1, **more}
        ),
    }


def test_equal_evaluations_of_two_spans_are_two_and_an_agent_alone_is_enough(
    workplace: Workplace,
) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    sent = [
        evaluation("polite", trace, "b7ad6b7169203331"),
        evaluation("polite", trace, "b7ad6b7169203332"),
        evaluation("polite", trace, "b7ad6b7169203332"),  # sent again
        evaluation("polite", **{"gen_ai.agent.id": "helper"}),
        evaluation("polite"),  # names nothing
        evaluation("own", trace, **{"evaluation_pipelines.evaluation.id": "1"}),
    ]
    scopes = [{"scope": {"name": "evals"}, "logRecords": [record]} for record in sent]
    logs = [{"resourceLogs": [{"scopeLogs": [scope]}]} for scope in scopes]
    lines = b"".join(json.dumps(log).encode() + b"\n" for log in logs)
    workplace.land("evaluations.jsonl", lines)
    report = workplace.ingest()
    workplace.build()

    assert report.counts.unattributed == 1
    found = external_evaluations(workplace.lake, workplace.lake.partitions(AGENT_EVENTS))
    assert sorted(found.select("session_id", "agent_id").rows(), key=str) == [
        (f"trace:{trace}", None),
        (f"trace:{trace}", None),
        (None, "helper"),
    ]
    assert workplace.sessions().is_empty()


def test_an_evaluator_in_deep_brackets_breaks_no_reader_and_no_other_organization_reads_it(
    workplace: Workplace,
) -> None:
    deep = evaluation(
        "polite",
        **{"gen_ai.conversation.id": "one", "gen_ai.evaluation.evaluator.source": "[" * 100_000},
    )
    logs = {
        "resource": {"attributes": attributes({"organization.id": "globex"})},
        "scopeLogs": [{"scope": {"name": "evals"}, "logRecords": [deep]}],
    }
    workplace.land("work.jsonl", session("one", organization__id="acme"))
    workplace.land("deep.jsonl", json.dumps({"resourceLogs": [logs]}).encode() + b"\n")
    workplace.ingest()
    workplace.build()

    days = workplace.lake.partitions(AGENT_EVENTS)
    found = external_evaluations(workplace.lake, days)
    assert found.select("organization_id", "session_id").rows() == [("globex", "one")]
    assert found["evaluator"].item() == "[" * 100_000
    assert session_view(workplace.stores, SessionName("one"), NOW).external == ()
    assert external_evaluations(workplace.lake, days, ("globex", "one")).equals(found)
