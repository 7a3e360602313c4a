"""Fixtures that many tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation_pipelines_tests.workplace import Workplace, open_workplace


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    """Empty stores in a temporary folder."""
    with open_workplace(tmp_path) as opened:
        yield opened
