"""What the first page says there is to do, to whom it says so, and lines that cannot be read."""

import logging
import re
from datetime import UTC, date, datetime
from time import monotonic, sleep

import polars as pl
import pytest
from starlette.requests import HTTPConnection

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.checks import check_quality_risks
from evaluation_pipelines.attention.domain.messages import (
    OPEN_BOOKS,
    reported,
)
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    EVALUATION_BOOKS,
    JUDGE_CHANGES,
    SESSION_EVALUATIONS,
)
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.service.mcp_server import Questions
from evaluation_pipelines.service.pages import operations
from evaluation_pipelines.service.pages.rendering import Frame, render
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.judged import JUNE_1, fill
from evaluation_pipelines_tests.judging.ledger.score_builders import DONE, begun
from evaluation_pipelines_tests.scorecards.calls_profile import build
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.tables import tables_of
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line, session
from evaluation_pipelines_tests.world.lake_files import paths_of
from evaluation_pipelines_tests.world.ledger import NOON


def page_of(service: Service, key: str | None = None) -> str:
    """Return the first page when all is examined."""
    client, deadline = service.client(key), monotonic() + 60
    while "being checked" in (page := client.get("/").text) and monotonic() < deadline:
        sleep(0.1)
    return page


def needs(service: Service, key: str | None = None) -> list[str]:
    page = page_of(service, key)
    listed = page.partition('id="needs"')[2]
    return re.findall(r"<li class[^>]*>\s*<a [^>]*>([^<]+)<", listed)


def test_the_first_page_says_what_there_is_to_do(service: Service) -> None:
    assert needs(service) == ["No telemetry yet"]
    workplace = service.workplace
    fill(workplace, session("s1"), b"broken\n")
    sample = AuditSample(JUNE_1, "default", "s1#baseline-1", "calls", "hash", NOW)
    OverrideStore(workplace.ledger).add_samples([sample])
    RebuildQueue(workplace.ledger).touch({JUNE_1}, NOW)
    assert needs(service) == [
        *("Telemetry is read but not built yet", "1 unreadable line"),
        "1 session to review blind",
    ]
    for _ in range(4):
        RebuildQueue(workplace.ledger).mark_failed(JUNE_1, 2, "damaged", NOW)
    assert "Build of 2026-06-01 failed 4 times and stopped retrying" in needs(service)
    # What is about all organizations is not for those of one.
    reader = service.key(Role.READER, "default")
    assert needs(service, reader) == ["1 session to review blind"]
    assert needs(service, service.key(Role.READER, "acme")) == []


def test_a_damaged_file_and_unread_telemetry_come_first(workplace: Workplace) -> None:
    service = Service(workplace, datetime(2026, 6, 1, 13, tzinfo=UTC))
    workplace.land("logs.jsonl", session("s1"))
    unread, *_ = needs(service)
    assert "of telemetry not read yet" in unread
    fill(workplace, session("s1"))
    assert not any("read" in need for need in needs(service))
    (path,) = paths_of(workplace.lake, AGENT_SESSIONS)
    service.client().get("/")
    path.write_bytes(b"damaged")
    answer = service.client().get("/operations/doctor")
    assert answer.status_code == 200
    assert answer.text.count(path.name) == 1
    assert "evaluation-pipelines build --damaged" in answer.text
    assert "All dates are built" in answer.text
    assert path.name in needs(service)[0]


def needs_of(service: Service) -> str:
    page = page_of(service)
    return page.partition('id="needs"')[2].partition("</section>")[0]


def test_an_alert_of_risks_leads_to_its_sessions_and_says_why_they_are(service: Service) -> None:
    failed = claude("api_error", 5, session__id="s1", model="<b>aspen", error="overloaded")
    fill(service.workplace, line(claude("user_prompt", 0, session__id="s1"), failed))
    then = datetime(2026, 6, 2, tzinfo=UTC)
    assert check_quality_risks(service.workplace.stores, then, logging.getLogger("checks")) == 1
    page = needs_of(service)
    assert '<a href="/sessions?alert=1">1 session scored below its threshold</a>' in page
    link = '<a href="/sessions/s1%23baseline-1/score?organization=default">s1#baseline-1</a>: '
    assert f"{link}score 0.0, failed (06-01 12:00, claude-code, &lt;b&gt;aspen)" in page
    assert "since 2026-06-01 12:00" in page  # when the session began, not when it was seen
    assert "evaluation-pipelines scorecards list" not in page
    assert "From one alert" in service.client().get("/sessions?alert=1").text
    assert service.client().get("/sessions?alert=2").status_code == 404
    assert service.client().get("/sessions?alert=x").status_code == 400


