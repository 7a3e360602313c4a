"""A service that is attacked by its telemetry, for all tests that only read its pages."""

from collections.abc import Iterator

import pytest

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
