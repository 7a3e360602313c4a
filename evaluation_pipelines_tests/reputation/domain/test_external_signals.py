"""Lines of other systems: what they mean, and why some cannot be used."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from evaluation_pipelines.reputation.domain.signals import (
    EVENT_TYPES,
    Retraction,
    UnusableLineError,
    evaluation_retraction,
    identity_id,
    read_evaluation,
    read_signal,
    session_event_id,
    signal_event_id,
    signal_retraction,
    unknown_identity,
)
from evaluation_pipelines.schemas import (
    AGENT_EVALUATIONS,
    REPUTATION_EVENTS,
    REPUTATION_SCORES,
    SIGNAL_CATEGORIES,
)
from evaluation_pipelines_tests.reputation.reputation_signals import at

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SIGNAL = {
    "timestamp": "2026-11-20T12:00:00Z",
    "event_type": "payment_failed",
    "reference_type": "transaction",
    "reference_id": "t-1",
    "agent_id": "scout",
}
EVALUATION = {
    "evaluation_id": "gate-1",
    "agent_id": "scout",
    "evaluated_at": "2026-11-20T13:00:00+01:00",
    "passed": True,
    "source": "gate",
}
UUID_1 = "00000000-0000-0000-0000-000000000001"


def signal(deltas: dict[str, float] | None = None, **changes: Any) -> dict[str, Any]:
    line = {name: value for name, value in (SIGNAL | changes).items() if value != "absent"}
    return read_signal(msgspec.json.encode(line), NOW, deltas or {})


def evaluation(**changes: Any) -> dict[str, Any]:
    line = {name: value for name, value in (EVALUATION | changes).items() if value != "absent"}
    return read_evaluation(msgspec.json.encode(line), NOW)


def test_a_signal_that_gives_only_what_it_must_means_what_its_event_type_usually_does() -> None:
    row = signal()
    assert list(row) == REPUTATION_EVENTS.schema.names()
    assert (row["category"], row["score_delta"], row["confidence"]) == ("economic", -0.7, 1.0)
    assert row["identity_id"] == str(identity_id("default", "scout"))
    assert row["timestamp"] == datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert signal(timestamp="2000-01-01T00:00:00Z")["timestamp"] == datetime(2000, 1, 1, tzinfo=UTC)
    # NOW is 2026-11-21: 366 days later it is 2027-11-22.
    assert signal(timestamp="2027-11-22T00:00:00Z")["timestamp"].year == 2027


def test_a_name_has_at_most_1024_characters() -> None:
    assert signal(reference_id="x" * 1024)["reference_id"] == "x" * 1024


def test_what_a_signal_gives_comes_before_settings_and_settings_before_the_usual() -> None:
    assert signal(score_delta=0.25)["score_delta"] == 0.25
    assert signal({"payment_failed": -0.2})["score_delta"] == -0.2
    assert signal({"payment_failed": -0.2}, score_delta=0.25)["score_delta"] == 0.25
    assert signal(category="task_quality")["category"] == "task_quality"
    assert signal(event_id=UUID_1, identity_id=UUID_1, agent_id="absent")["event_id"] == UUID_1


def test_an_event_type_of_ones_own_needs_a_category_and_a_delta() -> None:
    own: dict[str, Any] = {"event_type": "audit_passed", "category": "identity_hygiene"}
    assert signal(**own, score_delta=0.5)["score_delta"] == 0.5
    assert signal({"audit_passed": 0.4}, **own)["score_delta"] == 0.4
    with pytest.raises(UnusableLineError, match="give score_delta"):
        signal(**own)
    with pytest.raises(UnusableLineError, match="give a category"):
        signal(event_type="audit_passed", score_delta=0.5)
    # As documented: a type of the settings is one of task quality unless the signal says more.
    of_settings = signal({"audit_passed": 0.4}, event_type="audit_passed")
    assert (of_settings["category"], of_settings["score_delta"]) == ("task_quality", 0.4)


def test_a_signal_without_an_id_gets_one_from_what_a_correction_keeps() -> None:
    first = signal()["event_id"]
    same = [
        signal(timestamp="2026-11-20T13:00:00+01:00"),
        signal(score_delta=-0.7),
        signal(confidence=0.5),
        signal(attributes={"a": "1"}),
        signal(category="economic"),
        signal(agent_id="absent", identity_id=signal()["identity_id"]),
    ]
    assert {row["event_id"] for row in same} == {first}
    others = [
        signal(reference_id="t-2"),
        signal(reference_type="session"),
        signal(agent_id="b"),
        signal(organization_id="o"),
        signal(timestamp="2026-11-20T12:00:01Z"),
        signal(event_type="payment_completed"),
    ]
    assert len({first, *(other["event_id"] for other in others)}) == 7


def test_a_signal_about_an_agent_and_another_identity_is_refused() -> None:
    identity = signal()["identity_id"]
    assert signal(identity_id=identity)["identity_id"] == identity
    with pytest.raises(UnusableLineError, match="is not that of agent"):
        signal(identity_id="00000000-0000-0000-0000-000000000001")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"timestamp": "absent"}, "missing required field `timestamp`"),
        ({"timestamp": "2026-11-20T12:00:00"}, "Expected `datetime` with a timezone"),
        ({"timestamp": "1999-12-31T23:59:59Z"}, "before 2000"),
        ({"timestamp": "0001-01-01T00:00:00+12:00"}, "before 2000"),
        ({"timestamp": "2027-11-22T00:00:00.000001Z"}, "a year ahead"),
        ({"score_delta": 1.01}, "<= 1.0"),
        ({"score_delta": -1.01}, ">= -1.0"),
        ({"confidence": 1.5}, "<= 1.0"),
        ({"reference_type": "rumour"}, "Invalid enum value 'rumour'"),
        ({"category": "looks"}, "Invalid enum value 'looks'"),
        ({"reference_id": ""}, "length >= 1"),
        ({"reference_id": "x" * 1025}, "length <= 1024"),
        ({"agent_id": "absent"}, "neither identity_id nor agent_id"),
        ({"event_id": "no uuid"}, "Invalid UUID"),
        ({"attributes": {"a": 1}}, "Expected `str`"),
        ({"attributes": {"session_date": "2026-11-20"}}, "is kept for sessions"),
    ],
)
def test_a_signal_that_cannot_be_used_says_why(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnusableLineError, match=reason):
        signal(**changes)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no json",
        b"[]",
        b'{"agent_id": "\xff"}',
        b'{"agent_id": "\\ud800"}',
        b'{"x": ' + b"[" * 100_000,
        b'{"x": 1e999}',
        b"\0",
    ],
)
def test_whatever_else_stands_in_a_line_is_told_apart(line: bytes) -> None:
    with pytest.raises(UnusableLineError):
        read_signal(line, NOW, {})
    with pytest.raises(UnusableLineError):
        read_evaluation(line, NOW)


def test_an_evaluation_has_the_budget_of_a_gate_unless_it_says_otherwise() -> None:
    row = evaluation()
    assert set(row) == set(AGENT_EVALUATIONS.schema)
    assert (row["latency_ms"], row["latency_budget_ms"]) == (None, 100.0)
    assert row["evaluated_at"] == datetime(2026, 11, 20, 12, tzinfo=UTC)
    given = evaluation(latency_ms=5, latency_budget_ms=50.0, model="m", organization_id="o")
    assert (given["latency_ms"], given["latency_budget_ms"]) == (5.0, 50.0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"source": "session"}, "kept for the sessions"),
        ({"latency_ms": -1}, ">= 0.0"),
        ({"latency_budget_ms": 0}, "> 0.0"),
        ({"passed": "yes"}, "Expected `bool`"),
        ({"evaluated_at": (NOW + timedelta(days=367)).isoformat()}, "a year ahead"),
    ],
)
def test_an_evaluation_that_cannot_be_used_says_why(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnusableLineError, match=reason):
        evaluation(**changes)


def test_what_each_event_type_usually_means() -> None:
    assert EVENT_TYPES == {
        "task_completed": ("task_quality", 0.5),
        "task_failed": ("task_quality", -0.5),
        "review_positive": ("task_quality", 0.8),
        "review_negative": ("task_quality", -0.8),
        "payment_completed": ("economic", 0.5),
        "payment_failed": ("economic", -0.7),
        "settlement_delayed": ("economic", -0.3),
        "key_rotated": ("identity_hygiene", 0.3),
        "session_expired": ("identity_hygiene", -0.1),
        "credential_leaked": ("identity_hygiene", -1.0),
    }
    assert {category for category, _ in EVENT_TYPES.values()} == set(SIGNAL_CATEGORIES)


SCOUT = str(identity_id("default", "scout"))


def taken_back(**fields: object) -> Retraction | None:
    return signal_retraction(msgspec.json.encode({"retracted": True} | fields), NOW)


@pytest.mark.parametrize(
    ("fields", "event", "owner"),
    [
        ({"event_id": UUID_1}, UUID_1, None),
        ({"event_id": UUID_1, "identity_id": SCOUT}, UUID_1, SCOUT),
        ({"event_id": UUID_1, "agent_id": "scout"}, UUID_1, SCOUT),
        ({"event_id": UUID_1, "agent_id": "scout", "identity_id": SCOUT}, UUID_1, SCOUT),
        (
            {"event_id": UUID_1, "agent_id": "scout", "organization_id": "o"},
            *(UUID_1, str(identity_id("o", "scout"))),
        ),
        (SIGNAL, signal()["event_id"], SCOUT),  # by what it is known by
    ],
)
def test_a_signal_is_taken_back_by_its_id(
    fields: dict[str, str], event: str, owner: str | None
) -> None:
    assert taken_back(**fields) == Retraction(event, None if owner is None else (owner,))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "missing required field"),
        ({"event_id": UUID_1, "organization_id": "o"}, "organization_id without agent_id"),
        ({"event_id": UUID_1, "agent_id": "b", "identity_id": SCOUT}, "is not that of agent"),
    ],
)
def test_a_signal_that_is_taken_back_without_saying_which_is_refused(
    fields: dict[str, str], reason: str
) -> None:
    with pytest.raises(UnusableLineError, match=reason):
        taken_back(**fields)


def test_an_evaluation_is_taken_back_by_its_id_and_agent() -> None:
    def taken_back(**fields: object) -> Retraction | None:
        return evaluation_retraction(msgspec.json.encode({"retracted": True} | fields))

    named = {"evaluation_id": "gate-1", "agent_id": "scout"}
    assert taken_back(**named) == Retraction("gate-1", ("default", "scout"))
    assert taken_back(**named, organization_id="o") == Retraction("gate-1", ("o", "scout"))
    with pytest.raises(UnusableLineError, match="missing required field `agent_id`"):
        taken_back(evaluation_id="gate-1")


@pytest.mark.parametrize(
    "more", [{}, {"retracted": False}, {"attributes": {"retracted": "true"}}, {"note": "retracted"}]
)
def test_other_lines_take_nothing_back(more: dict[str, object]) -> None:
    assert signal_retraction(msgspec.json.encode(SIGNAL | more), NOW) is None
    assert evaluation_retraction(msgspec.json.encode(EVALUATION | more)) is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("organisation_id", "organization_id"),
        ("agentId", "agent_id"),
        ("Passed", "passed"),
        ("retractd", "retracted"),
    ],
)
def test_a_misspelt_name_is_refused_and_another_one_ignored(name: str, meant: str) -> None:
    """Without it the line would count for another agent, or be no retraction."""
    refused = pytest.raises(UnusableLineError, match=f"no such name: '{name}': write {meant}")
    with refused:
        read_signal(msgspec.json.encode({**SIGNAL, name: True}), NOW, {})
    with refused:
        read_evaluation(msgspec.json.encode({**EVALUATION, name: True}), NOW)
    with_note = msgspec.json.encode({**SIGNAL, "note": True})
    assert read_signal(with_note, NOW, {}) == read_signal(msgspec.json.encode(SIGNAL), NOW, {})


def test_ids_stay_what_they_were_when_signals_were_loaded_for_the_first_time() -> None:
    # Other ids would count everything that was ever loaded a second time.
    assert identity_id("default", "scout") == UUID("e46c5aa6-a599-520d-b532-61260bd10c33")
    session = session_event_id("default", "s#baseline-1")
    assert session == UUID("21340b0f-0a24-5c4c-ad2e-24fe5a340191")
    # Parts of a name cannot be moved from one to the next.
    ids = {
        *(identity_id("a", "bc"), identity_id("ab", "c"), session_event_id("a", "bc")),
        *(signal_event_id("a", "bc"), signal_event_id("a", "b", "c")),
    }
    assert len(ids) == 5


def test_an_identity_without_signals_has_every_column_of_the_table() -> None:
    record = unknown_identity("who", at("2026-11-20T12:00:00"))
    assert list(record) == REPUTATION_SCORES.schema.names()
    assert {name: value for name, value in record.items() if value != 0} == {
        "identity_id": "who",
        "computed_at": at("2026-11-20T12:00:00"),
        "score_7d_ago": None,
        "score_30d_ago": None,
        "overall_observed": None,
        "categories_observed": [],
    }
