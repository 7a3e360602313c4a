"""What the first page says there is to do, and to whom it says so."""

import re

from evaluation_pipelines.access.domain.caller import Role
from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import Alert, quality_risk_alert
from evaluation_pipelines.scorecards.ledger.override_store import AuditSample, OverrideStore
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.judged import JUNE_1, fill
from evaluation_pipelines_tests.otlp_builders import session
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
        "Lines of the last 7 days in quarantine: 1",
        "Reviews that are due: 1",
    ]
    for _ in range(4):
        RebuildQueue(workplace.ledger).mark_failed(JUNE_1, 2, "damaged", NOW)
    assert "Dates that cannot be built: 1" in needs(service)
    # What is about all organizations is not for those of one.
    assert needs(service, service.key(Role.READER, "default")) == ["Reviews that are due: 1"]
    assert needs(service, service.key(Role.READER, "acme")) == []


def test_an_alert_has_its_lines_and_leads_to_what_it_is_about(service: Service) -> None:
    risk = {
        "session_key": "s1#baseline-1",
        "effective_100": 12.0,
        "effective_source": "scorecard",
        "model": "<b>aspen",
        "classification_label": "code",
    }
    AlertStore(service.workplace.ledger).put(quality_risk_alert("1", [risk]), NOW)
    page = service.client().get("/").text.partition('id="needs"')[2]
    assert '<a href="/sessions?score=red">1 session is a quality risk</a>' in page
    lines = re.findall(r'<span class="small muted">([^<]*)<', page.partition("</ul>")[0])
    assert [each.partition(":")[0] for each in lines] == [
        "s1#baseline-1",
        "Review them",
        "Since 2026-12-01 00",
    ]
