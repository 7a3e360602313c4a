"""A scored session for tests of scorecards and overrides."""

import pytest

from evaluation_pipelines_tests.scorecards.calls_profile import profile_file, work
from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world.built_before import build_from


@pytest.fixture
def scored(workplace: Workplace) -> Workplace:
    """One session under a user profile and the shipped profiles."""
    profile_file(workplace)
    build_from(workplace, work())
    return workplace
