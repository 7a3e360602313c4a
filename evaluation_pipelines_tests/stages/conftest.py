"""Lakes of genuine telemetry that several tests read and none changes."""

from collections.abc import Iterator

import pytest

from evaluation_pipelines.stages.build import DateBuilt
from evaluation_pipelines_tests.stages.golden import FORMS
from evaluation_pipelines_tests.workplace import Workplace, open_workplace


@pytest.fixture(scope="session", params=FORMS)
def golden_form(request: pytest.FixtureRequest) -> str:
    """How the telemetry is encoded."""
    return str(request.param)


@pytest.fixture(scope="session")
def golden_lake(golden_form: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """One form, ingested and built."""
    with open_workplace(tmp_path_factory.mktemp("golden")) as workplace:
        workplace.land("logs.jsonl", FORMS[golden_form].read_bytes())
        workplace.ingest()
        (built,) = workplace.build()
        assert isinstance(built, DateBuilt)
        yield workplace
