"""How long the service takes to answer: one client that asks for one thing after the other.

Wall times include this client; processor time is that of the service alone.
"""

import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from statistics import quantiles

from evaluation_pipelines_tests.benchmarks.measure import tell
from evaluation_pipelines_tests.benchmarks.section import Outcome, Section

REQUESTS = 40
_LIMIT_MS = 200


class Client:
    """A connection to a service on this machine, by its port and process id."""

    def __init__(self, port: int, process_id: int, headers: Mapping[str, str]) -> None:
        import psutil

        self._connection = HTTPConnection("127.0.0.1", port, timeout=120)
        self._service, self._headers = psutil.Process(process_id), headers

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def get(self, url: str) -> bytes:
        """Return what a URL answers; raise AssertionError if that is not 200."""
        self._connection.request("GET", url, headers=dict(self._headers))
        response = self._connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise AssertionError((url, response.status, content[:500]))
        return content

    def measure(
        self, name: str, url: str, is_ready: Callable[[bytes], bool] = lambda _: True
    ) -> dict[str, float]:
        """Ask until the answer is ready, then 40 times; return milliseconds and the size in kB."""
        first_ms, content = self._timed(url)
        while not is_ready(content):
            time.sleep(0.5)
            content = self.get(url)
        before = self._service.cpu_times()
        milliseconds = [self._timed(url)[0] for _ in range(REQUESTS)]
        after = self._service.cpu_times()
        cpu_seconds = after.user + after.system - before.user - before.system
        cuts = quantiles(milliseconds, n=100, method="inclusive")
        taken = {
            "p50_ms": cuts[49],
            "p95_ms": cuts[94],
            "cpu_ms": cpu_seconds * 1000 / REQUESTS,
            "first_ms": first_ms,
            "kilobytes": len(content) / 1000,
        }
        figures = {key: round(value, 1) for key, value in taken.items()}
        tell(f"  {name}: {figures}")
        return figures

    def _timed(self, url: str) -> tuple[float, bytes]:
        began = time.perf_counter()
        content = self.get(url)
        return (time.perf_counter() - began) * 1000, content


def outcomes(section: Section) -> list[Outcome]:
    """Return what came out for each URL of a section, which has a round for each by its name."""
    return [
        Outcome(
            f"{name}, {section.sizes['sessions']:,.0f} sessions: p95 (p50, processor time)",
            f"{figures['p95_ms']:.0f} ms ({figures['p50_ms']:.0f}, {figures['cpu_ms']:.0f} ms)",
            "-",
            "-",
            f"<= {_LIMIT_MS} ms",
            figures["p95_ms"] <= _LIMIT_MS,
        )
        for name, (figures,) in section.rounds.items()
    ]
