"""Logging in with a key, and what a browser without one gets."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.service.clients import Clients, Service

HTML = {"Accept": "text/html,application/xhtml+xml"}


def token_of(client: TestClient, path: str = "/login") -> str:
    """Return the token of the first form of a page."""
    found = re.search(r'name="form_token" value="([0-9a-f]+)"', client.get(path).text)
    assert found
    return found[1]


def log_in(client: TestClient, key: str, target: str = "/") -> Any:
    fields = {"form_token": token_of(client), "key": key, "next": target}
    return client.post("/login", data=fields, follow_redirects=False)


@pytest.fixture
def browser(service: Service) -> TestClient:
    """Return a client that prefers pages; there is a key, so that it must log in."""
    service.key(Role.READER, "acme")
    client = service.client()
    client.headers.update(HTML)
    return client


def test_a_browser_without_a_key_is_led_to_the_form_and_back(
    service: Service, browser: TestClient
) -> None:
    sent_away = browser.get("/?organization=acme", follow_redirects=False)
    assert sent_away.status_code == 303
    assert sent_away.headers["location"] == "/login?next=%2F%3Forganization%3Dacme"
    answer = log_in(browser, service.key(Role.REVIEWER, "acme"), "/?organization=acme")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?organization=acme"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    page = browser.get("/")
    assert page.status_code == 200
    assert "reviewer-acme, reviewer of acme" in page.text


def test_the_cookie_is_for_encrypted_connections_where_the_browser_has_one(
    service: Service, browser: TestClient
) -> None:
    fields = {"form_token": token_of(browser), "key": service.key(Role.OPERATOR), "next": "/"}
    secure = {"Origin": "https://localhost:8400"}  # of a proxy that speaks TLS
    answer = browser.post("/login", data=fields, headers=secure, follow_redirects=False)
    assert "; Secure" in answer.headers["set-cookie"]


def test_logging_out_takes_the_key_away(service: Service, browser: TestClient) -> None:
    log_in(browser, service.key(Role.OPERATOR))
    browser.post("/logout", data={"form_token": token_of(browser, "/")})
    assert browser.get("/", follow_redirects=False).status_code == 303


def test_whoever_opens_a_session_is_led_back_to_it(browser: TestClient) -> None:
    path = "/sessions/100%25%23baseline-1?from=200"
    sent_away = browser.get(path, follow_redirects=False)
    assert unquote(sent_away.headers["location"]) == f"/login?next={path}"


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "/\\evil.example"])
def test_logging_in_leads_to_no_other_site(
    service: Service, browser: TestClient, target: str
) -> None:
    answer = log_in(browser, service.key(Role.OPERATOR), target)
    assert answer.headers["location"] == "/"


def test_a_wrong_key_and_one_that_only_writes_are_refused(
    service: Service, browser: TestClient
) -> None:
    for key, reason in (("ep_wrong", "unknown"), (service.key(Role.INGEST), "only writes")):
        answer = log_in(browser, key)
        assert answer.status_code == 401
        assert reason in answer.text
        assert "set-cookie" not in answer.headers


def test_guessing_keys_is_slowed_down(browser: TestClient) -> None:
    answers: list[int] = []
    while 429 not in answers and len(answers) < 100:  # more than 21 if a try takes seconds
        answers.append(log_in(browser, "ep_wrong").status_code)
    assert answers[:20] == [401] * 20
    assert answers[-1] == 429


def test_an_answer_about_telemetry_keeps_its_form(service: Service) -> None:
    sent = {**HTML, "Content-Type": "application/json"}
    answer = service.client().post("/v1/logs", content=b"{", headers=sent)
    assert answer.status_code == 400
    assert answer.json()["message"]


def test_a_form_without_its_token_or_with_that_of_another_login_is_refused(
    service: Service, browser: TestClient
) -> None:
    before = token_of(browser)
    log_in(browser, service.key(Role.OPERATOR))
    for fields in ({}, {"form_token": ""}, {"form_token": before}, {"form_token": "ä"}):
        answer = browser.post("/logout", data=fields)
        assert answer.status_code == 403
        assert "the service restarted or this browser logged in or out." in answer.text
    assert browser.get("/").status_code == 200


def test_without_keys_everything_is_open_and_the_page_says_so(service: Service) -> None:
    page = service.client().get("/", headers=HTML)
    assert page.status_code == 200
    assert "No keys yet" in page.text
    assert "Log out" not in page.text
    away = service.client().get("/login", follow_redirects=False)
    assert (away.status_code, away.headers["location"]) == (303, "/")


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Authorization"])
def test_without_keys_a_proxy_is_told_why_it_is_refused(service: Service, header: str) -> None:
    page = service.client().get("/?x=1", headers={**HTML, header: "192.168.1.5"})
    assert (page.status_code, page.url.path) == (401, "/login")
    said = "none through a proxy" if header == "X-Forwarded-For" else "no accepted key"
    assert said in page.text
    assert "evaluation-pipelines keys create" in page.text
    service.key(Role.READER)
    assert '<form class="card stacked"' in service.client().get(page.url, headers=HTML).text


def test_errors_are_pages_for_browsers_and_envelopes_for_programs(service: Service) -> None:
    client = service.client()
    page = client.get("/no-such-page", headers=HTML)
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "<h1>There is no such page.</h1>" in page.text
    assert client.get("/no-such-page").json()["error"]["code"] == "not_found"
    foreign = {**HTML, "Origin": "https://evil.example"}
    refused = client.post("/logout", headers=foreign)  # by the guard, before any route
    assert refused.status_code == 403
    assert "another site" in refused.text
    assert "script-src" not in refused.headers["content-security-policy"]


def test_an_invalid_query_is_a_page_that_says_what_is_wrong(service: Service) -> None:
    page = service.client().get("/", params={"organization": "x" * 2000}, headers=HTML)
    assert page.status_code == 400
    assert "query.organization: String should have at most 1024 characters" in page.text


def test_pages_load_nothing_but_own_files(service: Service) -> None:
    client = service.client()
    page = client.get("/", headers=HTML)
    assert page.headers["content-security-policy"].startswith("default-src 'self'; ")
    for attribute in ("style=", "onclick=", "<style", "<script>"):
        assert attribute not in page.text
    found = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    assert len(found) == 3
    for url in found:
        assert client.get(url).status_code == 200
        assert "immutable" in client.get(url).headers["cache-control"]
    assert client.get("/static/..%2Frendering.py").status_code == 404
    assert client.get("/static/layout.html").status_code == 404


def test_templates_and_static_files_are_in_the_package() -> None:
    import evaluation_pipelines.service.pages as package

    folder = Path(package.__path__[0])
    assert {path.name for path in (folder / "static").iterdir()} == {
        "icon.svg",
        "pages.css",
        "pages.js",
        "reviews.js",
    }


def test_the_command_that_the_form_names_makes_a_key(browser: TestClient, program: Program) -> None:
    found = re.search(r"<code>evaluation-pipelines (keys [^<]+)</code>", browser.get("/login").text)
    assert found
    assert program(*found[1].replace("NAME", "team").split()).code == 0


CASES = (
    ("/sessions/none", "The session does not exist.", 'href="/sessions">Sessions'),
    ("/sessions?sort=x", "sort must be one of", 'href="/sessions">Sessions'),
    ("/trends?from=x", "from must be", 'href="/trends">Trends'),
    ("/agents/none", "The agent does not exist.", 'href="/agents">Agents'),
    ("/evaluations.csv", "query.agent", 'href="/">Overview'),
    ("/nothing", "There is no such page.", 'href="/">Overview'),
)


@pytest.mark.parametrize(("url", "said", "link"), CASES)
def test_an_error_names_no_route_and_leads_to_a_page(
    clients: Clients, url: str, said: str, link: str
) -> None:
    answer = clients["reader"].get(url, headers={"Accept": "text/html"})
    text = answer.text.partition("<main")[2].partition("</main>")[0]
    assert answer.status_code in {400, 404}
    assert said in text
    assert link in text
    for name in ("/api", "openapi", "GET "):
        assert name not in text
