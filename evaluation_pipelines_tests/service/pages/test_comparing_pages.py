"""Models, agents and trends: who sees what, the same figures as analysts, hostile text."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import duckdb
import polars as pl
import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.caller import Role
from evaluation_pipelines.comparison.compare_models import write_comparison
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.service.recent_comparison import Asked
from evaluation_pipelines_tests.service.answers import answering
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.agent_evaluations import evaluate, export_agents
from evaluation_pipelines_tests.service.pages.hostile import (
    payload,
)
from evaluation_pipelines_tests.service.pages.tables import tables_of
from evaluation_pipelines_tests.service.scoring_service import ScoringService
from evaluation_pipelines_tests.workplace import NOW

HTML = {"Accept": "text/html"}
DAYS = "from=2026-06-01&to=2026-06-02"
EMPTY = ("/models", "/agents", "/trends", "/judge")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Sessions and agents of acme and beta; tests only read, and make keys."""
    with answering(tmp_path_factory.mktemp("compared")) as service:
        export_agents(service.workplace)
        evaluate(service.workplace, "acme", "scout", 60)
        evaluate(service.workplace, "beta", "scout", 3)
        yield service


@pytest.fixture(scope="module")
def keys(compared: Service) -> dict[tuple[Role, str | None], str]:
    roles = (Role.INGEST, Role.READER)
    return {
        (role, owner): compared.key(role, owner)
        for role in roles
        for owner in ("acme", "beta", None)
    }


def reader(service: Service, key: str | None = None) -> TestClient:
    client = service.client(key)
    client.headers.update(HTML)
    return client


@pytest.fixture
def client(compared: Service, keys: dict[tuple[Role, str | None], str]) -> TestClient:
    """A browser of someone who sees all organizations."""
    return reader(compared, keys[Role.READER, None])


def wait_for_comparison(client: TestClient, page: str) -> str:
    """Return a page of models after its comparison was computed."""
    assert client.get(page.replace("/models", "/models.csv")).status_code == 200
    return client.get(page).text


def rows_of(content: bytes) -> pl.DataFrame:
    return pl.read_csv(content, infer_schema_length=None)


def test_figures_equal_those_of_the_analysts_database(
    compared: Service, client: TestClient
) -> None:
    stores = compared.workplace.stores
    shown = {
        name: rows_of(client.get(f"/{name}.csv?{fields}").content)
        for name, fields in (
            ("models", DAYS),
            ("trends", f"{DAYS}&by=model&step=week"),
            ("agents", "sort=agent"),
        )
    }
    known: dict[Asked, Any] = compared.app.state.recent_comparison._known
    write_comparison(stores, next(reversed(known.values())).computed.result())
    publish_analytics(stores, NOW)
    with duckdb.connect(str(stores.settings.analytics_path), read_only=True) as database:
        models = database.sql(
            "select model, classification_label, runs, avg_score, avg_cost_usd "
            "from model_comparison"
        ).pl()
        trends = database.sql(
            """
            select date_trunc('week', session_date) as period, sessions.model as name,
                count(*) as sessions, count(effective_100) as scored, avg(effective_100) as quality,
                sum(sessions.cost_usd) as cost_usd, avg(total_tokens) as tokens_per_session,
                sum(total_tools) as calls, sum(tools_failed) as failed_calls
            from agent_sessions as sessions
            join session_evaluations as evaluated using (organization_id, session_key, session_date)
            group by all order by 1, 2
            """
        ).pl()
        agents = database.sql(
            """
            select organization_id, agent_id, eval_count, pass_rate, streak
            from agent_scores order by agent_id, organization_id
            """
        ).pl()
    assert models.height == 1
    assert shown["models"].select(models.columns).rows() == models.rows()
    assert trends.height == 1
    ours = shown["trends"].select(trends.columns).drop("period")
    for mine, theirs in zip(ours.rows(), trends.drop("period").rows(), strict=True):
        assert mine == pytest.approx(theirs)
    exported = shown["agents"].filter(pl.col("agent_id") != "scout").select(agents.columns)
    assert agents.height == 2
    assert sorted(exported.rows()) == sorted(agents.rows())


