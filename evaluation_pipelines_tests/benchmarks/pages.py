"""Every page of the service over HTTP, with 100 000 sessions in the data folder."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from evaluation_pipelines_tests.benchmarks.answers import REQUESTS, Client, outcomes
from evaluation_pipelines_tests.benchmarks.measure import run_function
from evaluation_pipelines_tests.benchmarks.pages_work import RARE
from evaluation_pipelines_tests.benchmarks.receiver import OURS, server
from evaluation_pipelines_tests.benchmarks.section import Options, Section, data_folder

_DAYS, _SESSIONS_A_DAY = 100, 1000
_COMPARING = b"data-reload-after"


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
        section.sizes = {"sessions": made.answer["sessions"], "requests": REQUESTS}
        with server(OURS, folder) as (port, process):
            client = Client(port, process.pid, {"Accept": "text/html"})
            for page in _pages(made.answer["session"]):
                figures = client.measure(page.name, page.url, lambda text: _COMPARING not in text)
                section.rounds[page.name] = [figures]
            client.close()
    section.outcomes = outcomes(section, "page")
    return section


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
    yield _Page("books of a day", f"/operations/books/{day}?state=scored")
    yield _Page("reviews", "/reviews")
    yield _Page("judge", "/operations/judge")
    yield _Page("quarantine", "/operations/quarantine")
    yield _Page("doctor", "/operations/doctor")
