"""Scores with defaults for the fields that a test does not name, and writers of some."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from evaluation_pipelines.judging.domain.budget import DayReservation
from evaluation_pipelines.judging.ledger.score_queries import DayBudgetReachedError
from evaluation_pipelines.judging.ledger.score_store import ReceivedReply, ScoreStore
from evaluation_pipelines.schemas.judge_score import LoggedTurn, Score
from evaluation_pipelines.storage.ledger.ledger import Ledger, open_ledger
from evaluation_pipelines.times import to_us
from evaluation_pipelines_tests.world.ledger import MARCH_1, NOON

HASH = "ab" * 32


def new_score(session_key: str = "s1#baseline-1", **changes: Any) -> Score:
    """Return a scoring of one session by version 1 of the profile ``default``."""
    default = Score(
        score_id=str(uuid4()),
        organization_id="acme",
        session_key=session_key,
        session_id=session_key.partition("#")[0],
        content_hash="content-1",
        agent_id="codesmith",
        agent_model="model-a",
        session_date=MARCH_1,
        judge_profile_id="default",
        judge_profile_version=1,
        judge_model="judge-1",
        rubric="agent-methodology",
        prompt_hash=HASH,
        samples=1,
        score_triggered_by="tests",
        status="pending",
        scored_at_us=to_us(NOON),
        attempt=1,
    )
    return replace(default, **changes)


def turn(name: str = "score-1", at: datetime = NOON, **changes: Any) -> LoggedTurn:
    """Return a reply with 1,000 input, 600 cached and 200 output tokens that cost a cent."""
    default = LoggedTurn(
        turn=name,
        text=f"reply to {name}",
        finish_reason="stop",
        input_tokens=1_000,
        cached_tokens=600,
        output_tokens=200,
        cost_usd=0.01,
        latency_ms=2_000.0,
        attempts=1,
        at_us=to_us(at),
    )
    return replace(default, **changes)


PROMPT_FACTS: dict[str, Any] = {
    "content_level": "full",
    "redactions": {"email": 2},
    "truncated": True,
    "injection_suspected": False,
}

DONE: dict[str, Any] = {
    "total_score": 64,
    "criteria_scores": {"logical_flow": 16, "consistency": 16},
    "failure_tags": ["incomplete_evidence"],
    "sample_totals": [64],
    "sample_errors": [],
    "score_spread": None,
    "score_analysis": "Thorough enough.",
    "missing_tools_analysis": "1. grep: to find it at once",
    "missing_tools_error": None,
    "inconsistent_total": False,
    "incomplete_criteria": False,
    "short_analysis": False,
    "numbers_from_reminder": False,
    "estimated_usage": False,
}


def begun(session_key: str = "s1#baseline-1", **changes: Any) -> Score:
    """Return a scoring whose work begins as it is created."""
    return new_score(session_key, status="in_progress", **changes)


def started(ledger: Ledger, session_key: str = "s1#baseline-1", **changes: Any) -> Score:
    """Create a scoring that is in progress since noon."""
    return ScoreStore(ledger).create(begun(session_key, **changes), NOON)


def log_turn(store: ScoreStore, score: Score, reply: LoggedTurn, **more: Any) -> None:
    """Store a reply to a scoring; ``more`` are fields of ``ReceivedReply``."""
    store.log_turn(ReceivedReply(score.score_id, reply, **more))


def score_all(url: str, sessions: int) -> None:
    """Score sessions one after the other."""
    ledger = open_ledger(url)
    for number in range(sessions):
        score = ScoreStore(ledger).create(begun(f"s{number}#baseline-1"), NOON)
        ScoreStore(ledger).log_turn(ReceivedReply(score.score_id, turn()))
        ScoreStore(ledger).complete(score.score_id, DONE, NOON)
    ledger.close()


def log_turns(url: str, score_id: str, names: list[str]) -> None:
    """Log the replies of a conversation with concurrent turns."""
    ledger = open_ledger(url)
    for name in names:
        ScoreStore(ledger).log_turn(ReceivedReply(score_id, turn(name)))
    ledger.close()


def begin_all(url: str, keys: list[str], usd: float) -> int:
    """Begin scorings while a budget of one dollar a day allows it; return their number."""
    ledger, number = open_ledger(url), 0
    for key in keys:
        try:
            ScoreStore(ledger).create(begun(key), NOON, DayReservation(usd, 0.0, 1.0))
        except DayBudgetReachedError:
            continue
        number += 1
    ledger.close()
    return number
