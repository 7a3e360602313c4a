"""The lists of the API over HTTP, with 100 000 sessions in the data folder."""

import json
from collections.abc import Mapping
from datetime import timedelta

from evaluation_pipelines_tests.benchmarks.answers import REQUESTS, Client, outcomes
from evaluation_pipelines_tests.benchmarks.measure import run_function
from evaluation_pipelines_tests.benchmarks.receiver import OURS, server
from evaluation_pipelines_tests.benchmarks.section import Options, Section, data_folder
from evaluation_pipelines_tests.benchmarks.telemetry_file import END

_DAYS, _SESSIONS_A_DAY = 100, 1000


def run(_options: Options) -> Section:
    """Each list 40 times."""
    section = Section(sizes={"sessions": _DAYS * _SESSIONS_A_DAY, "requests": REQUESTS})
    with data_folder(name="lists") as folder:
        run_function("lists_work:fill", folder=str(folder), days=_DAYS, sessions=_SESSIONS_A_DAY)
        with server(OURS, folder) as (port, process):
            client = Client(port, process.pid, {})
            for name, path in _lists(client).items():
                section.rounds[name] = [client.measure(name, f"/api/v1/{path}")]
            client.close()
    section.outcomes = outcomes(section, "API:")
    return section


def _lists(client: Client) -> Mapping[str, str]:
    """Return the paths of the lists by name."""
    old, middle = (END - timedelta(days=number) for number in (_DAYS - 1, _DAYS // 2))
    day = f"from={old}T00:00:00Z&to={old + timedelta(days=1)}T00:00:00Z"
    weeks = f"from={middle}T00:00:00Z&to={middle + timedelta(days=28)}T00:00:00Z"
    second = json.loads(client.get("/api/v1/sessions"))["next_cursor"]
    return {
        "sessions": "sessions",
        "sessions, the second page": f"sessions?cursor={second}",
        "sessions of an old day": f"sessions?{day}",
        "sessions before an old date": f"sessions?to={old + timedelta(days=1)}T00:00:00Z",
        "sessions, none that match": "sessions?agent_id=nothing",
        "scorecards": "scorecards?profile_id=best",
        "scorecards of four weeks": f"scorecards?{weeks}",
        "scorecards, none that match": "scorecards?agent_id=nothing",
        "books of a day": f"books/{old}",
    }
