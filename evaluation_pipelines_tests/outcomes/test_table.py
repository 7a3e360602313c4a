"""The table of outcomes, from telemetry as agents send it and from what comes later."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.outcomes.table import write_late
from evaluation_pipelines.reporting.domain.session_facts import outcome_facts
from evaluation_pipelines.reporting.session_view import session_view
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSION_OUTCOMES
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.telemetry.domain.outcome_lines import LateOutcome
from evaluation_pipelines.telemetry.ledger.late_outcomes import OutcomeStore
from evaluation_pipelines.views.sessions import sessions
from evaluation_pipelines_tests.telemetry.spans.test_odd_spans import call, span
from evaluation_pipelines_tests.telemetry.spans.test_odd_spans import line as spans_line
from evaluation_pipelines_tests.workplace import Workplace, open_workplace
from evaluation_pipelines_tests.world import claude, line, request

JUNE_1 = date(2026, 6, 1)
_READ = datetime(2026, 7, 1, tzinfo=UTC)


def outcomes(workplace: Workplace, *names: str) -> list[tuple[Any, ...]]:
    return workplace.lake.read(SESSION_OUTCOMES, [JUNE_1], names).rows()


def test_telemetry_tells_commits_tests_and_answers(tmp_path: Path) -> None:
    commit = {"full_command": "git commit -m x", "git_commit_id": "0f1e2d3"}
    pytest_ran = json.dumps({"command": "pytest -q"})
    bash = {"tool_name": "Bash", "success": "true"}
    copilot = [claude("edit.feedback", 5, session__id="two", outcome="rejected")]
    with open_workplace(tmp_path) as workplace:
        records = (
            claude("user_prompt", 0, session__id="one"),
            claude("tool_result", 1, session__id="one", tool_name="Edit", success="true"),
            claude("tool_result", 2, session__id="one", tool_input=pytest_ran, **bash),
            claude("tool_result", 3, session__id="one", tool_parameters=json.dumps(commit), **bash),
            claude("feedback_survey", 4, session__id="one", response="good"),
            # A commit that failed made none.
            claude(
                *("tool_result", 5),
                session__id="one",
                tool_name="Bash",
                success="false",
                tool_parameters=json.dumps({**commit, "git_commit_id": "abcdef0"}),
            ),
        )
        copilot[0]["body"] = {"stringValue": "copilot_chat.edit.feedback"}
        sent = request(copilot, {"service.name": "copilot-chat"}, "copilot-chat")
        workplace.land("a.jsonl", line(*records) + json.dumps(sent).encode() + b"\n")
        workplace.ingest()
        workplace.build()

        found = outcomes(workplace, "session_id", "kind", "value", "source", "inferred")
        references = dict(outcomes(workplace, "kind", "reference"))
    assert found == [
        ("one", "accepted", 1.0, "telemetry", False),
        ("one", "commit", 1.0, "telemetry", False),
        ("one", "tests_after_last_edit", 1.0, "telemetry", False),
        ("two", "accepted", 0.0, "telemetry", False),
    ]
    assert references["commit"] == "0f1e2d3"


def test_spans_of_openlit_tell_commits_and_decisions(tmp_path: Path) -> None:
    named = {"coding_agent.session.id": "one", "coding_agent.client": "claude-code"}
    commit, edit = "coding_agent.git.commit", "coding_agent.edit.decision"
    sent = [
        call(2, 1, attributes=named),
        span(3, 1, "x", 3, 3, name=commit, attributes={**named, f"{commit}.sha": "0F1E2D3"}),
        *(
            span(
                4 + place, 1, "x", 4 + place, 4 + place, name=edit, attributes={**named, edit: word}
            )
            for place, word in enumerate(("accept", "reject", "auto_accepted"))
        ),
    ]
    for sent_span in sent[1:]:  # they name no operation
        del sent_span["attributes"][0]
    with open_workplace(tmp_path) as workplace:
        workplace.land("a.jsonl", spans_line(*sent, scope="openlit-cli") + b"\n")
        workplace.ingest()
        workplace.build()
        (day,) = workplace.lake.partitions(SESSION_OUTCOMES)
        found = workplace.lake.read(SESSION_OUTCOMES, [day])
    assert found.select("session_id", "kind", "value").rows() == [
        ("one", "accepted", 0.0),
        ("one", "accepted", 1.0),
        ("one", "commit", 1.0),
    ]
    assert found.filter(kind="commit")["reference"].to_list() == ["0f1e2d3"]


def _merged(session: str = "one", value: float = 1.0, **more: Any) -> LateOutcome:
    given = {"reference": "0f1e2d3", "read_at": _READ, **more}
    return LateOutcome("default", session, "merged", "git", value=value, **given)


@pytest.fixture
def workplace(tmp_path: Path) -> Any:
    with open_workplace(tmp_path) as opened:
        opened.land("a.jsonl", line(claude("user_prompt", 0, session__id="one")))
        opened.ingest()
        opened.build()
        yield opened


def test_a_late_outcome_changes_its_own_table_alone(workplace: Workplace) -> None:
    store, manifest = OutcomeStore(workplace.ledger), Manifest(workplace.ledger)
    before = manifest.current(AGENT_SESSIONS.name, JUNE_1)
    store.add([_merged(value=0.0)])
    assert write_late(workplace.stores) == [JUNE_1]
    assert write_late(workplace.stores) == []
    assert outcomes(workplace, "session_key", "value") == [("one#baseline-1", 0.0)]

    # A later reading corrects it, an earlier one does not.
    store.add([_merged()])
    store.add([_merged(value=0.5, read_at=datetime(2026, 6, 30, tzinfo=UTC))])
    write_late(workplace.stores)
    assert outcomes(workplace, "value", "read_at") == [(1.0, _READ)]

    assert manifest.current(AGENT_SESSIONS.name, JUNE_1) == before
    assert sessions(workplace.stores, [JUNE_1])["merged"].to_list() == [True]
    view = session_view(workplace.stores, SessionName("one", None))
    assert outcome_facts(view.outcomes) == [("Merged", "yes (0f1e2d3, git)")]


def test_an_outcome_that_comes_before_its_session_waits_for_it(workplace: Workplace) -> None:
    OutcomeStore(workplace.ledger).add([_merged("two")])
    assert write_late(workplace.stores) == []

    workplace.land("b.jsonl", line(claude("user_prompt", 1, session__id="two")))
    workplace.ingest()
    workplace.build()
    assert outcomes(workplace, "session_key", "value") == [("two#baseline-1", 1.0)]
