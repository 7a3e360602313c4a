"""The lists of the API over HTTP, with 100 000 sessions in the data folder.

One client asks for one page of a list after the other on one connection. Wall times include this
client; processor time is that of the service alone.
"""

import json
import subprocess
import time
from collections.abc import Mapping
from datetime import timedelta
from http.client import HTTPConnection
from statistics import quantiles

from evaluation_pipelines_tests.benchmarks.measure import run_function, tell
from evaluation_pipelines_tests.benchmarks.receiver import OURS, server
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder
from evaluation_pipelines_tests.benchmarks.telemetry_file import END

_DAYS, _SESSIONS_A_DAY = 100, 1000
_REQUESTS = 40
_LIMIT_MS = 200


def run(_options: Options) -> Section:
    """Each list 40 times."""
    section = Section(sizes={"sessions": _DAYS * _SESSIONS_A_DAY, "requests": _REQUESTS})
    with data_folder(name="lists") as folder:
        run_function("lists_work:fill", folder=str(folder), days=_DAYS, sessions=_SESSIONS_A_DAY)
        with server(OURS, folder) as (port, process):
            connection = HTTPConnection("127.0.0.1", port, timeout=120)
            for name, path in _lists(connection).items():
                section.rounds[name] = [_measure(connection, process, name, path)]
            connection.close()
    section.outcomes = [_outcome(section, name) for name in section.rounds]
    return section


def _lists(connection: HTTPConnection) -> Mapping[str, str]:
    """Return the paths of the lists by name."""
    old, middle = (END - timedelta(days=number) for number in (_DAYS - 1, _DAYS // 2))
    day = f"from={old}T00:00:00Z&to={old + timedelta(days=1)}T00:00:00Z"
    weeks = f"from={middle}T00:00:00Z&to={middle + timedelta(days=28)}T00:00:00Z"
    second = json.loads(_request(connection, "sessions")[1])["next_cursor"]
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


def _measure(
    connection: HTTPConnection, process: "subprocess.Popen[bytes]", name: str, path: str
) -> dict[str, float]:
    import psutil

    service = psutil.Process(process.pid)
    first_ms, _ = _request(connection, path)
    before = service.cpu_times()
    milliseconds = [_request(connection, path)[0] for _ in range(_REQUESTS)]
    after = service.cpu_times()
    cpu_seconds = after.user + after.system - before.user - before.system
    cuts = quantiles(milliseconds, n=100, method="inclusive")
    taken = {
        "p50_ms": cuts[49],
        "p95_ms": cuts[94],
        "cpu_ms": cpu_seconds * 1000 / _REQUESTS,
        "first_ms": first_ms,
    }
    figures = {each: round(value, 1) for each, value in taken.items()}
    tell(f"  {name}: {figures}")
    return figures


def _request(connection: HTTPConnection, path: str) -> tuple[float, bytes]:
    began = time.perf_counter()
    connection.request("GET", f"/api/v1/{path}")
    response = connection.getresponse()
    content = response.read()
    took = (time.perf_counter() - began) * 1000
    if response.status != 200:
        raise AssertionError((path, response.status, content[:500]))
    return took, content


def _outcome(section: Section, name: str) -> Outcome:
    figures = section.rounds[name][0]
    return Outcome(
        f"API: {name}, {section.sizes['sessions']:,.0f} sessions: p95 (p50, processor time)",
        f"{figures['p95_ms']:.0f} ms ({figures['p50_ms']:.0f}, {figures['cpu_ms']:.0f} ms)",
        "-",
        "-",
        f"<= {_LIMIT_MS} ms",
        figures["p95_ms"] <= _LIMIT_MS,
    )
