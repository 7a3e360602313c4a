"""A walk over all routes for programs: with a wrong key, a lacking role, and a foreign key."""

from collections.abc import Iterator

import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.service.app import PAGE_ROUTERS
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines_tests.service.answers import A1, judging, path_of
from evaluation_pipelines_tests.service.clients import Keys, Service, denial
from evaluation_pipelines_tests.service.examples import (
    EVENTS,
    EXAMPLES,
    NOT_DESCRIBED,
    Example,
    code_of,
    route_table,
    routes_of,
)

FOREIGN = ("acme", "beta", "a1#", "b1#", "secret-plan", "model-a")
PRIVATE = [example for example in EXAMPLES if example.role is not None]
ABSURD = (
    *("-1", "0", "0" * 5000, "9" * 5000, "0" * 30 + "9" * 19, f"{2**31}", f"{2**63}", f"-{2**63}"),
    *("1e9", "1.5", "inf", "nan", "0x10", "٣", ""),
)
TEXTS = ("Read the plan", "secret-plan", "no such file")
"""Prompt, parameters and error of a call of a1."""
WITH_TEXTS = {
    "GET /api/v1/sessions/{session}/transcript",
    "GET /api/v1/tools/{session}",
    "POST /api/v1/gateway evaluation.scorecards.query",
    "POST /api/v1/gateway evaluation.tool_report",
}
CHANNELS = ("sessions", f"session:{path_of(A1)}", "evaluations", "alerts")


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with judging(tmp_path_factory.mktemp("service")) as service:
        yield service


def named(example: Example) -> str:
    method = (example.body or {}).get("method", "")
    return f"{example.route} {method}".strip()


def test_every_route_has_an_example_and_is_described(answered: Service) -> None:
    examples = {example.route for example in EXAMPLES}
    pages = {route for router in PAGE_ROUTERS for route in route_table(router)}
    assert set(route_table(answered.app)) == examples | NOT_DESCRIBED | pages
    assert routes_of(answered.app.openapi()).keys() == examples


def test_the_document_says_which_routes_need_a_key(answered: Service) -> None:
    described = routes_of(answered.app.openapi())
    for example in EXAMPLES:
        statuses = described[example.route]["responses"].keys()
        assert ("401" in statuses) == (example.role is not None)
        assert {"400", "403", "429"} <= statuses
        assert "422" not in statuses


@pytest.mark.parametrize("example", PRIVATE, ids=named)
@pytest.mark.usefixtures("keys")
def test_a_wrong_key_is_401(answered: Service, example: Example) -> None:
    peer = f"10.0.0.{PRIVATE.index(example)}"  # too many wrong keys of one address are 429
    for client in (answered.client("wrong", peer), answered.client()):
        response = example.send(client)
        assert (response.status_code, code_of(response)) == (401, "no_key")


@pytest.mark.parametrize("example", PRIVATE, ids=named)
def test_a_role_that_lacks_is_403_and_one_that_suffices_is_not(
    answered: Service, keys: Keys, example: Example
) -> None:
    assert example.role is not None
    for role in Role:
        response = example.send(answered.client(keys[role, None]))
        if role.includes(example.role):
            # Of all organizations: the example names a session that is in one of them.
            assert response.status_code in {200, 202}, response.text
            shown = any(text in response.text for text in TEXTS)
            assert shown == (named(example) in WITH_TEXTS and role.includes(Role.REVIEWER)), role
        else:
            assert (response.status_code, code_of(response)) == (403, "role_lacking")


@pytest.mark.parametrize("example", PRIVATE, ids=named)
def test_another_organization_sees_nothing_of_it(
    answered: Service, keys: Keys, example: Example
) -> None:
    assert example.role is not None
    response = example.send(answered.client(keys[example.role, "other"]))
    if example.of_all:
        assert code_of(response) == "all_organizations_needed"
    elif example.names_session:
        assert (response.status_code, code_of(response)) == (404, "not_found")
    else:
        assert response.status_code == 200
    for word in FOREIGN:
        assert word not in response.text


@pytest.mark.parametrize(
    "example", [example for example in EXAMPLES if example.body is None], ids=named
)
def test_head_has_the_headers_of_get_alone(answered: Service, keys: Keys, example: Example) -> None:
    client = answered.client(keys[Role.OPERATOR, None if example.of_all else "acme"])
    head, whole = client.head(example.url), client.get(example.url)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_every_number_of_a_query_is_bounded(answered: Service, keys: Keys) -> None:
    client, found = answered.client(keys[Role.OPERATOR, None]), set()
    described = routes_of(answered.app.openapi())
    for example in EXAMPLES:
        for field in described[example.route].get("parameters", ()):
            schema = field["schema"]
            if not {"integer", "number"} & {
                s.get("type") for s in (schema, *schema.get("anyOf", ()))
            }:
                continue
            found.add(field["name"])
            assert field["in"] == "query"  # those of a path would be tried here, too
            method, path = example.route.partition(" ")[0], example.url.partition("?")[0]
            positions = {f"{2**31}"} if field["name"] == "after" else set[str]()
            for number in ABSURD:
                if number in positions or (positions and not number.strip("0")):
                    continue  # positions begin at 0, and grow with the time
                response = client.request(
                    method, path, params={field["name"]: number}, json=example.body
                )
                assert (response.status_code, code_of(response)) == (400, "invalid_request"), number
    assert found == {"limit", "after"}


def test_a_parameter_that_a_route_does_not_have_is_refused(answered: Service, keys: Keys) -> None:
    client = answered.client(keys[Role.OPERATOR, None])
    for example in EXAMPLES:
        if example.route.startswith(("GET /api/v1/", "GET /v1/")):
            sent = client.get(example.url.partition("?")[0], params={"colour": "red"})
            assert (sent.status_code, code_of(sent)) == (400, "unknown_parameter"), example.route
    answer = client.get("/api/v1/alerts?colour=red&limit=1").json()["error"]
    assert "colour" in answer["message"]
    assert answer["help"] == "Known: cursor, limit."
    refused = answered.client("wrong", "10.0.2.0").get("/api/v1/alerts?colour=red")
    assert (refused.status_code, code_of(refused)) == (401, "no_key")


@pytest.mark.parametrize("channel", CHANNELS)
def test_events_need_a_key_and_are_of_its_organization(
    answered: Service, keys: Keys, channel: str
) -> None:
    url = f"ws://localhost:8400{EVENTS.partition(' ')[2]}?channel={channel}&after=0"
    assert denial(answered.client("wrong", "10.0.1.0"), url) == (401, "no_key")
    assert denial(answered.client(), url) == (401, "no_key")
    assert denial(answered.client(keys[Role.INGEST, None]), url) == (403, "role_lacking")
    other = answered.client(keys[Role.READER, "other"])
    if channel == "alerts":
        assert denial(other, url) == (403, "all_organizations_needed")
        return
    if channel.startswith("session:"):
        assert denial(other, url) == (404, "not_found")
        return
    kind = "scoring.started" if channel == "sessions" else "evaluation.quality_risk"
    event = {"type": kind, "timestamp_us": 0, "organization_id": "other", "session_id": "o"}
    ServiceEvents(answered.workplace.ledger).append([event])
    with other as client, client.websocket_connect(url) as socket:
        assert socket.receive_json()["organization_id"] == "other"