def test_what_was_read_and_not_stored_is_said_with_the_books_that_have_it(
    service: Service,
) -> None:
    fill(service.workplace, session("s1"), line(claude("user_prompt", 5, session__id="")))
    said = ": 1 without a session."
    newest = service.client().get("/operations/books").text
    assert said in newest
    assert 'href="#not-stored"' in newest
    day = service.client().get(f"/operations/books/{NOW:%Y-%m-%d}").text
    rows = day.partition('aria-label="Not part of a session"')[2]
    assert 'events without a session</td><td class="n">1<' in rows
    for section in (rows, newest):
        named = section.partition('id="not-stored"')[2]
        assert '<td>claude_code</td><td class="name">user_prompt</td><td class="n">1<' in named
    one = service.client(service.key(Role.READER, "default")).get("/operations/books").text
    assert "not stored since" not in one


def test_silent_programs_and_open_books_lead_to_a_page(workplace: Workplace) -> None:
    fill(workplace, session("s1"))
    then = datetime(2026, 6, 20, tzinfo=UTC)
    AlertStore(workplace.ledger).put(reported(OPEN_BOOKS, JUNE_1, "no balance"), NOW)
    page = needs_of(Service(workplace, then))
    assert 'href="/operations/doctor">No telemetry from claude_code for over 96 hours' in page
    said = "claude_code</a>: last event 2026-06-01 12:00"
    assert f'href="/sessions?program=claude_code">{said}' in page
    assert 'href="/operations/books/2026-06-01">Books of 2026-06-01 are not complete' in page
    assert "since 2026-06-01<" in page


CHANGE = {"change_id": "1", "changed_on": date(2026, 6, 2), "judge_profile_id": "default",
          "former_model": "judge-1", "new_model": "judge-2", "trend": "bridged",
          "judges_part": 4.0}  # fmt: skip


def test_the_mean_of_a_day_is_that_of_the_trends_after_a_change_of_the_judge(
    workplace: Workplace,
) -> None:
    told = claude("user_prompt", 0, session__id="s1"), claude("assistant_response", 1,
                                                              session__id="s1")  # fmt: skip
    fill(workplace, line(*told))
    (row,) = workplace.lake.read(AGENT_SESSIONS, [JUNE_1]).to_dicts()
    named = {name: row[name] for name in ("organization_id", "content_hash", "session_date")}
    scores = ScoreStore(workplace.ledger)
    score_id = scores.create(begun(row["session_key"], **named), NOON).score_id
    scores.complete(score_id, DONE, NOON)  # 64 of judge-1
    RebuildQueue(workplace.ledger).touch({JUNE_1}, NOW)
    build(workplace)
    changes = pl.DataFrame([CHANGE], schema=JUDGE_CHANGES.schema)
    workplace.lake.write(changes, JUDGE_CHANGES, None)
    then = datetime(2026, 6, 3, tzinfo=UTC)
    client = Service(workplace, then).client()
    means = [
        row["Mean score"]
        for page in ("/", "/trends")
        for table in tables_of(client.get(page).text)
        for row in table
        if row.get("Day") == "2026-06-01"
    ]
    assert means == ["68.0", "68.0"]
    assert "on the scale of the new judge" in client.get("/").text
    week = Questions(workplace.stores, lambda: then).my_week()
    assert (week["week"]["mean_score"], week["are_mean_scores_comparable"]) == (68.0, True)
    # If days before and after cannot be compared, a name has a row of each.
    cut = changes.with_columns(trend=pl.lit("cut"))
    workplace.lake.write(cut, JUDGE_CHANGES, None)
    week = Questions(workplace.stores, lambda: then).my_week()
    assert (week["week"]["mean_score"], week["are_mean_scores_comparable"]) == (64.0, False)
    page = client.get("/trends?by=agent&step=all").text
    assert ' <span class="small below">judge before 2026-06-02</span></td>' in page


def test_older_sessions_do_not_make_the_week_that_an_agent_asks_for_incomparable(
    workplace: Workplace,
) -> None:
    """Their scores contain more than the judge score: the trend over them is cut."""
    days = {"old#baseline-1": date(2026, 5, 2), "new#baseline-1": JUNE_1}
    fill(workplace, *(
        line(claude("user_prompt", at, session__id=name),
             claude("assistant_response", at + 1, session__id=name))
        for name, at in (("old", -30 * DAY_S), ("new", 0))
    ))  # fmt: skip
    scores = ScoreStore(workplace.ledger)
    for key, day in days.items():
        (row,) = workplace.lake.read(AGENT_SESSIONS, [day]).to_dicts()
        named = {name: row[name] for name in ("organization_id", "content_hash", "session_date")}
        scores.complete(scores.create(begun(key, **named), NOON).score_id, DONE, NOON)
    RebuildQueue(workplace.ledger).touch(days.values(), NOW)
    build(workplace)
    mixed = workplace.lake.read(SESSION_EVALUATIONS, [date(2026, 5, 2)])
    mixed = mixed.with_columns(effective_source=pl.lit("scorecard"), profile_id=pl.lit("default"))
    workplace.lake.write(mixed, SESSION_EVALUATIONS, date(2026, 5, 2))
    workplace.lake.write(pl.DataFrame([CHANGE], JUDGE_CHANGES.schema), JUDGE_CHANGES, None)
    then = datetime(2026, 6, 3, tzinfo=UTC)
    week = Questions(workplace.stores, lambda: then).my_week()
    assert (week["week"]["mean_score"], week["are_mean_scores_comparable"]) == (68.0, True)


