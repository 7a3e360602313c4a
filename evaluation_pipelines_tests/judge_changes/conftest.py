"""A scripted judge endpoint on which judge-1 gives 60 points and judge-2 gives 70."""

from collections.abc import Iterator

import pytest

from evaluation_pipelines_tests.judge_changes.changed import scripted_judges
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint


@pytest.fixture
def judge() -> Iterator[JudgeEndpoint]:
    """The endpoint."""
    with scripted_judges() as endpoint:
        yield endpoint