def test_models_are_compared_for_a_label_and_a_time(client: TestClient) -> None:
    page = wait_for_comparison(client, f"/models?{DAYS}&label=simple")
    assert "Sessions that started from 2026-06-01 to 2026-06-02 (UTC), label simple" in page
    assert (
        "Too few to compare models, which takes 30 sessions of each: simple (only one model, "
        in page
    )
    link = re.search(r'href="(/sessions\?[^"]*model=model-a[^"]*)"', page)
    assert link
    sessions = client.get(link[1].replace("&amp;", "&")).text
    assert "5 of 5 sessions" in sessions
    assert "/sessions/a1%23baseline-1?organization=acme" in page  # one of the worst
    left_out = page[page.index('id="left-out"') :]
    assert left_out.count("/sessions/a1%23baseline-1?organization=acme") == 1  # an example
    assert "no scored session" in wait_for_comparison(client, "/models")  # the last 28 days
    # The cost is of the sessions that are compared: there is no filter by agent.
    assert "for 5 sessions" in client.get(f"/models?{DAYS}&agent=none").text


def test_agents_count_evaluations_that_are_not_exported_yet(client: TestClient) -> None:
    rows = rows_of(client.get("/agents.csv").content).filter(agent_id="scout")
    # Newest first: 9 passes until the failed one; 400 * 0.9 + 250 * (1 - 40/100)
    # + 200 * 9/50 + 150 * 60/500 = 360 + 150 + 36 + 18 = 564.
    assert rows.select("organization_id", "score", "lifecycle").rows() == [
        ("acme", 564, "active"),
        ("beta", None, "calibrating"),
    ]
    page = client.get("/agents").text
    assert "<strong>564</strong>" in page
    assert "<strong>3/50</strong>" in page
    assert "its 90 % interval" in page  # as the column pass_rate_low says
    assert "/agents/scout?organization=acme" in page
    only = client.get("/agents?lifecycle=active").text
    assert "3/50" not in only


def test_an_agent_has_its_score_over_time_and_why(client: TestClient) -> None:
    page = client.get("/agents/scout?organization=acme").text
    record = client.get("/v1/reputation/scout?organization=acme").json()
    assert f"<strong>{record['score']}</strong> of 1000" in page
    for points, most in ((360, 400), (150, 250), (36, 200), (18, 150)):
        assert f'<td class="n">{points}</td><td class="n">{most}</td>' in page
    assert 'aria-label="Score over time"' in page
    assert "no signal of the last 90 days" in page
    assert "3/50" in client.get("/agents/scout?organization=beta").text
    assert client.get("/agents/nothing").status_code == 404


def test_an_agent_of_several_organizations_has_an_answer_for_each_and_leads_to_it(
    client: TestClient,
) -> None:
    while "data-reload-after" in (page := client.get("/agents/claude-code").text):
        time.sleep(0.05)
    answer, _, organizations = page.partition("In each organization")
    few = "Too few sessions to tell"
    said = re.findall(r"<p>Of (\w+): <strong>([^<]+)\.</strong>", answer)
    assert said == [("acme", few), ("beta", few)]
    rows = tables_of(page)[-1]
    assert [tuple(each.values()) for each in rows] == [
        ("acme", "3", "too few sessions"),
        ("beta", "2", "too few sessions"),
    ]
    assert 'href="/agents/claude-code?organization=beta"' in organizations
    assert "5 of 5 sessions" in client.get("/sessions?program=claude_code").text
    day = "from=2026-06-01&to=2026-06-02"
    while "data-reload-after" in (page := client.get(f"/agents/claude-code?{day}").text):
        time.sleep(0.05)
    assert re.findall(r"there are (\d) from 2026-06-01 to 2026-06-02", page) == ["3", "2"]
    assert [each["Getting better?"] for each in tables_of(page)[-1]] == ["too few sessions"] * 2
    # Of evaluations that other programs sent there is nothing to compare.
    assert tables_of(client.get("/agents/scout").text)[-1][1]["Organization"] == "beta"


def test_the_overview_and_the_agents_say_who_gets_worse(
    compared: Service, client: TestClient, keys: dict[tuple[Role, str | None], str]
) -> None:
    for url in ("/", "/agents"):
        while "agents are being compared" in (page := client.get(url).text):
            time.sleep(0.05)
        assert "No agent has a session of the last days" in page
    then = datetime(2026, 6, 3, tzinfo=UTC)
    of_then = Service(compared.workplace, then).client(keys[Role.READER, None])
    while "agents are being compared" in (page := of_then.get("/").text):
        time.sleep(0.05)
    assert "<strong>Getting worse:</strong> none." in page
    assert "It is too early to say of 2 more" in page  # one of each organization


