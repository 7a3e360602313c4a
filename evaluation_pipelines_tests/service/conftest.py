"""The service of an empty workplace, and one with scored sessions of two organizations."""

from collections.abc import Iterator

import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines_tests.service.answers import answering
from evaluation_pipelines_tests.service.clients import Browse, Clients, Keys, Service
from evaluation_pipelines_tests.workplace import Workplace


@pytest.fixture
def service(workplace: Workplace) -> Service:
    """The service, without keys."""
    return Service(workplace)


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service of ``answering``, for all tests of a module."""
    with answering(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture(scope="module")
def clients(answered: Service, keys: Keys) -> Clients:
    """Clients of every role for acme, and one of all organizations for operators."""
    of_acme = {str(role): answered.client(keys[role, "acme"]) for role in Role}
    return {**of_acme, "all": answered.client(keys[Role.OPERATOR, None])}


@pytest.fixture(scope="module")
def keys(answered: Service) -> Keys:
    """Keys of each role of acme, of beta, of another organization, and of all."""
    owners = ("acme", "beta", "other", None)
    return {(role, owner): answered.key(role, owner) for role in Role for owner in owners}


@pytest.fixture
def browse(answered: Service, keys: Keys) -> Browse:
    """Return the browser of a role, of all organizations unless one is named."""
    return lambda role, owner=None: answered.browser(keys[role, owner])
