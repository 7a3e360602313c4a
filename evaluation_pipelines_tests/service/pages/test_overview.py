"""What the first page says there is to do, and to whom it says so."""

import logging
import re
from datetime import UTC, datetime, timedelta

from evaluation_pipelines.access.domain.caller import Role
from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.checks import check_quality_risks
from evaluation_pipelines.alerts.domain.messages import Alert, open_books_alert, stale_source_alert
from evaluation_pipelines.scorecards.ledger.override_store import AuditSample, OverrideStore
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.judged import JUNE_1, fill
from evaluation_pipelines_tests.otlp_builders import claude, line, session
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW


def needs(service: Service, key: str | None = None) -> list[str]:
    page = service.client(key).get("/").text
    return re.findall(r"<li[^>]*>(?:<a [^>]*>|<strong>)([^<]+)<", page.partition('id="needs"')[2])


def test_the_first_page_says_what_there_is_to_do(service: Service) -> None:
    assert needs(service) == []
    workplace = service.workplace
    fill(workplace, session("s1"), b"broken\n")
    AlertStore(workplace.ledger).put(Alert("stale", "agents", "Silent", "Nothing arrives."), NOW)
    sample = AuditSample(JUNE_1, "default", "s1#baseline-1", "calls", "hash", NOW)
    OverrideStore(workplace.ledger).add_samples([sample])
    RebuildQueue(workplace.ledger).touch({JUNE_1}, NOW)
    assert needs(service) == [
        "Silent",
        "Dates to build: 1",
        "Entries in quarantine: 1",
        "Reviews that are due: 1",
    ]
    for _ in range(4):
        RebuildQueue(workplace.ledger).mark_failed(JUNE_1, 2, "damaged", NOW)
    assert "Dates that cannot be built: 1" in needs(service)
    # What is about all organizations is not for those of one.
    assert needs(service, service.key(Role.READER, "default")) == ["Reviews that are due: 1"]
    assert needs(service, service.key(Role.READER, "acme")) == []


def needs_of(service: Service) -> str:
    page = service.client().get("/").text
    return page.partition('id="needs"')[2].partition("</section>")[0]


def test_an_alert_of_risks_leads_to_its_sessions_and_says_why_they_are(service: Service) -> None:
    failed = claude("api_error", 5, session__id="s1", model="<b>aspen", error="overloaded")
    fill(service.workplace, line(claude("user_prompt", 0, session__id="s1"), failed))
    then = datetime(2026, 6, 2, tzinfo=UTC)
    assert check_quality_risks(service.workplace.stores, then, logging.getLogger("checks")) == 1
    page = needs_of(service)
    assert '<a href="/sessions?alert=1">1 session is a quality risk</a>' in page
    link = (
        '<a href="/sessions/s1%23baseline-1/score?organization=default">06-01 12:00 claude-code, '
    )
    assert link in page
    assert "it failed: 1 error" in page
    assert "Since 2026-06-01 12:00" in page  # when the session began, not when it was seen
    assert "evaluation-pipelines scorecards query" not in page
    assert "All are of one alert" in service.client().get("/sessions?alert=1").text
    assert service.client().get("/sessions?alert=2").status_code == 404
    assert service.client().get("/sessions?alert=x").status_code == 400


def test_other_alerts_say_since_when_and_lead_to_a_page(service: Service) -> None:
    fill(service.workplace, session("s1"))
    store = AlertStore(service.workplace.ledger)
    newest = datetime(2026, 6, 1, 12, tzinfo=UTC)
    store.put(stale_source_alert("claude_code", newest, timedelta(hours=4)), NOW)
    store.put(open_books_alert(JUNE_1, "no balance"), NOW)
    page = needs_of(service)
    assert 'href="/sessions?program=claude_code">no telemetry of claude_code' in page
    assert 'href="/books/2026-06-01">the books of 2026-06-01' in page
    assert re.findall(r"Since ([\d: -]+)<", page) == ["2026-06-01", "2026-06-01 12:00"]
