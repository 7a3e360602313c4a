"""A home folder without transcripts, and a data folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation_pipelines.telemetry.domain.dialects.registry import TRANSCRIPT_READERS
from evaluation_pipelines_tests.workplace import Workplace, open_workplace


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in TRANSCRIPT_READERS:
        monkeypatch.delenv(program.variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    with open_workplace(tmp_path / "data") as opened:
        yield opened