def test_sessions_of_a_day_without_books_are_counted_and_said(workplace: Workplace) -> None:
    fill(workplace, session("s1"), session("s2", DAY_S))
    manifest = Manifest(workplace.ledger)
    (part,) = manifest.current(EVALUATION_BOOKS.name, JUNE_1)
    manifest.withdraw(part.part_id, NOW)  # as if they had not balanced: they are not written
    service = Service(workplace, datetime(2026, 6, 3, tzinfo=UTC))
    for organization in (None, "default"):
        client = service.client(service.key(Role.READER, organization))
        page, day = (client.get(path).text for path in ("/", "/operations/books/2026-06-01"))
        lost = " ".join(page.partition('id="week"')[2].partition("</section>")[0].split())
        scored = "Coverage: 2 of 2 sessions have a score (2026-05-06 to 2026-06-02, 28 days)."
        assert scored in lost
        link = '<a href="/operations/books/2026-06-01">2026-06-01</a>'
        assert f"Not in any books yet: 1 session of {link}." in lost
        assert "Not built" not in day
        assert ">1 session, 1 scored</h2>" in day
        assert 'href="/operations/books/2026-06-02">2026-06-02</a>' in day


THREE_DAYS = "2 sessions of 2026-06-09, 3 of 2026-06-08, 4 of 2026-06-07"


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((1,), "1 session of 2026-06-09."),
        ((1200,), "1,200 sessions of 2026-06-09."),
        ((1, 3), "1 session of 2026-06-09 and 3 of 2026-06-08."),
        ((12, 3, 1), "12 sessions of 2026-06-09, 3 of 2026-06-08, and 1 of 2026-06-07."),
        ((2, 3, 4, 9), f"{THREE_DAYS}, and sessions of 1 more day."),
        ((2, 3, 4, 9, 9), f"{THREE_DAYS}, and sessions of 2 more days."),
    ],
)
def test_days_without_books_are_a_sentence(numbers: tuple[int, ...], words: str) -> None:
    days = [(date(2026, 6, 9 - place), number) for place, number in enumerate(numbers)]
    scope = {"type": "http", "path": "/", "headers": [], "query_string": b""}

    content = {"recent": {"without_books": days}}
    page = render(Frame(HTTPConnection(scope)), "without_books", content)

    said = re.sub("<[^>]*>", "", bytes(page.body).decode()).strip()
    assert said == f"Not in any books yet: {words}"


def test_today_is_shown_unfinished_beside_the_last_complete_days(workplace: Workplace) -> None:
    fill(workplace, session("s1"), session("s2"), session("s3", DAY_S))
    service = Service(workplace, datetime(2026, 6, 2, 20, tzinfo=UTC))
    page = " ".join(service.client().get("/").text.split())
    week = page.partition('id="week"')[2].partition("</section>")[0]
    assert re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)<", week)[0] == ("Sessions", "2")
    assert "2026-05-26 to 2026-06-01, 7 days." in week
    today = '<a href="/sessions?from=2026-06-02&amp;to=2026-06-02">1 session</a>'
    assert f"Today so far, unfinished: {today}, mean score" in week
    assert "2026-06-02</a> unfinished</td>" in page


def test_unreadable_lines_are_counted_and_listed_with_place_and_reason(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, good = service.client(), session("s1")
    assert client.get("/operations/quarantine").text.count("No unreadable lines.") == 2
    hostile, other = b"<img src=x onerror=1>\n", b"broken\n" * 500 + b"\xff\n"
    fill(service.workplace, good, hostile, other, b'{"longer": "\xff"}\n')
    # 1 + 500 that are not JSON, and two in another encoding.
    overview = client.get("/").text
    assert "503 unreadable lines</a>" in overview
    assert 'href="/operations/quarantine?since=2026-11-25"' in overview
    assert "503 unreadable lines</a>" in client.get("/operations/doctor").text
    page = client.get("/operations/quarantine?since=2026-11-24").text
    assert "Telemetry since 2026-11-24: 503</h2>" in page
    assert "Reasons: 2</summary><p>not JSON (501), not UTF-8 (2).</p>" in page
    assert f"at byte {len(good):,}, 21 bytes<" in page
    assert 'data-name="Lines">500<' in page
    assert "not JSON: Expecting value (character 0)<" in page
    assert "logs.jsonl" in page
    assert f":{len(good)}</code>" in page
    assert "<img" not in page
    monkeypatch.setattr(operations, "_MOST_ENTRIES", 1)
    cut = client.get("/operations/quarantine").text
    assert "Telemetry: 503</h2>" in cut
    assert "Reasons of the latest 1 entries: 1</summary>" in cut
