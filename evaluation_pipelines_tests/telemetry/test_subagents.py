"""The work of a sub-agent with a session of its own counts for the session that started it."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.reporting.books import books_of
from evaluation_pipelines.schemas import EVALUATION_BOOKS
from evaluation_pipelines_tests.erasure.two_people import found
from evaluation_pipelines_tests.telemetry.test_organizations import REPORTED, reported
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line
from evaluation_pipelines_tests.world.lake_files import root_of

MIDNIGHT = DAY_S // 2
"""Seconds after the noon of the builders."""


def record(name: str, second: int, session: str, **values: object) -> dict[str, Any]:
    return claude(name, second, session__id=session, **values)


def request(second: int, session: str, tokens: int, cost: float, **values: object) -> Any:
    sent = {"input_tokens": tokens, "output_tokens": 2 * tokens, "cost_usd": cost}
    return record("api_request", second, session, model="m", **sent, **values)


def call(second: int, session: str, success: str) -> dict[str, Any]:
    return record("tool_result", second, session, tool_name="Read", success=success)


PARENT = line(
    record("user_prompt", MIDNIGHT - 60, "root-1"),
    request(MIDNIGHT - 50, "root-1", 10, 0.02),
    call(MIDNIGHT - 40, "root-1", "true"),
)
"""Before midnight: 10 + 20 tokens."""

FIRST = line(
    record("user_prompt", MIDNIGHT + 10, "child-1", parent__conversation__id="root-1"),
    request(MIDNIGHT + 20, "child-1", 5, 0.01, agent__name="explore"),
)
"""After midnight: only the prompt of the parent names it; 5 + 10 tokens."""

LATER = line(
    record("user_prompt", MIDNIGHT + 25, "child-1"), call(MIDNIGHT + 30, "child-1", "false")
)
NESTED = line(
    record("user_prompt", MIDNIGHT + 40, "child-2", parent_session_id="child-1"),
    call(MIDNIGHT + 50, "child-2", "true"),
)


@pytest.mark.parametrize(
    ("order", "day"),
    [
        # In one file the session itself rules, whoever came first.
        ((FIRST + LATER + NESTED + PARENT,), date(2026, 6, 1)),
        ((PARENT, FIRST, LATER, NESTED), date(2026, 6, 1)),
        ((FIRST, LATER, PARENT, NESTED), date(2026, 6, 2)),
        ((FIRST, NESTED, LATER + PARENT), date(2026, 6, 2)),
    ],
)
def test_calls_tokens_and_cost_count_for_the_parent(
    tmp_path: Path, order: tuple[bytes, ...], day: date
) -> None:
    with open_workplace(tmp_path, shards=3) as workplace:
        for number, content in enumerate(order):
            workplace.land(f"{number}.jsonl", content)
            workplace.ingest()
            if number in {0, len(order) - 1}:
                workplace.build()
        (session,) = workplace.sessions().to_dicts()
        events = workplace.events()
        unread = workplace.ingest().counts.events
    expected = {
        "session_id": "root-1",
        "session_date": day,
        "is_subagent": False,
        "prompts": 1,
        "total_tools": 3,
        "tools_failed": 1,
        "api_requests": 2,
        "total_tokens": 45,  # 10 + 20 + 5 + 10
        "cost_usd": 0.03,  # 0.02 + 0.01
    }
    assert {name: session[name] for name in expected} == pytest.approx(expected)
    theirs = events.filter(events["subagent_session_id"].is_not_null())
    assert theirs.select("subagent_session_id", "event_name", "subagent").sort(
        "subagent_session_id", "event_name", "subagent"
    ).rows() == [
        ("child-1", "api_request", "explore"),
        ("child-1", "other", "subagent"),
        ("child-1", "other", "subagent"),
        ("child-1", "tool_result", "subagent"),
        ("child-2", "other", "subagent"),
        ("child-2", "tool_result", "subagent"),
    ]
    assert unread == 0


def at_work(second: int, session: str, **parent: str) -> bytes:
    """Return a line with a prompt, its request of 30 tokens and 0.01 USD, and a call."""
    return line(
        record("user_prompt", second, session, prompt=f"to {session}", **parent),
        request(second + 1, session, 10, 0.01, **parent),
        record("tool_result", second + 2, session, tool_name="Read", success="true", **parent),
    )


DAY = date(2026, 6, 1)
FAMILY = (
    at_work(0, "root"),
    at_work(10, "child", parent_session_id="root"),
    at_work(20, "grandchild", parent_session_id="child"),
)
LATE = (
    at_work(0, "root"),
    at_work(10, "child"),
    at_work(20, "child", parent_session_id="root"),
)
"""The sub-agent names its parent in its second request only."""


@pytest.mark.parametrize("lines", [FAMILY, LATE])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 1, 0)])
def test_whichever_comes_first_all_counts_for_the_parent(
    tmp_path: Path, lines: tuple[bytes, ...], order: tuple[int, ...]
) -> None:
    with open_workplace(tmp_path, shards=3) as workplace:
        for number in order:
            workplace.land(f"{number}.jsonl", lines[number])
            workplace.ingest()
            workplace.build()
        (session,) = workplace.sessions().to_dicts()
        events = workplace.events()
        totals = {
            "session_id": "root",
            "prompts": 1,
            "total_tools": 3,
            "api_requests": 3,
            "total_tokens": 90,
            "cost_usd": 0.03,
        }
        assert {name: session[name] for name in totals} == pytest.approx(totals)
        asked = events.filter(source_event_name="user_prompt").sort("event_time")
        assert asked["event_name"].to_list() == ["user_prompt", "other", "other"]
        assert asked["content"].str.starts_with("to ").all()
        assert books_of(workplace.stores, [DAY], NOW)[DAY].is_balanced


def test_work_moves_to_the_date_of_a_parent_that_is_named_late(workplace: Workplace) -> None:
    for number, content in enumerate((PARENT, LATER, FIRST)):
        workplace.land(f"{number}.jsonl", content)
        workplace.ingest()
        workplace.build()
    counts = ("prompts", "total_tools", "api_requests")
    sessions = workplace.sessions().select("session_id", "session_date", "is_subagent", *counts)
    assert sessions.rows() == [("root-1", DAY, False, 1, 2, 2)]
    days = [date(2026, 6, 1), date(2026, 6, 2)]
    assert all(book.is_balanced for book in books_of(workplace.stores, days, NOW).values())


@pytest.mark.parametrize(
    "lines",
    [
        (at_work(0, "a", parent_session_id="undefined"), at_work(9, "b", parent_session_id="null")),
        (at_work(0, "a", parent_session_id="b"), at_work(9, "b", parent_session_id="a")),
    ],
    ids=["text of no parent", "circle"],
)
def test_what_is_no_parent_makes_no_sub_agent(
    workplace: Workplace, lines: tuple[bytes, ...]
) -> None:
    workplace.land("logs.jsonl", b"".join(lines))
    workplace.ingest()
    workplace.build()
    sessions = workplace.sessions().select("session_id", "is_subagent", "prompts", "total_tools")
    assert sorted(sessions.rows()) == [("a", False, 1, 1), ("b", False, 1, 1)]


def test_a_sub_agent_without_a_parent_is_listed_and_counted_nowhere(workplace: Workplace) -> None:
    name = "opencode-subagent-session"
    workplace.land("logs.jsonl", (REPORTED / f"{name}.jsonl").read_bytes())
    workplace.ingest()
    workplace.build()
    for expected in reported(name):
        session = workplace.sessions().filter(session_id=expected["session_id"])
        assert session.select(expected.keys()).to_dicts() == [expected]
    scores = workplace.performance().select("session_id", "scorable", "reason").rows()
    assert scores == [("b40-child", False, "work of a sub-agent"), ("b40-root", True, None)]
    days = workplace.lake.partitions(EVALUATION_BOOKS)
    booked = workplace.lake.read(EVALUATION_BOOKS, days, ["session_id", "state", "reason"])
    assert booked.filter(session_id="b40-child").rows() == [
        ("b40-child", "excluded", "left out by the rule sub-agent")
    ]


@pytest.mark.parametrize("session_id", ["root-1", "child-1"])
def test_a_session_is_forgotten_with_its_sub_agents(workplace: Workplace, session_id: str) -> None:
    workplace.land("logs.jsonl", PARENT + FIRST + LATER)
    workplace.ingest()
    workplace.build()
    forget = Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW)
    forgot = forget.run(Subject("session", session_id))
    assert forgot.selection.named_sessions["session_id"].to_list() == ["root-1"]
    # Neither what it sent before comes back, nor what another of its sub-agents sends.
    workplace.land("again.jsonl", FIRST + LATER + NESTED.replace(b"child-1", b"root-1"))
    counts = workplace.ingest().counts
    assert (counts.events, counts.forgotten) == (0, 6)
    assert found(root_of(workplace.lake), "root-1", "child-1") == {}
    assert not (workplace.landing.root / "logs.jsonl").exists()
