"""Scored sessions for tests of the scorecard commands."""

import shutil
from pathlib import Path

import pytest

from evaluation_pipelines.build import Build
from evaluation_pipelines.telemetry.ingest import Ingest
from evaluation_pipelines_tests.cli.scorecards.labeled_work import work
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import DAY_S


@pytest.fixture(scope="module")
def scored_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of two simple sessions of June 1 and one research session of June 2."""
    sessions = (work("a", 0, "simple"), work("b", 600, "simple", "model-b"))
    with open_workplace(tmp_path_factory.mktemp("scored") / "data") as workplace:
        workplace.land("logs.jsonl", b"".join(sessions) + work("c", DAY_S, "research"))
        Ingest(workplace.stores).run()
        build = Build(workplace.stores)
        build.run(build.pending_dates())
    return workplace.settings.data_dir


@pytest.fixture
def scored(program: Program, scored_data: Path) -> Program:
    """The program with a copy of this data, which is faster than building it again."""
    shutil.copytree(scored_data, program.folder / "data")
    return program
