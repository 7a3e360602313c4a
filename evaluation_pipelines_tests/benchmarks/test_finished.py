"""A run that was stopped goes on with the parts that it has not finished."""

from dataclasses import replace
from pathlib import Path

import pytest

from evaluation_pipelines_tests.benchmarks import finished as module
from evaluation_pipelines_tests.benchmarks.finished import finished, keep
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section

OPTIONS = Options(size_mb=12, rounds=2, threads=2)
SECTION = Section(
    rounds={"ours": [{"seconds": 1.5}]},
    sizes={"file_bytes": 12.0},
    outcomes=[Outcome("ingest", "8 MB/s", "4 MB/s", "2.00", ">= 1.3", met=True)],
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVAL_BENCH_DIR", str(tmp_path))


def test_a_finished_part_is_kept_as_it_was_measured() -> None:
    assert finished("ingest", OPTIONS) is None
    keep("ingest", SECTION, OPTIONS)
    assert finished("ingest", OPTIONS) == SECTION
    assert finished("memory", OPTIONS) is None


def test_a_part_of_another_size_is_measured_again() -> None:
    keep("ingest", SECTION, OPTIONS)
    assert finished("ingest", replace(OPTIONS, rounds=3)) is None


def test_a_part_of_another_program_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    keep("ingest", SECTION, OPTIONS)
    monkeypatch.setattr(module, "program_version", lambda: "another")
    assert finished("ingest", OPTIONS) is None
