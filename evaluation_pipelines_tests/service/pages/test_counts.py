"""Every count on a page that is a link is the length of the list behind it."""

import html
import logging
import re
from collections.abc import Iterator

import polars as pl
import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.attention.checks import check_quality_risks
from evaluation_pipelines.schemas import EXTERNAL_SIGNALS
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines_tests.scorecards.calls_profile import DAY, build, profile_file
from evaluation_pipelines_tests.service.answers import work
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.agent_evaluations import export_agents
from evaluation_pipelines_tests.service.pages.tables import tables_of
from evaluation_pipelines_tests.workplace import NOW, open_workplace

FIRST = NOW.replace(month=6, day=2)
"""The day after the sessions."""

PAGES = ("/", "/trends?from=2026-06-01&to=2026-06-02&by=model", "/trends?step=week",
         "/operations/books/2026-06-01", "/agents", "/agents/agent-0",
         "/tools?from=2026-06-01&to=2026-06-02",
         "/models?from=2026-06-01&to=2026-06-02", "/reviews", "/operations/quarantine")  # fmt: skip

_COUNT = re.compile(
    r"^([\d,]+)$|^([\d,]+) (?:session|unreadable line)s?\b|: ([\d,]+)$|"
    r", ([\d,]+) sessions?(?:\.|$)"
)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Pages of a day with red sessions: some of an alert, one of them, like others, to review."""
    with open_workplace(tmp_path_factory.mktemp("counted")) as workplace:
        profile_file(workplace)
        workplace.land("logs.jsonl", b"".join(map(work_of, range(8))) + b"broken\nworse\n")
        build(workplace, FIRST)
        assert check_quality_risks(workplace.stores, FIRST, logging.getLogger("checks")) == 1
        workplace.land("more.jsonl", b"".join(map(work_of, range(13, 16))))
        build(workplace, FIRST)
        export_agents(workplace, FIRST)
        rejects = [{"line": 3, "reason": "not JSON"}]
        signals = {"path": "signals/a.jsonl", "rejected": 1, "rejects": rejects}
        frame = pl.DataFrame([signals], schema=EXTERNAL_SIGNALS.schema)
        workplace.lake.write(frame, EXTERNAL_SIGNALS, None)
        keys = [f"s{number}#baseline-1" for number in (0, 1, 7)]
        samples = [AuditSample(DAY, "acme", key, "calls", "0", NOW) for key in keys]
        OverrideStore(workplace.ledger).add_samples(samples)
        yield Service(workplace, FIRST).client()


def work_of(number: int) -> bytes:
    """Return a session of one to eight calls of ten, so that some are red: 100 - 10 each."""
    calls, agent, model = number % 8 + 1, f"agent-{number % 2}", f"model-{number % 3}"
    return work("acme", f"s{number}", number * 100, calls=calls, agent=agent, model=model)


def counts_of(page: str) -> list[tuple[str, int]]:
    """Return the URL of each link whose text has a count, also of those in charts."""
    links = re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(?:<title>)?([^<]*)<', page)
    found = ((url, _COUNT.search(html.unescape(text))) for url, text in links)
    return [
        (html.unescape(url), int(next(filter(None, number.groups())).replace(",", "")))
        for url, number in found
        if number
    ]


def length_of(client: TestClient, url: str) -> int:
    """Return the length of the list at a URL, as its rows or as its own heading counts it."""
    page = client.get(url).text
    if url.startswith("/sessions"):
        (number,) = re.findall(r">([\d,]+)(?: of [\d,]+)? sessions", page)
        return int(number.replace(",", ""))
    first = {"/operations/books": "Session", "/reviews": "Session", "/operations/quar": "File"}
    heading = next(name for path, name in first.items() if url.startswith(path))
    return sum(len(rows) for rows in tables_of(page) if next(iter(rows[0])) == heading)


@pytest.mark.parametrize("page", PAGES)
def test_a_count_that_is_a_link_is_the_length_of_its_list(counted: TestClient, page: str) -> None:
    answer = counted.get(page)
    assert answer.status_code == 200, answer.text
    for url, number in counts_of(answer.text):
        assert length_of(counted, url) == number, url


def test_the_walk_finds_the_counts_of_the_overview(counted: TestClient) -> None:
    found = {url.partition("?")[0] for url, _ in counts_of(counted.get("/").text)}
    assert found == {"/sessions", "/reviews", "/operations/quarantine"}


def test_a_session_that_a_person_scored_high_since_is_no_risk(counted: TestClient) -> None:
    risk = '<a href="/sessions?alert=1">1 session scored below its threshold</a>'
    assert risk in counted.get("/").text
    said = {"score": 90, "annotator": "Ann", "reason": "The plan was read."}
    path = "/api/v1/sessions/s6%23baseline-1/override"
    assert counted.post(path, json=said).status_code == 200
    assert "below its threshold" not in counted.get("/").text
    assert length_of(counted, "/sessions?alert=1") == 0
