"""What raises events of sessions, and what a listener got of them."""

from typing import Any

from starlette.testclient import WebSocketTestSession

from evaluation_pipelines.judging.ledger.score_store import Failure, ReceivedReply, ScoreStore
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.telemetry.domain.subagents import SessionStart
from evaluation_pipelines.telemetry.ledger.ingest_batches import store_sessions
from evaluation_pipelines_tests.judging.ledger.score_builders import DONE, started, turn
from evaluation_pipelines_tests.storage.ledger.ledger_builders import MARCH_1, NOON

EVENTS = "ws://localhost:8400/api/v1/events"
URL = EVENTS + "?channel={}"
ALL = URL.format("sessions")


def score(ledger: Ledger, name: str, organization: str = "acme", *, fails: bool = False) -> str:
    """Score a session: started, two phases, and the end."""
    score = started(ledger, f"{name}#baseline-1", organization_id=organization)
    store, score_id = ScoreStore(ledger), score.score_id
    store.log_turn(ReceivedReply(score_id, turn(), 0.0, "identifying_missing_tools"))
    if fails:
        store.fail(score_id, Failure("no verdict", retriable=False), NOON)
    else:
        store.complete(score_id, DONE, NOON)
    return score_id


def arrived(ledger: Ledger, organization: str, session: str) -> None:
    """Let telemetry of a session arrive."""
    with writing(ledger.engine) as connection:
        store_sessions(connection, [SessionStart(organization, session, MARCH_1, NOON)])


def received(socket: WebSocketTestSession, number: int) -> list[dict[str, Any]]:
    return [socket.receive_json() for _ in range(number)]


def types(messages: list[dict[str, Any]]) -> list[str]:
    return [each["type"].removeprefix("scoring.") for each in messages]
