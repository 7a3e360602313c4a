"""Fixtures that many tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation_pipelines_tests.otlp_builders import DAY_S, session
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.workplace import Workplace, open_workplace


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    """Empty stores in a temporary folder."""
    with open_workplace(tmp_path) as opened:
        yield opened


@pytest.fixture
def program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Program:
    """The terminal program in an empty folder."""
    return Program(tmp_path, monkeypatch, capsys)


@pytest.fixture
def three_days(program: Program) -> Program:
    """The same, with a session each on June 1st, 2nd and 3rd ingested."""
    lines = [session(f"s{day}", day * DAY_S) for day in range(3)]
    program.land("logs.jsonl", b"".join(lines))
    program("ingest")
    return program


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that take longest: at the end they would run alone on one core."""
    items.sort(key=lambda item: "_kills.py" not in item.nodeid)
