"""What holds for events of logs holds for those of spans, also after they have moved."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sqlalchemy as sa

from evaluation_pipelines.as_of import as_of
from evaluation_pipelines.build import DateBuilt
from evaluation_pipelines.erasure.domain.subject import Subject
from evaluation_pipelines.erasure.expire import Expire
from evaluation_pipelines.erasure.forget import Forget
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED, AGENT_SESSIONS, EVENT_TEXTS_LANDED
from evaluation_pipelines.sessions.session_queries import query_tool_calls
from evaluation_pipelines.storage.ledger.engine import writing
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.tables.telemetry import INGEST_BATCHES
from evaluation_pipelines.telemetry.event_texts import read_events_with_texts
from evaluation_pipelines.telemetry.late_parents import file_late_if_free
from evaluation_pipelines.telemetry.ledger.ingest_batches import IngestBatches, SessionIndex
from evaluation_pipelines.telemetry.quarantine.retry import Retry
from evaluation_pipelines.telemetry.reread import Reread
from evaluation_pipelines_tests.erasure.two_people import found
from evaluation_pipelines_tests.telemetry.placing.span_lines import (
    DAY_S,
    NOON,
    SpanSent,
    hexadecimal,
    line,
    nanoseconds,
    trace_session,
    turn,
)
from evaluation_pipelines_tests.telemetry.spans.captured import requests
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import attributes, claude, request
from evaluation_pipelines_tests.world import line as logs
from evaluation_pipelines_tests.world.lake_files import root_of

ROOT, *INNER = turn("t1", DAY_S, "s1")
EARLIER = turn("t2", 0, "s1", named="all")
COUNTS = ("session_id", "prompts", "total_tools", "api_requests")


def land(workplace: Workplace, *requests: bytes) -> None:
    """Ingest and build the requests one after another."""
    for number, content in enumerate(requests):
        workplace.land(f"{len(requests)}-{number}.jsonl", content)
        workplace.ingest()
        workplace.build()


def counts(workplace: Workplace) -> list[tuple[Any, ...]]:
    return sorted(workplace.sessions().select(COUNTS).rows())


def test_a_session_is_forgotten_with_its_traces(workplace: Workplace) -> None:
    land(workplace, line(*INNER[:3]), line(*EARLIER), line(ROOT))
    assert counts(workplace) == [("s1", 2, 2, 4)]
    forget = Forget(workplace.stores, "root", rewrite_landing=True, clock=lambda: NOW)
    forget.run(Subject("session", "s1"))
    # The last span of the first trace names no session, a new one the id of its sub-agent.
    late = line(INNER[-1]), line(*INNER[2:4])
    workplace.land("late.jsonl", b"".join(late))
    read = workplace.ingest().counts
    assert (read.events, read.forgotten) == (0, 3)
    folders = (root_of(workplace.lake), workplace.landing.root)
    assert [found(folder, "s1", hexadecimal("t1", 32)) for folder in folders] == [
        {},
        {"late.jsonl": [hexadecimal("t1", 32)]},
    ]


def test_spans_that_an_earlier_version_left_out_are_read_once(workplace: Workplace) -> None:
    log = logs(claude("user_prompt", session__id="log"))
    workplace.land("both.jsonl", log + line(*INNER, ROOT))
    workplace.ingest()
    is_span = pl.col("trace_id").is_not_null()
    with writing(workplace.ledger.engine) as connection:  # as the earlier version left it
        left = {"spans": None, "skipped": 1, "events": 1, "unknown_records": 0}
        connection.execute(sa.update(INGEST_BATCHES).values(left))
    for part in Manifest(workplace.ledger).all_tables():
        if part.table_name == AGENT_EVENTS_LANDED.name:
            rows = workplace.lake.read_part(part, AGENT_EVENTS_LANDED).filter(~is_span)
            new = workplace.lake.write_part(rows, AGENT_EVENTS_LANDED, part.session_date, "left")
            Manifest(workplace.ledger).replace([part.part_id], new, NOW)
        elif part.session_date is not None:
            Manifest(workplace.ledger).withdraw(part.part_id, NOW)
    assert IngestBatches(workplace.ledger).without_spans()
    read = Retry(workplace.stores, clock=lambda: NOW).read_spans()
    assert (read.events, read.unread) == (6, {})
    workplace.build()
    assert counts(workplace) == [("log", 1, 0, 0), ("s1", 1, 1, 3)]
    totals = IngestBatches(workplace.ledger).totals()
    assert (totals.events, totals.spans, totals.skipped) == (7, 6, 0)
    again = Retry(workplace.stores, clock=lambda: NOW).read_spans()
    assert (again.events, IngestBatches(workplace.ledger).without_spans()) == (0, {})


def test_a_moved_part_is_read_again_when_it_is_damaged(workplace: Workplace) -> None:
    land(workplace, line(*INNER[:3]) + line(*turn("t3", DAY_S, "other")), line(*EARLIER, ROOT))
    before = workplace.landed().sort("event_id")
    for part in Manifest(workplace.ledger).all_current(AGENT_EVENTS_LANDED.name):
        (root_of(workplace.lake) / part.path).unlink()
    results = Reread(workplace.stores, clock=lambda: NOW).run()
    assert [result.why_not for result in results] == [None] * len(results)
    assert len(results) >= 3
    assert workplace.landed().sort("event_id").equals(before)


def test_a_span_out_of_quarantine_names_the_session_of_its_trace(tmp_path: Path) -> None:
    wide = line(ROOT).replace(
        b'"attributes": [{"key": "gen_ai',
        b'"attributes": [%s{"key": "gen_ai' % b"".join(b'{"key": "a%d"}, ' % n for n in range(30)),
    )
    with open_workplace(tmp_path, max_attributes=20) as workplace:
        land(workplace, line(*EARLIER), line(*INNER), wide)
        assert (counts(workplace)[0][0], workplace.quarantined().height) == ("s1", 1)
        assert len(counts(workplace)) == 2
    with open_workplace(tmp_path, max_attributes=100) as workplace:
        assert Retry(workplace.stores, clock=lambda: NOW).run().resolved == 1
        workplace.build()
        assert counts(workplace) == [("s1", 2, 2, 6)]


def test_organization_and_pseudonyms_of_spans(tmp_path: Path) -> None:
    sent = {"organization.id": "acme", "user.email": "ann@example.com"}
    with open_workplace(tmp_path, pseudonymize=True) as workplace:
        land(workplace, line(*INNER), line(ROOT, resource=sent))
        rows = workplace.events().select("organization_id", "session_id").unique().rows()
        people = workplace.events()["user_email"].drop_nulls().unique().to_list()
        assert rows == [("acme", "s1")]
        assert [person[:2] for person in people] == ["p-"]


def test_a_move_that_is_killed_is_made_by_the_next_ingest(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "evaluation_pipelines.telemetry.late_parents"
    land(workplace, line(*INNER[:3]), line(*EARLIER))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("add_part", "note_filed", "touch", "replace_parts"):
        with monkeypatch.context() as patch:
            patch.setattr(f"{module}.{step}", killed)
            workplace.land("root.jsonl", line(ROOT))
            with pytest.raises(KeyboardInterrupt):
                workplace.ingest()
    file_late_if_free(workplace.stores, lambda: NOW)
    workplace.build()
    assert counts(workplace) == [("s1", 2, 2, 4)]
    assert SessionIndex(workplace.ledger).unfiled() == []
    assert workplace.landed()["event_id"].is_unique().all()


def test_a_root_that_ended_is_no_end_of_its_session(workplace: Workplace) -> None:
    land(workplace, line(ROOT, *INNER))
    assert workplace.events().filter(event_name="session_end").is_empty()
    assert json.loads(workplace.sessions().select("status").write_json())[0]["status"] != "ended"


def test_a_session_as_of_a_past_time_has_the_spans_that_had_happened(workplace: Workplace) -> None:
    """Also those that came in later: ten seconds into the first turn, and between both."""
    land(workplace, line(*INNER), line(*EARLIER), line(ROOT))
    shown = []
    for second in (10, 100):
        seen = as_of(workplace.stores, NOON + timedelta(seconds=second))
        shown += seen.lake.read(AGENT_SESSIONS, [NOON.date()], COUNTS).rows()
    assert shown == [("s1", 1, 0, 2), ("s1", 1, 1, 3)]


def test_spans_of_an_expired_date_go_and_nothing_moves_there(tmp_path: Path) -> None:
    """A late root may name a session of such a date: its trace stays where it is."""
    root, *inner = turn("t9", 180 * DAY_S, "s1")  # 2026-11-28
    with open_workplace(tmp_path, keep_events_days=30) as workplace:
        land(workplace, line(*EARLIER, *[sent for sent in inner if sent.session is None]))
        done = Expire(workplace.stores, dry_run=False, clock=lambda: NOW).run()
        # A row for each span; without text is the agent within the tool.
        assert done.rows == {"agent_events": 5, "agent_events_landed": 6, "event_texts_landed": 5}
        before = counts(workplace)
        assert before == [("s1", 1, 1, 3), (trace_session("t9"), None, 1, 2)]
        workplace.land("late.jsonl", line(root))
        assert workplace.ingest().counts.events == 1
        assert {type(result) for result in workplace.build()} <= {DateBuilt}
        assert counts(workplace) == before
        assert SessionIndex(workplace.ledger).unfiled() == []


def test_the_error_of_a_call_is_that_of_the_span_within_it(workplace: Workplace) -> None:
    """Claude Code has it there, apart from the parameters, and in another request."""
    land(workplace, *reversed(requests("claude-code-2.1.197")))
    (day,) = (date.session_date for date in Manifest(workplace.ledger).dates("agent_events"))
    failed = pl.col("event_name") == "tool_result", ~pl.col("success")
    events = read_events_with_texts(workplace.lake, day).filter(*failed)
    texts = events.select("tool_name", "tool_parameters", "error_type", "error").rows()
    assert texts == [("Bash", '{"command":"python3 nope.py"}', None, "Shell command failed")]
    landed = workplace.lake.read(EVENT_TEXTS_LANDED, [day])
    calls = query_tool_calls(workplace.events(), landed).rows
    assert calls["error"].drop_nulls().to_list() == ["Shell command failed"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_logs_of_a_window_follow_the_session_that_their_trace_names(
    workplace: Workplace, order: tuple[int, int]
) -> None:
    """Copilot in VS Code: calls are once, whichever signal comes first. Other logs stay."""
    asks = SpanSent("t", "a", None, "invoke_agent", 0, 9, "chat")
    calls = SpanSent("t", "b", "a", "chat", 1, 2, extra=(("gen_ai.response.id", "r"),))
    reads = SpanSent("t", "c", "a", "execute_tool", 3, 4)
    call = {"event.name": "gen_ai.client.inference.operation.details"}
    tool = {"event.name": "copilot_chat.tool.call", "gen_ai.tool.name": "Read", "success": True}
    records = [
        {"timeUnixNano": nanoseconds(at), "attributes": attributes(values), "traceId": trace}
        for trace, at, values in (
            (hexadecimal("t", 32), 2, call | {"gen_ai.response.id": "r"}),
            (hexadecimal("t", 32), 4, tool),
            ("", 5, call | {"gen_ai.response.id": "r2"}),
        )
    ]
    window = {"service.name": "copilot-chat", "session.id": "window"}
    sent = json.dumps(request(records, window, "copilot-chat")).encode() + b"\n"
    both = (sent, line(asks, calls, reads, resource=window))
    land(workplace, *(both[number] for number in order))
    assert counts(workplace) == [("chat", 1, 1, 1), ("window", None, 0, 1)]


def test_one_trace_is_known_by_its_own_id_until_it_has_another(workplace: Workplace) -> None:
    spans = [sent for sent in INNER if sent.session is None]
    land(workplace, line(*spans))
    assert counts(workplace)[0][0] == trace_session("t1")
