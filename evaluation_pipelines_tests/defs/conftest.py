"""Fixtures of the tests that drive the code location."""

import os
from collections.abc import Iterator

import dagster as dg
import pytest

from evaluation_pipelines_tests.defs.code_location import CodeLocation
from evaluation_pipelines_tests.receiver import Receiver, open_receiver
from evaluation_pipelines_tests.workplace import Workplace


@pytest.fixture
def location(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeLocation]:
    """The code location with empty stores, which its resource opens as in production."""
    for variable in [name for name in os.environ if name.startswith("EVAL_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(workplace.settings.data_dir)  # where no .env lies
    monkeypatch.setenv("EVAL_DATA_DIR", str(workplace.settings.data_dir))
    with dg.DagsterInstance.ephemeral() as instance:
        yield CodeLocation(workplace, instance)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """The webhook to which alerts go."""
    with open_receiver() as opened:
        monkeypatch.setenv("EVAL_ALERT_WEBHOOK_URL", opened.url)
        yield opened
