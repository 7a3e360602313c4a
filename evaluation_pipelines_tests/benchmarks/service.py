"""Reputation over HTTP, and how soon the service shows a line that was appended in landing.

Reputation is asked while no other process uses the embedded ClickHouse and while one does.
One client asks one thing after the other on one connection, as an agent does before it goes on.
Wall times include this client; processor time is that of the service alone.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import quantiles

from evaluation_pipelines_tests.benchmarks.answers import Client
from evaluation_pipelines_tests.benchmarks.measure import run_function, tell
from evaluation_pipelines_tests.benchmarks.receiver import CURRENT, OURS, server
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder
from evaluation_pipelines_tests.world import session

_AGENTS, _EVALUATIONS = 100, 500
_REQUESTS = 100
_LIMIT_MS = 50
_LINES, _LINE_LIMIT_S = 4, 10
_ROUTES = ("POST /v1/evaluate", "GET /v1/reputation")


def run(_options: Options) -> Section:
    """Full windows of 100 agents, exported; each request is about another agent."""
    section = Section(sizes={"agents": _AGENTS, "evaluations": _AGENTS * _EVALUATIONS})
    with data_folder(name="service") as folder:
        run_function(
            "service_work:fill", folder=str(folder), agents=_AGENTS, evaluations=_EVALUATIONS
        )
        with server(OURS, folder) as running:
            _ask(section, "warm-up", *running)
            _ask(section, "alone", *running)
            with _other_process(folder):
                _ask(section, "in use", *running)
    section.outcomes = [*(_outcome(section, route) for route in _ROUTES), _line(section)]
    return section


def _line(section: Section) -> Outcome:
    """Append a line, wait until the API has its session; the first also waits for the start."""
    with data_folder(name="line") as folder, server(CURRENT, folder) as (port, process):
        client = Client(port, process.pid, {})
        for number in range(_LINES):
            name, began = f"live-{number}", time.perf_counter()
            with (folder / "landing" / "live.jsonl").open("ab") as landing:
                landing.write(session(name, number))
            while name.encode() not in client.get("/api/v1/sessions"):
                if time.perf_counter() - began > 120:
                    raise AssertionError(f"{name} is not shown")
                time.sleep(0.1)
            taken = {"seconds": round(time.perf_counter() - began, 2)}
            section.rounds.setdefault("line to API", []).append(taken)
            tell(f"  line to API: {taken}")
        client.close()
    slowest = max(figures["seconds"] for figures in section.rounds["line to API"][1:])
    return Outcome(
        f"a line in landing -> its session in the API of `serve`, slowest of {_LINES - 1}",
        f"{slowest:.1f} s",
        "-",
        "-",
        f"<= {_LINE_LIMIT_S} s",
        slowest <= _LINE_LIMIT_S,
    )


def _ask(section: Section, name: str, port: int, process: "subprocess.Popen[bytes]") -> None:
    import psutil

    server_process = psutil.Process(process.pid)
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    for route in _ROUTES:
        before = server_process.cpu_times()
        milliseconds = [_request(connection, route, f"{name}-{n}", n) for n in range(_REQUESTS)]
        after = server_process.cpu_times()
        cpu_seconds = after.user + after.system - before.user - before.system
        cuts = quantiles(milliseconds, n=100, method="inclusive")
        taken = {"p50": cuts[49], "p95": cuts[94], "cpu": cpu_seconds * 1000 / _REQUESTS}
        figures = {f"{key}_ms": round(value, 2) for key, value in taken.items()}
        section.rounds.setdefault(f"{route}, {name}", []).append(figures)
        tell(f"  {route}, {name}: {figures}")
    connection.close()


def _request(connection: HTTPConnection, route: str, evaluation: str, number: int) -> float:
    agent = f"agent-{number % _AGENTS}"
    began = time.perf_counter()
    if route.startswith("POST"):
        sent = {"agent_id": agent, "passed": True, "evaluation_id": evaluation, "latency_ms": 20}
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/evaluate", json.dumps(sent), headers)
    else:
        connection.request("GET", f"/v1/reputation/{agent}")
    response = connection.getresponse()
    answer = json.load(response)
    took = (time.perf_counter() - began) * 1000
    if response.status != 200 or answer.get("reputation", answer)["eval_count"] != _EVALUATIONS:
        raise AssertionError(answer)
    return took


@contextmanager
def _other_process(folder: Path) -> Iterator[None]:
    """Keep the embedded ClickHouse busy meanwhile."""
    command = [sys.executable, "-m", f"{__package__}.service_work", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != "busy":
                raise AssertionError("the embedded ClickHouse could not be used")
            yield
            if process.poll() is not None:
                raise AssertionError("the embedded ClickHouse was not in use all the time")
        finally:
            process.kill()


def _outcome(section: Section, route: str) -> Outcome:
    in_use, alone = (section.rounds[f"{route}, {name}"][0] for name in ("in use", "alone"))
    return Outcome(
        f"{route}, p95, while another process uses the embedded ClickHouse, against none",
        _shown(in_use),
        _shown(alone),
        f"{in_use['p95_ms'] / alone['p95_ms']:.2f}x",
        f"<= {_LIMIT_MS} ms",
        in_use["p95_ms"] <= _LIMIT_MS,
    )


def _shown(figures: dict[str, float]) -> str:
    p95, p50, cpu = (figures[f"{name}_ms"] for name in ("p95", "p50", "cpu"))
    return f"{p95:.1f} ms (p50 {p50:.1f} ms, {cpu:.1f} ms of a processor)"
