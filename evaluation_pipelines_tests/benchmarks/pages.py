"""Pages of the service and lists of its API over HTTP, with 100 000 sessions in the data folder.

And what it takes to erase a person from them, and to delete what has expired.
"""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from evaluation_pipelines_tests.benchmarks.answers import REQUESTS, Client, outcomes
from evaluation_pipelines_tests.benchmarks.measure import run_command, run_function
from evaluation_pipelines_tests.benchmarks.pages_work import RARE
from evaluation_pipelines_tests.benchmarks.receiver import OURS, server
from evaluation_pipelines_tests.benchmarks.section import Options, Outcome, Section, data_folder

_DAYS = 100
_COMPARING = b"data-reload-after"
_PROGRAM = str(Path(sys.executable).with_name("evaluation-pipelines"))


def run(options: Options) -> Section:
    """Each URL is asked for until its comparison is there, and then 40 times."""
    section, last = Section(), datetime.now(UTC).date() - timedelta(days=1)
    with data_folder(name="pages") as folder:
        made = run_function(
            "pages_work:fill", folder=str(folder), days=_DAYS, sessions=options.sessions_a_day
        )
        section.sizes = {"sessions": made.answer["sessions"], "requests": REQUESTS}
        with server(OURS, folder) as (port, process):
            client = Client(port, process.pid, {"Accept": "text/html"})
            urls = {**_pages(made.answer["session"], last), **_lists(client, last)}
            for name, url in urls.items():
                ready = client.measure(name, url, lambda content: _COMPARING not in content)
                section.rounds[name] = [ready]
            client.close()
        section.outcomes = outcomes(section)
        _delete(section, folder)
    return section


def _pages(session_key: str, last: date) -> Mapping[str, str]:
    """Return the URLs of the pages by name."""
    session = f"/sessions/{quote(session_key, safe='')}"
    everything = f"from={last - timedelta(days=_DAYS)}&to={last}"
    pages = {
        "overview": "/",
        "sessions": "/sessions",
        "sessions, filtered and sorted": "/sessions?model=model-1&score=green&sort=-cost",
        "sessions, by state of the judge": "/sessions?judge=failed",
        "sessions, search in prompts": f"/sessions?q={quote(RARE)}",
        "session, conversation": session,
        "session, technical": f"{session}/technical",
        "session, score": f"{session}/score",
        "models": "/models",
        "agents": "/agents",
        "agent": "/agents/agent-3",
        "trends": "/trends?by=model",
        "trends of all sessions": f"/trends?{everything}&by=repository&step=week",
        "tools": "/tools",
        "tools of all sessions": f"/tools?{everything}",
        "books of a day": f"/operations/books/{last}?state=scored",
        "reviews": "/reviews",
        "judge": "/operations/judge",
        "quarantine": "/operations/quarantine",
        "doctor": "/operations/doctor",
    }
    return {f"page {name}": url for name, url in pages.items()}


def _lists(client: Client, last: date) -> Mapping[str, str]:
    """Return the URLs of the lists of the API by name."""
    old, middle = (last - timedelta(days=number) for number in (_DAYS - 1, _DAYS // 2))
    day = f"from={old}T00:00:00Z&to={old + timedelta(days=1)}T00:00:00Z"
    weeks = f"from={middle}T00:00:00Z&to={middle + timedelta(days=28)}T00:00:00Z"
    second = json.loads(client.get("/api/v1/sessions"))["next_cursor"]
    lists = {
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
    return {f"API: {name}": f"/api/v1/{path}" for name, path in lists.items()}


def _delete(section: Section, folder: Path) -> None:
    """A person with sessions on all days is erased, the events of all but ten days expire."""
    keep = (("EVAL_DATA_DIR", str(folder)), ("EVAL_KEEP_EVENTS_DAYS", "10"))
    for what, *command in (
        ("forget a person", "forget", "--user", "user-3"),
        ("expire events of 90 days", "expire"),
    ):
        section.add(what, measured := run_command(_PROGRAM, *command, environment=keep))
        section.outcomes.append(
            Outcome(
                f"{what}, {section.sizes['sessions']:,.0f} sessions",
                f"{measured.seconds:.0f} s, {measured.peak_mb:.0f} MB",
                "-",
                "-",
                "known",
                None,
            )
        )
