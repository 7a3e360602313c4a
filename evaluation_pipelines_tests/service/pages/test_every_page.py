"""A walk over all routes of the pages: who may, and that organizations are kept apart."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.service.app import PAGE_ROUTERS
from evaluation_pipelines_tests.scorecards.calls_profile import DAY
from evaluation_pipelines_tests.service.answers import A1, B1, SAME, judging, path_of
from evaluation_pipelines_tests.service.clients import Keys, Service
from evaluation_pipelines_tests.service.examples import Example, route_table
from evaluation_pipelines_tests.service.pages.agent_evaluations import evaluate, export_agents
from evaluation_pipelines_tests.workplace import NOW

_DAYS = "from=2026-06-01&to=2026-06-02"
_SESSION, _REVIEW = f"/sessions/{path_of(A1)}", f"/reviews/{path_of(SAME)}"
_OF_SESSION = "/sessions/{session}"


def page(url: str, path: str = "", role: Role = Role.READER, **more: Any) -> Example:
    """Return a page; ``path`` is that of its route where the URL has another."""
    return Example(f"GET {path or url.partition('?')[0]}", url, None, role, **more)


def form(url: str, path: str, role: Role, **fields: str) -> Example:
    """Return a form with its fields; all but the queue of reviews name a session of acme."""
    return Example(f"POST {path}", url, fields, role, names_session=path != "/reviews")


PAGES = (
    page("/"),
    page("/sessions"),
    page("/sessions.csv"),
    page(_SESSION, _OF_SESSION, names_session=True),
    page(f"{_SESSION}/technical", f"{_OF_SESSION}/technical", names_session=True),
    page(f"{_SESSION}/score", f"{_OF_SESSION}/score", names_session=True),
    page(f"/models?{_DAYS}"),
    page(f"/models.csv?{_DAYS}"),
    page("/agents"),
    page("/agents.csv"),
    page("/agents/scout", "/agents/{agent_id}"),
    page("/evaluations.csv?agent=scout"),
    page(f"/trends?{_DAYS}&by=label"),
    page(f"/trends.csv?{_DAYS}&by=label"),
    page(f"/tools?{_DAYS}"),
    page(f"/tools.csv?{_DAYS}"),
    page("/operations/books"),
    page("/operations/books/2026-06-01?state=scored", "/operations/books/{day}"),
    page("/operations/books.csv?day=2026-06-01"),
    page("/reviews"),
    page("/operations/judge"),
    page("/reviews.csv", role=Role.REVIEWER),
    page("/stale-scores.csv"),
    page(_REVIEW, "/reviews/{session}", Role.REVIEWER, names_session=True),
    page("/operations/quarantine", of_all=True),
    page("/operations/doctor", of_all=True),
    page("/operations/quarantine.csv", of_all=True),
    page("/operations/judge.csv"),
)
FORMS = (
    form(f"{_SESSION}/score", f"{_OF_SESSION}/score", Role.OPERATOR),
    form(
        f"{_SESSION}/override",
        f"{_OF_SESSION}/override",
        Role.REVIEWER,
        score="40",
        annotator="Ann Lee",
        reason="The plan was not found.",
    ),
    form(f"{_SESSION}/look", f"{_OF_SESSION}/look", Role.REVIEWER),
    form("/reviews", "/reviews", Role.REVIEWER, do="begin"),
    form(_REVIEW, "/reviews/{session}", Role.REVIEWER, do="skip"),
)
MOVED = {
    "/books": "/operations/books",
    "/books?day=2026-06-01": "/operations/books?day=2026-06-01",
    "/books.csv?day=2026-06-01": "/operations/books.csv?day=2026-06-01",
    "/books/2026-06-01?state=scored": "/operations/books/2026-06-01?state=scored",
    "/doctor": "/operations/doctor",
    "/judge": "/operations/judge",
    "/judge.csv": "/operations/judge.csv",
    "/quarantine?since=2026-06-01": "/operations/quarantine?since=2026-06-01",
    "/quarantine.csv": "/operations/quarantine.csv",
}
"""Old addresses with those of today."""

WITHOUT_KEY = {
    *("GET /static/{name}", "GET /login", "POST /login", "POST /logout"),
    *("GET /books", "GET /books.csv", "GET /books/{day}", "GET /doctor", "GET /judge"),
    *("GET /judge.csv", "GET /quarantine", "GET /quarantine.csv"),
}
FOREIGN = ("acme", "a1#", "a1%23", "secret-plan")


def named(example: Example) -> str:
    return example.route


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Sessions, agents and waiting reviews of acme and beta."""
    with judging(tmp_path_factory.mktemp("service")) as service:
        export_agents(service.workplace)
        evaluate(service.workplace, "acme", "scout", 60)
        evaluate(service.workplace, "beta", "scout", 3)
        waiting = [("acme", SAME), ("beta", B1)]
        samples = [AuditSample(DAY, owner, key, "calls", "0", NOW) for owner, key in waiting]
        OverrideStore(service.workplace.ledger).add_samples(samples)
        yield service


