"""Which responses of Codex without output are warm-ups, and which are requests."""

from typing import Any

from evaluation_pipelines.sessions.session_queries import query_events
from evaluation_pipelines_tests.builders import api_request, events_frame


def response(second: int, output: int | None, **columns: object) -> dict[str, Any]:
    sent = {"source_cli": "codex", "source_event_name": "sse_event", "input_tokens": 100}
    return api_request(second, **{**sent, "output_tokens": output, "cost_usd": 0.5, **columns})


def test_a_warm_up_comes_before_the_first_answer_of_its_session() -> None:
    rows = [
        response(0, 0),
        response(1, 0),
        response(2, 80),
        response(7, 0),  # cut off
        response(8, None),
        # Its own session was not answered yet.
        response(9, 0, subagent_session_id="child"),
        response(10, 5, subagent_session_id="child"),
        response(11, 0, session_id="s2"),
        response(12, 0, session_id="s3", source_cli="gemini_cli"),
    ]
    found = query_events(events_frame(rows)).sort("event_time")
    names = ("event_name", "source_event_name", "input_tokens", "output_tokens", "cost_usd")
    warm_up = ("other", "warm_up", None, None, None)
    assert found.select(names).rows() == [
        warm_up,
        warm_up,
        ("api_request", "sse_event", 100, 80, 0.5),
        ("api_request", "sse_event", 100, 0, 0.5),
        ("api_request", "sse_event", 100, None, 0.5),
        warm_up,
        ("api_request", "sse_event", 100, 5, 0.5),
        warm_up,
        ("api_request", "sse_event", 100, 0, 0.5),
    ]
