"""The benchmark of one session runs, on a small file: what the program prints is read as it is."""

from pathlib import Path

import pytest

from evaluation_pipelines_tests.benchmarks import one_session
from evaluation_pipelines_tests.benchmarks.section import Options


@pytest.mark.slow
def test_the_program_and_its_peer_agree_on_the_newest_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_BENCH_DIR", str(tmp_path))
    section = one_session.run(Options(size_mb=4, rounds=1, threads=1))
    assert [len(figures) for figures in section.rounds.values()] == [1, 1]
