"""The receiver next to endpoints that do less, under the same load: genuine requests of an agent.

Processor time is that of the server alone; wall times include the clients, on the same cores.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from evaluation_pipelines_tests.benchmarks.measure import BenchmarkError, tell
from evaluation_pipelines_tests.benchmarks.receiver_load import send
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder

_SAMPLE = Path(__file__).parents[2] / "evaluation_pipelines/demo/samples/claude_code/logs.jsonl"
_CONNECTIONS = (1, 16, 200)
_REQUESTS = 2000
OURS, CURRENT = "receiver", "serve"
_PARSE, _READ, _ROTEL = "parses and syncs", "only reads", "rotel-agent"


def run(options: Options) -> Section:
    """All in turn, each with every number of connections; once those that store nothing."""
    section = Section()
    bodies = _SAMPLE.read_bytes().splitlines()
    section.sizes = {
        "requests": _REQUESTS,
        "bytes_per_request": sum(map(len, bodies)) / len(bodies),
    }
    for number in range(options.rounds):
        for name in _contestants()[: None if number == 0 else 2]:
            with data_folder(name="receiver") as folder, server(name, folder) as (port, process):
                _measure(section, name, port, process, bodies)
    section.outcomes = [_outcome(section, number) for number in _CONNECTIONS]
    section.outcomes += [_only_shown(section, name) for name in _contestants()[2:]]
    return section


def _contestants() -> list[str]:
    return [OURS, _PARSE, _READ, *([_ROTEL] if find_spec("rotel") else [])]


def _measure(
    section: Section,
    name: str,
    port: int,
    process: "subprocess.Popen[bytes]",
    bodies: Sequence[bytes],
) -> None:
    import psutil

    server = psutil.Process(process.pid)
    send(port, bodies, 4, 200)  # to warm up
    for connections in _CONNECTIONS:
        before = server.cpu_times()
        load = send(port, bodies, connections, _REQUESTS)
        after = server.cpu_times()
        cpu_seconds = after.user + after.system - before.user - before.system
        figures = {
            **asdict(load),
            "cpu_ms_per_request": cpu_seconds * 1000 / load.requests,
            "requests_per_second": load.requests / load.seconds,
            "resident_mb": server.memory_info().rss / 1e6,
        }
        rounded = {key: round(value, 3) for key, value in figures.items()}
        section.rounds.setdefault(f"{name}, {connections}", []).append(rounded)
        tell(f"  {name}, {connections} connections: {rounded}")


@contextmanager
def server(name: str, folder: Path) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    """Run a contestant on a data folder; yield its port and process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        _command(name, port, folder),
        env={**os.environ, "EVAL_DATA_DIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(port, process)
        yield port, process
    finally:
        process.kill()
        process.wait()


def _command(name: str, port: int, folder: Path) -> list[str]:
    if name in {OURS, CURRENT}:
        program = Path(sys.executable).parent / "evaluation-pipelines"
        only_answers = ["--no-build"] if name == OURS else []
        return [str(program), "serve", "--port", str(port), *only_answers]
    if name == _ROTEL:
        spec = find_spec("rotel")
        assert spec is not None
        assert spec.origin is not None
        agent = Path(spec.origin).parent / "rotel-agent"
        addresses = ["--otlp-http-endpoint", f"127.0.0.1:{port}"]
        addresses += ["--otlp-grpc-endpoint", "127.0.0.1:0"]
        return [str(agent), "start", *addresses, "--exporter", "blackhole"]
    kind = "parse" if name == _PARSE else "read"
    peers = f"{__package__}.receiver_peers"
    return [sys.executable, "-m", peers, kind, str(port), str(folder)]


def _wait(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise BenchmarkError(f"{process.args!r} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"no server on port {port}")


def _median(section: Section, name: str, connections: int, figure: str) -> float:
    return median(figures[figure] for figures in section.rounds[f"{name}, {connections}"])


def _outcome(section: Section, connections: int) -> Outcome:
    ratio = _ratio(section, _PARSE, connections)
    return Outcome(
        f"receiver, {connections} connections: acknowledged requests, against an endpoint that "
        "parses by orjson and syncs",
        _figures(section, OURS, connections),
        _figures(section, _PARSE, connections),
        f"{ratio:.2f}x",
        ">= 0.8x",
        ratio >= 0.8,
    )


def _only_shown(section: Section, name: str) -> Outcome:
    return Outcome(
        f"receiver, 16 connections, against {name}, which stores nothing",
        _figures(section, OURS, 16),
        _figures(section, name, 16),
        f"{_ratio(section, name, 16):.2f}x",
        "",
        None,
    )


def _ratio(section: Section, peer: str, connections: int) -> float:
    ours, theirs = (
        _median(section, name, connections, "requests_per_second") for name in (OURS, peer)
    )
    return ours / theirs


def _figures(section: Section, name: str, connections: int) -> str:
    cpu, rate, p50, p99, memory, size = (
        _median(section, name, connections, figure)
        for figure in (
            *("cpu_ms_per_request", "requests_per_second", "p50_ms", "p99_ms", "resident_mb"),
            "megabytes",
        )
    )
    return (
        f"{rate:.0f}/s, {rate * size / _REQUESTS:.1f} MB/s (p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
        f"{cpu:.2f} ms of a processor, {memory:.0f} MB of memory)"
    )
