"""Fixtures of build tests."""

import pytest

from evaluation_pipelines_tests.workplace import Workplace
from evaluation_pipelines_tests.world import DAY_S, session


@pytest.fixture
def two_dates(workplace: Workplace) -> Workplace:
    """Land and ingest a session on June 1st and on June 2nd, without building them."""
    workplace.land("logs.jsonl", b"".join(session(f"s{day}", day * DAY_S) for day in range(2)))
    workplace.ingest()
    return workplace
