"""A walk over all routes: with a wrong key, a lacking role, and a key of another organization."""

from collections.abc import Iterator

import pytest

from evaluation_pipelines.access.domain.caller import Role
from evaluation_pipelines_tests.service.answers import judging
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.examples import EXAMPLES, Example, routes_of

PRIVATE = [each for each in EXAMPLES if each.role is not None]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with judging(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture(scope="module")
def keys(answered: Service) -> dict[tuple[Role, str | None], str]:
    """Return a key for each role of acme, of another organization, and of all."""
    owners = ("acme", "other", None)
    return {(role, owner): answered.key(role, owner) for role in Role for owner in owners}


def named(example: Example) -> str:
    method = (example.body or {}).get("method", "")
    return f"{example.route} {method}".strip()


def test_every_route_has_an_example(answered: Service) -> None:
    assert {each.route for each in EXAMPLES} == routes_of(answered.app.openapi()).keys()


@pytest.mark.parametrize("example", PRIVATE, ids=named)
@pytest.mark.usefixtures("keys")
def test_a_wrong_key_is_401(answered: Service, example: Example) -> None:
    for client in (answered.client("wrong"), answered.client()):
        response = example.send(client)
        assert (response.status_code, response.json()["error"]["code"]) == (401, "no_key")


@pytest.mark.parametrize("example", PRIVATE, ids=named)
def test_a_role_that_lacks_is_403_and_one_that_suffices_is_not(
    answered: Service, keys: dict[tuple[Role, str | None], str], example: Example
) -> None:
    assert example.role is not None
    for role in Role:
        response = example.send(answered.client(keys[role, None]))
        if role.includes(example.role):
            # Of all organizations: the example names a session that is in one of them.
            assert response.status_code in {200, 202}, response.text
        else:
            assert (response.status_code, response.json()["error"]["code"]) == (403, "role_lacking")


@pytest.mark.parametrize("example", PRIVATE, ids=named)
def test_another_organization_sees_nothing_of_it(
    answered: Service, keys: dict[tuple[Role, str | None], str], example: Example
) -> None:
    assert example.role is not None
    response = example.send(answered.client(keys[example.role, "other"]))
    if example.of_all:
        assert response.json()["error"]["code"] == "all_organizations_needed"
    elif example.names_session:
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
    else:
        assert response.status_code == 200
    for word in ("acme", "beta", "a1#", "b1#", "secret-plan", "model-a"):
        assert word not in response.text


@pytest.mark.parametrize(
    "example", [each for each in PRIVATE if not each.of_all and "?" in each.url], ids=named
)
def test_asking_for_another_organization_is_404(
    answered: Service, keys: dict[tuple[Role, str | None], str], example: Example
) -> None:
    assert example.role is not None
    response = answered.client(keys[example.role, "acme"]).get(f"{example.url}&organization=beta")
    assert response.status_code == 404