def test_the_overview_says_what_got_lost(
    compared: Service, keys: dict[tuple[Role, str | None], str]
) -> None:
    then = datetime(2026, 6, 3, tzinfo=UTC)
    service = Service(compared.workplace, then)
    page = service.client(keys[Role.READER, None]).get("/").text
    lost = page.partition('id="lost"')[2]
    assert "5 sessions, 2026-05-06 to 2026-06-02, 28 days: 5 are scored, 0 are not." in lost
    assert "Their profile scored 5." in lost
    assert "Every line since 2026-05-27 could be read." in page
    one = service.client(keys[Role.READER, "beta"]).get("/").text
    assert "<p>2 sessions, " in one
    assert "could be read" not in one


def test_a_link_to_an_agent_or_a_session_leaves_the_chosen_organization(
    client: TestClient,
) -> None:
    for path in ("/agents/scout?organization=acme", "/sessions/b1%23baseline-1?organization=beta"):
        head = client.get(path).text.partition("</header>")[0]
        assert 'href="/models"' in head  # of all, as before
        chosen = client.get(f"{path}&chosen=beta").text.partition("</header>")[0]
        assert 'href="/models?organization=beta"' in chosen
    page = client.get("/agents?organization=beta").text
    assert "/agents/scout?organization=beta&amp;chosen=beta" in page


def test_the_page_of_an_agent_has_its_answer_from_that_of_all_agents(client: TestClient) -> None:
    while "agents are being compared" in client.get("/agents").text:
        time.sleep(0.05)
    page = client.get("/agents/claude-code?organization=beta").text
    assert "are being compared" not in page


def test_an_agent_leads_to_its_sessions(client: TestClient) -> None:
    page = client.get("/agents/claude-code?organization=beta").text
    assert "/sessions/b1%23baseline-1/score?organization=beta" in page
    link = re.search(r'<a href="([^"]+)">2 sessions</a>', page)
    assert link
    assert "2 of 2 sessions" in client.get(link[1].replace("&amp;", "&")).text
    of_others = client.get("/agents/scout?organization=acme").text
    assert "Its evaluations come from other programs: it has no session here." in of_others


def test_evaluations_of_an_agent_are_downloaded_with_their_sessions(client: TestClient) -> None:
    scout = rows_of(client.get("/evaluations.csv?agent=scout&organization=acme").content)
    assert (scout.height, scout["passed"].sum()) == (60, 54)  # every tenth has failed
    assert scout["evaluation_id"][0] == "scout-59"  # the newest
    by_session = rows_of(client.get("/evaluations.csv?agent=claude-code&organization=acme").content)
    newest_first = ["a2#baseline-1", "same#baseline-1", "a1#baseline-1"]
    assert by_session["session_key"].to_list() == newest_first
    assert by_session["effective_100"].to_list() == [90.0] * 3
    assert client.get("/evaluations.csv?agent=none").status_code == 404


def test_who_has_not_used_it_is_named_with_the_day_of_the_last_session(
    client: TestClient,
) -> None:
    url = "/trends?from=2026-06-02&to=2026-06-02&by=label&step=all"
    page = client.get(url).text
    lines = re.findall(
        r'<tr><td class="name wide">(\w+)</td><td data-name="Last session">([\d-]+)</td>', page
    )
    assert lines == [("simple", "2026-06-02")]
    whole = rows_of(client.get(url.replace("/trends", "/trends.csv")).content)
    assert whole.select("name", "sessions").rows() == [("simple", 1)]
    assert "Single people are shown where EVAL_PEOPLE_VIEW is person" in page
    by_agent = client.get("/trends?from=2026-06-03&to=2026-06-03&by=label&step=all").text
    last = r'simple</td><td data-name="Last session">2026-06-02</td>\s*<td [^>]+>0</td>'
    assert re.search(last, by_agent)


def test_an_agent_page_says_whether_it_is_getting_better(client: TestClient) -> None:
    url = "/agents/claude-code?organization=acme"
    while "data-reload-after" in (page := client.get(url).text):
        time.sleep(0.05)
    assert "<strong>Too few sessions to tell.</strong>" in page
    last = NOW.date() - timedelta(days=1)
    assert f"there are 0 from {last - timedelta(days=27)} to {last}" in page
    assert f"<strong>2026-06-01 to {NOW.date()}, " in page  # the curves are of all days
    day = "from=2026-06-01&to=2026-06-01"
    while "data-reload-after" in (page := client.get(f"{url}&{day}").text):
        time.sleep(0.05)
    assert "from 2026-06-01 to 2026-06-01, and 0 from 2026-05-31 to 2026-05-31" in page
    # Evaluations that other programs sent are no sessions whose scores could be compared.
    assert "Is it getting better?" not in client.get("/agents/scout?organization=acme").text


