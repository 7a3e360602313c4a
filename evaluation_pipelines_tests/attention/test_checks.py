"""Alert checks: quality risks, regressions, silent sources, damaged files."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from time import monotonic, sleep
from typing import Any

import polars as pl
import pytest
from pydantic import SecretStr

from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.checks import check_alerts
from evaluation_pipelines.attention.send import send_pending
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    AGENT_SESSIONS,
    MODEL_REGRESSIONS,
    QUARANTINE,
    SESSION_EVALUATIONS,
    Table,
)
from evaluation_pipelines.schemas.scorecards import Announcement
from evaluation_pipelines.scorecards.blind_reviews import note_request
from evaluation_pipelines.scorecards.domain.evaluation import MODEL_FEEDBACK, QUALITY_RISK
from evaluation_pipelines.scorecards.store import (
    AuditSample,
    EventStore,
    NewOverride,
    OverrideStore,
)
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines_tests import world
from evaluation_pipelines_tests.judged import fill, session_with_texts
from evaluation_pipelines_tests.receiver import open_receiver
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.telemetry.placing.span_lines import SpanSent
from evaluation_pipelines_tests.telemetry.placing.span_lines import line as spans
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import claude, line
from evaluation_pipelines_tests.world.lake_files import paths_of
from evaluation_pipelines_tests.world.rows import frame, session, sessions_frame

LOG = logging.getLogger("checks")
TODAY = NOW.date()
JUNE = datetime(2026, 6, 1, 13, tzinfo=UTC)


def titles(workplace: Workplace) -> list[str]:
    return [row.alert.title for row in AlertStore(workplace.ledger).all()]


def test_a_damaged_file_is_an_alert_until_it_is_built_again(workplace: Workplace) -> None:
    workplace.land("logs.jsonl", session_with_texts("s", 0, "hello"))
    workplace.ingest()
    workplace.build()
    (path,) = paths_of(workplace.lake, AGENT_SESSIONS)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    assert check_alerts(workplace.stores, JUNE, LOG) == {"damaged files": 1}
    (alert,) = (row.alert for row in AlertStore(workplace.ledger).all())
    assert f"{path.name} is damaged" in alert.title
    assert "evaluation-pipelines build --damaged" in alert.text

    path.write_bytes(content)
    RebuildQueue(workplace.ledger).touch({JUNE.date()}, JUNE)
    workplace.build()
    assert check_alerts(workplace.stores, JUNE, LOG) == {}
    (ended,) = AlertStore(workplace.ledger).all()
    assert ended.ended_at is not None


def announce(workplace: Workplace, *names: str, kind: str = QUALITY_RISK, days: int = 0) -> None:
    """Record events about sessions that began ``days`` days before today."""
    day = TODAY - timedelta(days=days)
    about = {"effective_100": 10.0, "effective_source": "override", "model": "m"}
    events = [
        Announcement(
            f"{kind} {name}",
            kind,
            day,
            "default",
            name,
            None,
            10.0,
            json.dumps({"session_key": name, "classification_label": None, **about}),
        )
        for name in names
    ]
    EventStore(workplace.ledger).record(day, events, NOW)
    keys = [
        {"session_key": name, "organization_id": "default", "session_date": day} for name in names
    ]
    rows = [session(source_cli=None, **key) for key in keys]
    workplace.lake.write(sessions_frame(rows), AGENT_SESSIONS, day)
    scores = [key | about | {"quality_risk": True} for key in keys]
    workplace.lake.write(frame(SESSION_EVALUATIONS.schema, scores), SESSION_EVALUATIONS, day)


def put_regressions(workplace: Workplace, **states: str) -> None:
    rows = [
        {
            "classification_label": "code",
            "model": model,
            "state": state,
            "recent_score": 70.0,
            "before_score": 80.0,
            "change": -10.0,
            "change_low": -15.0,
            "change_high": -5.0,
            "window_since": NOW - timedelta(days=7),
            "recent_runs": 30,
            "before_runs": 90,
            "before_days": 90,
            "people": 3,
            "worst_sessions": ["s1#baseline-1"],
        }
        for model, state in states.items()
    ]
    workplace.lake.write_whole(frame(MODEL_REGRESSIONS.schema, rows), MODEL_REGRESSIONS)


def put_session(workplace: Workplace, hours_ago: float, source: str) -> None:
    """Write a session of ``source`` whose newest event is ``hours_ago`` old."""
    ended = NOW - timedelta(hours=hours_ago)
    row = session(source_cli=source, started_at=ended, ended_at=ended, session_date=ended.date())
    workplace.lake.write(sessions_frame([row]), AGENT_SESSIONS, ended.date())


def test_risks_are_reported_together_and_only_new_ones_the_next_time(workplace: Workplace) -> None:
    announce(workplace, "a", kind=MODEL_FEEDBACK)
    announce(workplace, "a", "b")
    found = check_alerts(workplace.stores, NOW, LOG)
    assert str(found) == "{'quality risks': 1}"  # people read it as it is printed
    assert check_alerts(workplace.stores, NOW, LOG) == {}
    announce(workplace, "a", "b", "c", days=1)
    announce(workplace, "d", days=7)
    announce(workplace, "too old", days=8)
    assert check_alerts(workplace.stores, NOW, LOG) == {"quality risks": 1}

    assert titles(workplace) == ["2 sessions scored below their threshold"] * 2
    second = AlertStore(workplace.ledger).all()[1].alert.text
    assert [line[:2] for line in second.splitlines()[:2]] == ["c:", "d:"]


def build_failed(workplace: Workplace, *names: str) -> dict[str, Any]:
    """Build failed sessions, and return the evaluation of the first."""
    records = (
        (
            claude("user_prompt", 0, session__id=name),
            claude("api_error", 5, session__id=name, model="aspen", error="overloaded"),
        )
        for name in names
    )
    return build(workplace, *chain(*records))


def build(workplace: Workplace, *records: Any) -> dict[str, Any]:
    """Read and build records, and return the evaluation of the first session."""
    workplace.land("logs.jsonl", line(*records))
    workplace.ingest()
    workplace.build()
    rows = workplace.lake.read(SESSION_EVALUATIONS, [JUNE.date()]).sort("session_key")
    return rows.row(0, named=True)


def draw(workplace: Workplace, row: dict[str, Any]) -> None:
    names = ("session_date", "organization_id", "session_key", "profile_id", "content_hash")
    sample = AuditSample(**{name: row[name] for name in names}, drawn_at=JUNE)
    OverrideStore(workplace.ledger).add_samples([sample])


def answer(workplace: Workplace, row: dict[str, Any], score: float) -> None:
    names = ("organization_id", "session_key", "session_date", "profile_id", "profile_version")
    answered = NewOverride(
        **{name: row[name] for name in (*names, "content_hash")},
        override_score=score,
        scale_min=0,
        scale_max=100,
        automatic_score=None,
        is_confirmation=False,
        source="audit",
        annotator="ann",
        reason="read it",
    )
    OverrideStore(workplace.ledger).answer(answered, JUNE)
    workplace.build()


def posting(workplace: Workplace, url: str) -> Stores:
    """Return the stores with a webhook."""
    webhook = {"alert_webhook_url": SecretStr(url)}
    return replace(workplace.stores, settings=workplace.settings.model_copy(update=webhook))


@pytest.mark.parametrize("is_late", [False, True])
def test_no_webhook_and_no_log_shows_a_session_that_awaits_a_blind_review(
    workplace: Workplace, caplog: pytest.LogCaptureFixture, is_late: bool
) -> None:
    row = build_failed(workplace, "drawn", "other")
    if is_late:  # it is drawn after the alert, which the webhook has not accepted yet
        found = check_alerts(posting(workplace, "http://127.0.0.1:1"), JUNE, LOG)
        assert found == {"quality risks": 1, "undelivered": 1}
        caplog.clear()
    draw(workplace, row)
    with open_receiver() as receiver:
        check_alerts(posting(workplace, receiver.url), JUNE, LOG)
    ((_, _, posted),) = receiver.requests
    assert posted["text"].startswith("1 session scored below its threshold\nother#baseline-1: 0 of")
    assert "drawn" not in caplog.text + posted["text"]
    assert AlertStore(workplace.ledger).unsent() == []


def ask_for_score(workplace: Workplace, row: dict[str, Any]) -> None:
    """A person asks for the score of the session, which leaves the sample."""
    note_request(workplace.stores, "ann", (row["organization_id"], row["session_key"]), JUNE)


def fail_again_and_answer(workplace: Workplace, row: dict[str, Any]) -> None:
    error = claude("api_error", 9, session__id="drawn", model="aspen", error="overloaded")
    again = build(workplace, error)
    assert (again["effective_100"], again["content_hash"] != row["content_hash"]) == (0, True)
    answer(workplace, again, 90.0)


def succeed_and_ask(workplace: Workplace, row: dict[str, Any]) -> None:
    request = claude("api_request", 9, session__id="drawn", model="aspen")
    assert build(workplace, request)["effective_100"] is None  # no longer failed
    ask_for_score(workplace, row)


@pytest.mark.parametrize(
    ("end", "texts"),
    [
        (partial(answer, score=90.0), []),
        (partial(answer, score=10.0), ["drawn#baseline-1: 10 of 100 (human"]),
        (ask_for_score, ["drawn#baseline-1: 0 of 100 (failed"]),
        (fail_again_and_answer, []),
        (succeed_and_ask, []),
    ],
)
@pytest.mark.parametrize("first_check", ["before the draw", "while it waits", "after its end"])
def test_a_message_shows_the_score_that_counts_after_a_blind_review(
    workplace: Workplace,
    caplog: pytest.LogCaptureFixture,
    first_check: str,
    end: Callable[[Workplace, dict[str, Any]], None],
    texts: list[str],
) -> None:
    row = build_failed(workplace, "drawn")
    if first_check == "before the draw":  # it is logged, but not delivered
        check_alerts(posting(workplace, "http://127.0.0.1:1"), JUNE, LOG)
    draw(workplace, row)
    caplog.clear()
    with open_receiver() as receiver:
        stores = posting(workplace, receiver.url)
        if first_check != "after its end":
            assert check_alerts(stores, JUNE, LOG) == {}
            assert (receiver.requests, caplog.messages) == ([], [])
        end(workplace, row)
        caplog.clear()
        check_alerts(stores, JUNE, LOG)
        check_alerts(stores, JUNE, LOG)
    posted = [body["text"].partition("\n")[2] for _, _, body in receiver.requests]
    assert [text[: len(start)] for text, start in zip(posted, texts, strict=True)] == texts
    was_logged = first_check == "before the draw" and end is ask_for_score
    assert len(caplog.messages) == (0 if was_logged else len(texts))


def test_an_alert_names_a_session_that_can_no_longer_be_reviewed(workplace: Workplace) -> None:
    row = build_failed(workplace, "drawn")
    draw(workplace, row | {"profile_id": "deleted"})
    with open_receiver() as receiver:
        stores = posting(workplace, receiver.url)
        assert check_alerts(stores, JUNE, LOG) == {"quality risks": 1}
    ((_, _, posted),) = receiver.requests
    assert "drawn#baseline-1: 0 of 100 (failed" in posted["text"]


def test_a_risk_waits_for_its_own_file_alone_and_stops_no_other_check(
    workplace: Workplace,
) -> None:
    build_failed(workplace, "torn")
    put_session(workplace, (NOW - JUNE) / timedelta(hours=1) + 30, "codex")  # an earlier date
    earlier, path = sorted(paths_of(workplace.lake, AGENT_SESSIONS))
    whole = path.read_bytes()
    path.write_bytes(b"damaged")
    with open_receiver() as receiver:
        stores = posting(workplace, receiver.url)
        found = {"quality risks": 1, "damaged files": 1}
        assert check_alerts(stores, JUNE, LOG) == found
        path.write_bytes(whole)
        earlier.write_bytes(b"damaged")
        assert "damaged files" in check_alerts(stores, JUNE, LOG)
    titles = [body["text"].partition("\n")[0] for _, _, body in receiver.requests]
    assert "1 session scored below its threshold" in titles


def test_a_session_that_moved_to_an_earlier_date_is_told(workplace: Workplace) -> None:
    build_failed(workplace, "moved")
    check_alerts(posting(workplace, "http://127.0.0.1:1"), JUNE, LOG)
    span = SpanSent("t1", "t1a", None, "invoke_agent", -13 * 3600, 10, "moved")
    hook = claude("hook_execution_start", -13 * 3600, session__id="moved")
    workplace.land("late.jsonl", spans(span) + line(hook))
    workplace.ingest()
    workplace.build()
    (moved,) = workplace.sessions().to_dicts()
    assert moved["session_date"] == JUNE.date() - timedelta(days=1)
    with open_receiver() as receiver:
        send_pending(posting(workplace, receiver.url), JUNE, LOG)
    ((_, _, posted),) = receiver.requests
    assert "moved#baseline-1: 0 of 100 (failed" in posted["text"]


@pytest.mark.parametrize(("days", "left"), [(7, 1), (8, 0)])
def test_an_alert_waits_for_a_review_for_a_week(workplace: Workplace, days: int, left: int) -> None:
    row = build_failed(workplace, "drawn")
    check_alerts(posting(workplace, "http://127.0.0.1:1"), JUNE, LOG)
    draw(workplace, row)
    with open_receiver() as receiver:
        later = JUNE + timedelta(days=days)
        send_pending(posting(workplace, receiver.url), later, LOG)
    assert (receiver.requests, len(AlertStore(workplace.ledger).unsent())) == ([], left)


def test_an_alert_whose_scores_cannot_be_read_is_sent_when_they_can(workplace: Workplace) -> None:
    build_failed(workplace, "torn")
    check_alerts(posting(workplace, "http://127.0.0.1:1"), JUNE, LOG)
    (path,) = paths_of(workplace.lake, AGENT_SESSIONS)
    whole = path.read_bytes()
    with open_receiver() as receiver:
        stores = posting(workplace, receiver.url)
        for content, number in ((b"damaged", 0), (whole, 1)):
            path.write_bytes(content)
            assert send_pending(stores, JUNE, LOG) == 0
            assert len(receiver.requests) == number


def test_an_undelivered_alert_about_scores_that_are_no_risk_now_has_nothing_to_tell(
    workplace: Workplace,
) -> None:
    row = build_failed(workplace, "corrected")
    check_alerts(posting(workplace, "http://127.0.0.1:1"), JUNE, LOG)
    draw(workplace, row)
    answer(workplace, row, 90.0)
    with open_receiver() as receiver:
        assert send_pending(posting(workplace, receiver.url), JUNE, LOG) == 0
    assert (receiver.requests, AlertStore(workplace.ledger).unsent()) == ([], [])


def test_a_regression_is_reported_once_and_again_when_it_returns(
    workplace: Workplace,
) -> None:
    put_regressions(workplace, aspen="alert", birch="alert", cedar="lower")
    assert check_alerts(workplace.stores, NOW, LOG) == {"regressions": 2}
    put_regressions(workplace, aspen="steady", birch="alert", cedar="lower")
    assert check_alerts(workplace.stores, NOW, LOG) == {}
    put_regressions(workplace, aspen="alert", birch="alert", cedar="lower")
    assert check_alerts(workplace.stores, NOW, LOG) == {"regressions": 1}

    assert titles(workplace) == [
        f"{name} got worse (label code)" for name in ("aspen", "birch", "aspen")
    ]


def test_a_row_of_an_earlier_version_waits_for_the_next_comparison(workplace: Workplace) -> None:
    put_regressions(workplace, aspen="alert")
    old = workplace.lake.read_whole(MODEL_REGRESSIONS)
    assert check_alerts(workplace.stores, NOW, LOG) == {"regressions": 1}
    empty = pl.lit(None).cast(old["window_since"].dtype).alias("window_since")
    workplace.lake.write_whole(old.with_columns(empty), MODEL_REGRESSIONS)
    assert check_alerts(workplace.stores, NOW, LOG) == {}
    put_regressions(workplace, aspen="alert")
    assert check_alerts(workplace.stores, NOW, LOG) == {}  # it was never over


def test_silence_is_not_reported_while_telemetry_waits_to_be_read_or_built(
    workplace: Workplace,
) -> None:
    put_session(workplace, 200, "claude_code")
    workplace.land("logs.jsonl", session_with_texts("a"))
    assert check_alerts(workplace.stores, NOW, LOG) == {}
    workplace.ingest()
    assert check_alerts(workplace.stores, NOW, LOG) == {}
    queue = RebuildQueue(workplace.ledger)
    (due,) = (row for row in queue.all() if not row.is_built)
    queue.mark_failed(due.session_date, due.version, "torn", NOW)  # it waits for a retry
    assert check_alerts(workplace.stores, NOW, LOG) == {}
    queue.touch({due.session_date}, NOW)
    workplace.build()
    workplace.land("logs.jsonl", b"half a li", "ab")
    # An override of a score queues its date, too, without any telemetry.
    queue.touch({JUNE.date()}, NOW)
    assert check_alerts(workplace.stores, NOW, LOG) == {"silent sources": 1}


def test_a_program_whose_newest_telemetry_cannot_be_built_is_not_called_silent(
    workplace: Workplace,
) -> None:
    put_session(workplace, 200, "claude_code")
    workplace.land("logs.jsonl", session_with_texts("a"))
    workplace.ingest()
    queue, day = RebuildQueue(workplace.ledger), JUNE.date()

    def fail() -> datetime:
        (due,) = (row for row in queue.all() if not row.is_built)
        for _ in range(4):
            queue.mark_failed(day, due.version, "torn", JUNE)
        return due.touched_at

    read_at = fail()
    # Its telemetry came now, long after the session began: silence is known 96 hours later.
    assert read_at - JUNE > timedelta(days=5)
    for later, found in ((0, "parked dates"), (95, None)):
        at = read_at + timedelta(hours=later)
        assert check_alerts(workplace.stores, at, LOG) == ({found: 1} if found else {})
    # An override at 90 hours is no telemetry.
    queue.touch([day], read_at + timedelta(hours=90))
    assert fail() == read_at + timedelta(hours=90)
    at = read_at + timedelta(hours=97)
    assert check_alerts(workplace.stores, at, LOG) == {"silent sources": 1}


def test_a_source_that_falls_silent_is_reported_once_each_time(workplace: Workplace) -> None:
    put_session(workplace, 95, "claude_code")
    put_session(workplace, 97 + 24, "codex")
    put_session(workplace, 24 * 40, "gemini_cli")  # no longer expected
    assert check_alerts(workplace.stores, NOW, LOG) == {"silent sources": 1}
    assert check_alerts(workplace.stores, NOW, LOG) == {}
    later = NOW + timedelta(hours=2)
    assert check_alerts(workplace.stores, later, LOG) == {"silent sources": 1}
    # Both are back, and one of them goes again.
    put_session(workplace, 1, "codex")
    put_session(workplace, 25, "claude_code")
    assert check_alerts(workplace.stores, NOW, LOG) == {}
    assert check_alerts(workplace.stores, NOW + timedelta(hours=72), LOG) == {"silent sources": 1}

    names = [title.split()[3] for title in titles(workplace)]
    assert names == ["codex", "claude_code", "claude_code"]
    # After a month it is no longer expected, and its alert ends.
    assert check_alerts(workplace.stores, NOW + timedelta(days=60), LOG) == {}
    assert all(row.ended_at is not None for row in AlertStore(workplace.ledger).all())


SOON = NOW.replace(year=2026, month=6, day=2)
"""The day after the sessions: the checks look at the last seven."""


def damage(workplace: Workplace, table: Table) -> str:
    """Change a byte of the first file of a table; return its name."""
    path = paths_of(workplace.lake, table)[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return str(path)


def test_a_service_finds_it_by_itself(workplace: Workplace) -> None:
    """The overview reads no events: a file of them is found by the look of the service."""
    fill(workplace, world.session("s1"))
    name = damage(workplace, AGENT_EVENTS)
    with Service(workplace, SOON).client() as client:
        deadline = monotonic() + 30
        while name not in (page := client.get("/").text) and monotonic() < deadline:
            sleep(0.1)
    assert name in page.partition('id="needs"')[2]


def test_damaged_lines_in_quarantine_leave_the_other_checks(
    workplace: Workplace,
) -> None:
    fill(workplace, world.session("s1"), b"broken\n")
    name = damage(workplace, QUARANTINE)
    answer = Service(workplace, SOON).client().get("/operations/doctor")
    assert answer.status_code == 200
    assert f"{name} is damaged" in answer.text
