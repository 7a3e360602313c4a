"""Fixtures of the tests that drive the code location."""

from collections.abc import Iterator

import dagster as dg
import pytest

from evaluation_pipelines_tests.defs.code_location import CodeLocation
from evaluation_pipelines_tests.workplace import Workplace


@pytest.fixture
def location(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeLocation]:
    """The code location with empty stores, which its resource opens as in production."""
    monkeypatch.setenv("EVAL_DATA_DIR", str(workplace.settings.data_dir))
    with dg.DagsterInstance.ephemeral() as instance:
        yield CodeLocation(workplace, instance)