def browser(service: Service, key: str | None = None, peer: str = "127.0.0.1") -> TestClient:
    client = service.client(key, peer)
    client.headers["Accept"] = "text/html"
    client.follow_redirects = False
    return client


def send(client: TestClient, example: Example, **query: str) -> Any:
    """Send a page's request, or a form with the token of this browser."""
    method = example.route.partition(" ")[0]
    url = f"{example.url}{'&' if '?' in example.url else '?'}" + "&".join(
        f"{name}={quote(value)}" for name, value in query.items()
    )
    if example.body is None:
        return client.request(method, url)
    found = re.search(r'form_token" value="(\w+)"', client.get("/login").text)
    assert found
    return client.request(method, url, data={"form_token": found[1], **example.body})


def test_every_route_is_walked() -> None:
    routes = {route for router in PAGE_ROUTERS for route in route_table(router)}
    walked = {example.route for example in (*PAGES, *FORMS)} | {"GET /operations"}
    assert routes == walked | WITHOUT_KEY


def test_old_addresses_lead_to_those_of_today(answered: Service, keys: Keys) -> None:
    client = browser(answered, keys[Role.READER, None])
    for old, new in MOVED.items():
        assert client.get(old).headers["location"] == new
        assert client.get(new).status_code == 200


def test_operations_open_the_first_part_that_the_caller_may_see(
    answered: Service, keys: Keys
) -> None:
    for owner, part in ((None, "doctor"), ("acme", "books")):
        client = browser(answered, keys[Role.READER, owner])
        assert client.get("/operations").headers["location"] == f"/operations/{part}"
        assert client.get(f"/operations/{part}").status_code == 200
    page = client.get("/operations/books").text
    assert 'href="/operations/doctor"' not in page
    assert 'href="/operations/judge"' in page
    assert browser(answered).get("/operations").headers["location"].startswith("/login?next=")


@pytest.mark.parametrize("example", [*PAGES, *FORMS], ids=named)
@pytest.mark.usefixtures("keys")
def test_a_wrong_key_sees_and_changes_nothing(answered: Service, example: Example) -> None:
    peer = f"10.0.0.{[*PAGES, *FORMS].index(example)}"  # too many wrong keys are 429
    for client in (browser(answered, "wrong", peer), browser(answered)):
        answer = send(client, example)
        if example.body is None:  # led to the form for a key
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/login?next=")
        else:
            assert answer.status_code == 401
        program = answered.client("wrong", peer)
        assert program.request(example.route.partition(" ")[0], example.url).status_code == 401


@pytest.mark.parametrize("example", [*PAGES, *FORMS], ids=named)
def test_a_role_that_lacks_is_403_and_one_that_suffices_is_not(
    answered: Service, keys: Keys, example: Example
) -> None:
    assert example.role is not None
    for role in Role:
        answer = send(browser(answered, keys[role, None if example.of_all else "acme"]), example)
        if role.includes(example.role):
            assert answer.status_code == (200 if example.body is None else 303), answer.text
            assert example.of_all or "beta" not in answer.text
        else:
            assert answer.status_code == 403


@pytest.mark.parametrize("example", [*PAGES, *FORMS], ids=named)
def test_another_organization_sees_and_changes_nothing_of_it(
    answered: Service, keys: Keys, example: Example
) -> None:
    assert example.role is not None
    client, store = browser(answered, keys[example.role, "beta"]), answered.workplace.ledger
    before = OverrideStore(store).of_dates().height
    answer = send(client, example)
    if example.of_all:
        assert answer.status_code == 403
    elif example.names_session:
        assert answer.status_code == 404
    else:
        assert answer.status_code == (200 if example.body is None else 303)
    for word in FOREIGN:
        assert word not in answer.text + answer.headers.get("location", "")
    assert send(client, example, organization="acme").status_code == 404
    assert send(client, example, of="acme").status_code == answer.status_code
    assert OverrideStore(store).of_dates().height == before


@pytest.mark.parametrize("example", FORMS, ids=named)
def test_a_form_of_another_site_is_refused(answered: Service, keys: Keys, example: Example) -> None:
    client = browser(answered, keys[Role.OPERATOR, "acme"])
    assert client.post(example.url, data=example.body).status_code == 403  # without the token
    client.headers["Origin"] = "http://evil.example"
    assert send(client, example).status_code == 403
