"""A scripted judge endpoint on which judge-1 gives 60 points and judge-2 gives 70."""

from collections.abc import Iterator

import pytest

from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import says, score_reply


@pytest.fixture
def judge() -> Iterator[JudgeEndpoint]:
    """The endpoint."""
    with open_judge_endpoint() as endpoint:
        endpoint.always_as("judge-1", says(score_reply(60)))
        endpoint.always_as("judge-2", says(score_reply(70)))
        yield endpoint
