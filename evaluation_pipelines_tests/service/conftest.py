"""The service of an empty workplace, and one with scored sessions of two organizations."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from evaluation_pipelines_tests.service.answers import answering, keys_of
from evaluation_pipelines_tests.service.clients import Service
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
def clients(answered: Service) -> dict[str, TestClient]:
    """Clients with the keys of ``keys_of``."""
    return {role: answered.client(key) for role, key in keys_of(answered).items()}
