"""Stores that judge in batch mode."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judging.batch.batched import Batched, open_batched


@pytest.fixture
def batched(judge: JudgeEndpoint, tmp_path: Path) -> Iterator[Batched]:
    """Empty stores that judge with the scripted endpoint in batch mode."""
    with open_batched(tmp_path, judge) as opened:
        yield opened