def test_trends_lead_to_the_sessions_of_a_line(client: TestClient) -> None:
    page = client.get(f"/trends?{DAYS}&by=label").text
    assert "90.0" in page  # the mean of all
    links = [
        each.replace("&amp;", "&")
        for each in re.findall(r'"Sessions"><a href="([^"]+)">\d+</a>', page)
    ]
    assert [client.get(each).text.count('<td class="time">') for each in links] == [1, 4]
    assert page.count("<svg") == 4
    assert "no session in this time" in client.get("/trends").text


def test_all_pages_have_the_same_days(client: TestClient) -> None:
    found = [
        re.findall(r'<nav class="days-links" aria-label="Days"><strong>([^<]+)</strong>', page)
        for page in (client.get(each).text for each in ("/models", "/trends", "/tools"))
    ]
    (days,) = {tuple(each) for each in found}
    last = NOW.date() - timedelta(days=1)
    assert days == (f"{last - timedelta(days=27)} to {last}, 28 days",)


def test_days_are_chosen_by_a_link_that_keeps_the_filters(client: TestClient) -> None:
    page = client.get("/trends?by=label").text
    (url,) = re.findall(r'<a href="([^"]+)">all days</a>', page)
    chosen = client.get(url.replace("&amp;", "&")).text
    assert "<strong>2026-06-01 to " in chosen
    assert 'aria-current="true">all days</a>' in chosen
    assert "<option selected>label</option>" in chosen


def selected(page: str) -> dict[str, str]:
    """Return what is chosen in the selects of a page, by their names."""
    found = re.findall(r'<select (?:id="\w+" )?name="(\w+)"[^>]*>(.*?)</select>', page, re.DOTALL)
    chosen = {name: re.search(r"<option([^>]*) selected>", options) for name, options in found}
    return {
        name: re.sub(r'.*value="([^"]*)".*', r"\1", option[1])
        for name, option in chosen.items()
        if option
    }


@pytest.mark.parametrize("path", ["/trends", "/tools", "/sessions"])
def test_every_filter_that_is_applied_is_shown_and_sent_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    lines = "evaluation_pipelines.service.pages.domain.session_lines"
    monkeypatch.setattr(f"{lines}._MOST_CHOICES", 0)  # as if all were beyond the first 300
    fields = {"model": "model-a", "label": "simple", "status": "completed", "team": "gone"}
    page = client.get(path, params=fields).text
    assert {name: selected(page).get(name) for name in fields} == fields
    assert '<details class="filters" open>' in page
    assert '<details class="filters"><summary>' in client.get(path).text


def test_what_cannot_be_asked_is_400(client: TestClient) -> None:
    for page in (
        "/trends?by=person",  # people are not shown here
        "/trends?person=x",
        "/trends?by=x",
        "/trends?step=x",
        "/trends?from=0001-01-01",
        "/models?to=9999-12-31",
        "/models?from=2026-06-02&to=2026-06-01",
        "/trends?from=2026-06-02&to=2026-06-01",
        "/agents?sort=x",
        "/agents?lifecycle=x",
    ):
        assert client.get(page).status_code == 400, page


def test_an_empty_folder_says_what_to_do(service: Service) -> None:
    for page in EMPTY:
        assert "There are no sessions yet" in reader(service).get(page).text


@pytest.mark.parametrize(
    ("page", "fields"),
    [
        (f"/models?{DAYS}", ("label", "model")),
        ("/agents", ("agent",)),
        (f"/agents/{quote(payload('agent'), safe='')}", ("agent",)),
        *(
            (f"/trends?{DAYS}&by={name}", (field,))
            for name, field in (
                ("model", "model"),
                ("agent", "agent"),
                ("label", "label"),
                ("repository", "repository"),
                ("person", "email"),
            )
        ),
    ],
)
def test_hostile_text_is_shown_as_text(
    hostile: ScoringService, page: str, fields: tuple[str, ...]
) -> None:
    is_models, client = page.startswith("/models"), reader(hostile)
    text = wait_for_comparison(client, page) if is_models else client.get(page).text
    for mark in ("<script>window", "<img", "<b>bold"):
        assert mark not in text
    for name in fields:
        assert f"{name}&lt;script&gt;window.obeyed=1&lt;/script&gt;" in text, name
