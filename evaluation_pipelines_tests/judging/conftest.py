"""A scripted judge endpoint, and stores that judge with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judged import Judged, open_judged
from evaluation_pipelines_tests.judging.batch.batched import Batched, open_batched


@pytest.fixture
def judge() -> Iterator[JudgeEndpoint]:
    """A judge with good replies unless it is scripted."""
    with open_judge_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def judged(judge: JudgeEndpoint, tmp_path: Path) -> Iterator[Judged]:
    """Empty stores that judge with that endpoint."""
    with open_judged(tmp_path, judge.base_url) as opened:
        yield opened


@pytest.fixture
def batched(judge: JudgeEndpoint, tmp_path: Path) -> Iterator[Batched]:
    """Empty stores that judge with that endpoint in batch mode."""
    with open_batched(tmp_path, judge) as opened:
        yield opened
