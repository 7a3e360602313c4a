"""Sessions, scorecards, profiles, comparison, tools, books, alerts and overrides as resources."""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.attention.domain.messages import OPEN_BOOKS, reported
from evaluation_pipelines.attention.send import raise_alert
from evaluation_pipelines.scorecards.scorecard_queries import CardQuery, dates_of
from evaluation_pipelines.storage.lock import held
from evaluation_pipelines_tests.judged import fill
from evaluation_pipelines_tests.scorecards.calls_profile import build, profile_file
from evaluation_pipelines_tests.service.answers import A1, C1, path_of, work
from evaluation_pipelines_tests.service.clients import Clients, Service
from evaluation_pipelines_tests.service.examples import EXAMPLES, Example, code_of
from evaluation_pipelines_tests.workplace import NOW, open_workplace
from evaluation_pipelines_tests.world import session

DAY = "2026-06-01"
WITH_SLASHES = ("a/b", "a/score", "a/transcript", "a/override")
OVERRIDE = {"score": 40, "annotator": "ann", "reason": "Not done."}


def get(client: TestClient, path: str, **query: Any) -> Any:
    response = client.get(f"/api/v1/{path}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


def paged(client: TestClient, path: str, name: str, **query: Any) -> list[Any]:
    """Return the rows of all pages, each but the last of which is full."""
    page = get(client, path, **query)
    rows: list[Any] = page[name]
    while page["next_cursor"] is not None:
        assert len(page[name]) == query["limit"]
        page = get(client, path, cursor=page["next_cursor"], **query)
        rows += page[name]
    return rows


def ids(rows: list[Any]) -> list[tuple[str, str]]:
    return [(row["organization_id"], row["session_id"]) for row in rows]


NEWEST_FIRST = [
    *(("acme", "a2"), ("beta", "same"), ("beta", "b1"), ("acme", "same"), ("acme", "a1")),
]


@pytest.mark.parametrize("path", ["sessions", "scorecards"])
@pytest.mark.parametrize("limit", [1, 2, 4, 5])
def test_pages_have_every_row_once(clients: Clients, path: str, limit: int) -> None:
    query = {"profile_id": "best"} if path == "scorecards" else {}
    assert ids(paged(clients["all"], path, path, limit=limit, **query)) == NEWEST_FIRST


def test_scorecards_are_read_of_the_dates_that_have_some(answered: Service) -> None:
    stores, june_2 = answered.workplace.stores, datetime(2026, 6, 2, tzinfo=UTC)
    assert dates_of(stores, CardQuery(since=june_2)) == [june_2.date()]
    assert dates_of(stores, CardQuery(model="none")) == []
    assert len(dates_of(stores, CardQuery())) == 2


def test_the_books_of_a_day_have_every_session_in_pages(clients: Clients) -> None:
    assert ids(paged(clients["all"], f"books/{DAY}", "sessions", limit=3)) == NEWEST_FIRST[1:]
    whole = get(clients["all"], f"books/{DAY}")
    assert (whole["states"], whole["is_balanced"]) == ({"scored": 4}, True)
    own = get(clients["reader"], f"books/{DAY}")
    assert (own["states"], own["is_balanced"]) == ({"scored": 2}, None)


def test_a_day_that_is_being_built_is_not_waited_for(
    answered: Service, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation_pipelines.service.routes.evaluation.BUILD_PATIENCE_S", 0.1)
    with held(answered.workplace.ledger, f"build {DAY}"):
        response = clients["all"].get(f"/api/v1/books/{DAY}")
    assert (response.status_code, code_of(response)) == (503, "being_built")
    assert response.headers["Retry-After"] == "5"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"from": "2026-06-02T00:00:00Z"}, ["a2"]),
        ({"to": "2026-06-01T12:01:00Z"}, ["a1"]),
        ({"model": "other"}, []),
        ({"status": "failed"}, []),
        ({"organization": "acme", "classification_label": "simple"}, ["a2", "same", "a1"]),
    ],
)
def test_sessions_are_chosen_by_conditions(
    clients: Clients, query: dict[str, str], found: list[str]
) -> None:
    rows = get(clients["reader"], "sessions", **query)["sessions"]
    assert [row["session_id"] for row in rows] == found


def test_one_session_has_all_scores(clients: Clients) -> None:
    found = get(clients["reader"], f"sessions/{path_of(A1)}")
    assert (found["session"]["session_key"], found["profile_id"]) == (A1, "calls")
    assert found["evaluation"]["score_100"] == pytest.approx(90)
    # Its only call failed: 0 of 1, so quality is 0 of 10.
    assert found["performance"]["quality"] == 0
    assert (found["has_ended"], found["overrides"], found["scorings"]) == (True, [], [])
    assert [card["reasoning"] for card in found["scorecards"]] == [None] * len(found["scorecards"])


def test_an_override_counts_in_the_list_at_once(clients: Clients) -> None:
    stored = clients["reviewer"].post("/api/v1/sessions/a2/override", json=OVERRIDE)
    assert stored.status_code == 200, stored.text
    assert stored.json()["automatic_score"] == pytest.approx(90)
    newest = get(clients["reader"], "sessions", limit=1)["sessions"][0]
    assert (newest["effective_100"], newest["effective_source"]) == (40, "override")
    found = get(clients["reviewer"], "sessions/a2")
    assert [override["reason"] for override in found["overrides"]] == ["Not done."]
    assert "Not done." in str(found["scorecards"])
    assert "Not done." not in str(get(clients["reader"], "sessions/a2"))
    confirmed = clients["reviewer"].post(
        "/api/v1/sessions/a2/override", json={**OVERRIDE, "score": None}
    )
    assert confirmed.json()["is_confirmation"] is True


