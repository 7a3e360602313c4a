"""Services whose pages are only read: one attacked by its telemetry, one with agents."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines_tests.service.answers import answering
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.agent_evaluations import evaluate, export_agents
from evaluation_pipelines_tests.service.pages.hostile import (
    correct,
    hostile_service,
    score,
)
from evaluation_pipelines_tests.service.scoring_service import ScoringService


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScoringService]:
    """Of a hostile session one scoring failed, one did not, and a person corrected it."""
    with hostile_service(tmp_path_factory.mktemp("hostile")) as service:
        score(service, 1)
        score(service, 2)
        correct(service)
        yield service


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Sessions and agents of acme and beta."""
    with answering(tmp_path_factory.mktemp("compared")) as service:
        export_agents(service.workplace)
        evaluate(service.workplace, "acme", "scout", 60)
        evaluate(service.workplace, "beta", "scout", 3)
        yield service


@pytest.fixture(scope="session")
def reader_keys(compared: Service) -> dict[str | None, str]:
    """Keys of readers, by the organization that they see; None: all."""
    return {owner: compared.key(Role.READER, owner) for owner in ("acme", "beta", None)}


@pytest.fixture
def reader(compared: Service, reader_keys: dict[str | None, str]) -> TestClient:
    """A browser of someone who sees all organizations."""
    return compared.browser(reader_keys[None])
