"""Every page of the service over HTTP, with 100 000 sessions in the data folder.

One client asks one page after the other on one connection. Wall times include this client;
processor time is that of the service alone. The table of ``docs/performance.md`` is written.
"""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from statistics import quantiles
from urllib.parse import quote

from evaluation_pipelines_tests.benchmarks import report
from evaluation_pipelines_tests.benchmarks.measure import run_function, tell
from evaluation_pipelines_tests.benchmarks.pages_work import RARE
from evaluation_pipelines_tests.benchmarks.receiver import OURS, server
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder

_DAYS, _SESSIONS_A_DAY = 100, 1000
_REQUESTS = 40
_LIMIT_MS = 200
_COMPARING = b"data-reload-after"


BEGIN, END = "<!-- pages:begin -->\n", "<!-- pages:end -->"
_SHOWN = ("p50_ms", "p95_ms", "cpu_ms", "first_ms", "kilobytes")
_HEADINGS = ("page", "p50, ms", "p95, ms", "processor, ms", "first request, ms", "kB")


@dataclass(frozen=True, slots=True)
class _Page:
    """Name and URL of a page."""

    name: str
    url: str


def run(_options: Options) -> Section:
    """The service is asked for each page until its comparison is there, and then 40 times."""
    section = Section()
    with data_folder(name="pages") as folder:
        made = run_function(
            "pages_work:fill", folder=str(folder), days=_DAYS, sessions=_SESSIONS_A_DAY
        )
        section.sizes = {"sessions": made.answer["sessions"], "requests": _REQUESTS}
        with server(OURS, folder) as (port, process):
            for page in _pages(made.answer["session"]):
                section.rounds[page.name] = [_measure(port, process, page)]
    section.outcomes = [_outcome(section, name) for name in section.rounds]
    write(section)
    return section


def write(section: Section) -> None:
    """Write the table of ``docs/performance.md``."""
    machine = report.machine()
    circumstances = (
        f"{datetime.now(UTC).date()}: {machine['cpu']}, {machine['cores']} cores, "
        f"{section.sizes['sessions']:,.0f} sessions of 100 events on {_DAYS} days, "
        f"{_REQUESTS} requests a page."
    )
    rows = [
        (name, *(f"{figures[each]:.0f}" for each in _SHOWN))
        for name, (figures,) in section.rounds.items()
    ]
    lines = [circumstances, "", *report.table(_HEADINGS, rows)]
    report.replace_part(BEGIN, END, "\n".join(lines) + "\n")


def _pages(session_key: str) -> Iterator[_Page]:
    day = datetime.now(UTC).date() - timedelta(days=1)
    session = f"/sessions/{quote(session_key, safe='')}"
    everything = f"from={day - timedelta(days=_DAYS)}&to={day}"
    yield _Page("overview", "/")
    yield _Page("sessions", "/sessions")
    yield _Page("sessions, filtered and sorted", "/sessions?model=model-1&score=green&sort=-cost")
    yield _Page("sessions, by state of the judge", "/sessions?judge=failed")
    yield _Page("sessions, search in prompts", f"/sessions?q={quote(RARE)}")
    yield _Page("session, conversation", session)
    yield _Page("session, technical", f"{session}/technical")
    yield _Page("session, score", f"{session}/score")
    yield _Page("models", "/models")
    yield _Page("agents", "/agents")
    yield _Page("agent", "/agents/agent-3")
    yield _Page("trends", "/trends?by=model")
    yield _Page("trends of all sessions", f"/trends?{everything}&by=repository&step=week")
    yield _Page("tools", "/tools")
    yield _Page("tools of all sessions", f"/tools?{everything}")
    yield _Page("books of a day", f"/books/{day}?state=scored")


def _measure(port: int, process: "subprocess.Popen[bytes]", page: _Page) -> dict[str, float]:
    import psutil

    service = psutil.Process(process.pid)
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    first_ms, content = _request(connection, page.url)
    while _COMPARING in content:
        time.sleep(0.5)
        _, content = _request(connection, page.url)
    before = service.cpu_times()
    milliseconds = [_request(connection, page.url)[0] for _ in range(_REQUESTS)]
    after = service.cpu_times()
    connection.close()
    cpu_seconds = after.user + after.system - before.user - before.system
    cuts = quantiles(milliseconds, n=100, method="inclusive")
    taken = {
        "p50_ms": cuts[49],
        "p95_ms": cuts[94],
        "cpu_ms": cpu_seconds * 1000 / _REQUESTS,
        "first_ms": first_ms,
        "kilobytes": len(content) / 1000,
    }
    figures = {name: round(value, 1) for name, value in taken.items()}
    tell(f"  {page.name}: {figures}")
    return figures


def _request(connection: HTTPConnection, url: str) -> tuple[float, bytes]:
    began = time.perf_counter()
    connection.request("GET", url, headers={"Accept": "text/html"})
    response = connection.getresponse()
    content = response.read()
    took = (time.perf_counter() - began) * 1000
    if response.status != 200:
        raise AssertionError((url, response.status, content[:500]))
    return took, content


def _outcome(section: Section, name: str) -> Outcome:
    figures = section.rounds[name][0]
    return Outcome(
        f"page {name}, {section.sizes['sessions']:,.0f} sessions: p95 (p50, processor time)",
        f"{figures['p95_ms']:.0f} ms ({figures['p50_ms']:.0f}, {figures['cpu_ms']:.0f} ms)",
        "-",
        "-",
        f"<= {_LIMIT_MS} ms",
        figures["p95_ms"] <= _LIMIT_MS,
    )