def test_profiles_and_comparison(clients: Clients) -> None:
    profiles = get(clients["reader"], "profiles")["profiles"]
    assert ("calls", "file") in {(profile["id"], profile["origin"]) for profile in profiles}
    span = {"from": "2026-06-01T00:00:00Z", "to": "2026-07-01T00:00:00Z"}
    (row,) = get(clients["reader"], "comparison", **span)["model_comparison"]
    assert (row["model"], row["runs"]) == ("model-a", 3)


def test_alerts_are_listed_the_newest_first_in_pages(answered: Service, clients: Clients) -> None:
    for day in (NOW.date(), NOW.date().replace(day=2)):
        alert = reported(OPEN_BOOKS, day, "no space")
        raise_alert(answered.workplace.stores, alert, NOW, logging.getLogger())
    first = get(clients["all"], "alerts", limit=1)
    assert [alert["cause"] for alert in first["alerts"]] == ["2026-12-02"]
    rest = get(clients["all"], "alerts", cursor=first["next_cursor"])
    assert [alert["cause"] for alert in rest["alerts"]] == ["2026-12-01"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("sessions/none", 404, "not_found"),
        ("sessions?organization=beta", 404, "not_found"),
        ("sessions?cursor=x", 400, "invalid_cursor"),
        ("sessions?cursor=WyIyMDI2LTA2LTAxIl0", 400, "invalid_cursor"),
        ("sessions?limit=0", 400, "invalid_request"),
        ("scorecards?from=yesterday", 400, "invalid_request"),
        ("comparison?from=2026-07-01T00:00:00Z&to=2026-06-01T00:00:00Z", 400, "empty_time_range"),
        ("comparison?by=weather", 400, "invalid_grouping"),
        ("comparison?to=0001-01-01T00:00:00Z", 400, "invalid_request"),
        ("sessions?from=9999-12-31T00:00:00Z", 400, "invalid_request"),
        ("books/9999-12-31", 400, "invalid_request"),
        ("books/today", 400, "invalid_request"),
    ],
)
def test_what_cannot_be_answered_says_why(
    clients: Clients, path: str, status: int, code: str
) -> None:
    response = clients["operator"].get(f"/api/v1/{path}")
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_an_ambiguous_id_names_its_candidates(clients: Clients) -> None:
    response = clients["all"].get("/api/v1/sessions/same")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "ambiguous_session")
    assert "of acme; same#baseline-1 of beta" in response.json()["error"]["help"]
    chosen = get(clients["all"], "sessions/same", organization="beta")
    assert chosen["session"]["organization_id"] == "beta"


@pytest.mark.parametrize(
    "example",
    [example for example in EXAMPLES if example.names_session and "{session" in example.route],
    ids=lambda example: example.route,
)
def test_a_session_id_may_have_slashes(with_slashes: TestClient, example: Example) -> None:
    """Every route that has a session in its path finds it, by its key and by its id.

    By its key also if the id ends like a route: the key does not.
    """
    for name in (*(f"{slash}#baseline-1" for slash in WITH_SLASHES), "a/b"):
        url = example.url.replace(path_of(A1), path_of(name)).replace(path_of(C1), path_of(name))
        response = replace(example, url=url).send(with_slashes)
        is_scoring = "scoring" in example.route
        assert (response.status_code, code_of(response) if is_scoring else "") in {
            (200, ""),
            (404, "not_scored"),
            (503, "no_judge"),
        }
        if response.status_code == 200:
            assert name in response.text


@pytest.fixture(scope="module")
def with_slashes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with open_workplace(tmp_path_factory.mktemp("slashes")) as workplace:
        profile_file(workplace)
        sent = [work("acme", name, 60 * number) for number, name in enumerate(WITH_SLASHES)]
        workplace.land("logs.jsonl", b"".join(sent))
        build(workplace)
        yield Service(workplace).client()


HOSTILE = ("line\nfeed", "a/b", "a?b=c", "a#b", "100%", "../up", " blank ", "\u2028", "<b>&amp;")


@pytest.fixture
def hostile(service: Service) -> Service:
    lines = [session(name, number * 60, agent__id=name) for number, name in enumerate(HOSTILE)]
    fill(service.workplace, *lines)
    return service


def test_every_link_of_the_list_opens(hostile: Service) -> None:
    client = hostile.browser()
    links = {unescape(url) for url in re.findall(r'href="([^"]+)"', client.get("/sessions").text)}
    listed = {url for url in links if url.startswith("/sessions/")}

    assert len(listed) >= len(HOSTILE)
    assert {url: code for url in links if (code := client.get(url).status_code) >= 400} == {}


def test_every_session_that_the_api_lists_has_its_path(hostile: Service) -> None:
    client = hostile.client()
    keys = [row["session_key"] for row in client.get("/api/v1/sessions").json()["sessions"]]
    paths = [f"/api/v1/sessions/{quote(key, safe='')}" for key in keys]

    assert len(keys) == len(HOSTILE)
    assert {path: code for path in paths if (code := client.get(path).status_code) != 200} == {}
