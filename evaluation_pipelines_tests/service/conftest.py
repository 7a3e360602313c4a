"""The service of an empty workplace."""

import pytest

from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import Workplace


@pytest.fixture
def service(workplace: Workplace) -> Service:
    """The service, without keys."""
    return Service(workplace)
