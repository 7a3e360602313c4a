"""No page, answer, event, command, report or database names a person whom EVAL_PEOPLE_VIEW hides.

Every route, command and format is walked; with ``person`` the same walk finds them. Texts are as
they were written, and ``people`` shows what the file of identities is kept with.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

import duckdb
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from evaluation_pipelines.build import DAILY_TABLES
from evaluation_pipelines.cli.conventions import FAILED
from evaluation_pipelines.people.identity_store import hidden_columns, sync_identities
from evaluation_pipelines.reporting.comparison_report import refresh_comparison
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.settings.data import PeopleView
from evaluation_pipelines.storage.daily_table import DailyTable
from evaluation_pipelines.storage.ledger.service_events import ServiceEvents
from evaluation_pipelines_tests.cli.test_filters import COMMANDS, command_of
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.scorecards.calls_profile import DAY, build
from evaluation_pipelines_tests.service.answers import A1, C1, SAME, judging, path_of
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.examples import EXAMPLES, Example
from evaluation_pipelines_tests.service.pages.agent_evaluations import export_agents
from evaluation_pipelines_tests.service.pages.test_every_page import PAGES
from evaluation_pipelines_tests.service.scoring_service import wait_for
from evaluation_pipelines_tests.workplace import NOW, Workplace
from evaluation_pipelines_tests.world import claude, line

VIEWS: tuple[PeopleView, ...] = get_args(PeopleView)
HASH = "5a" * 32
PERSON, TEAM = "person-quill", "team-quokka"
NAMES = (PERSON, "Ada Quill", "ada@quill.test", "quill-7", "owner-quill", HASH)
IDENTITIES = f"""\
people:
  {PERSON}:
    name: {NAMES[1]}
    team: {TEAM}
    ids:
      - email: {NAMES[2]}
"""
OF_A1 = ("--organization", "acme")
JUNE_1 = ("--date", "2026-06-01")
WEEK = ("--date", "2026-06-01..2026-06-07")
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "score": ("who.jsonl",),
    "show": (A1, *OF_A1, "--transcript"),
    "show --judge": (C1, *OF_A1),
    "sessions --by agent": (),
    "tools": (A1, *OF_A1),
    "compare": WEEK,
    "books": ("2026-06-01",),
    "publish --files agent_sessions": (),
    "judge list obsolete": (),
    "judge list events": (),
    "judge list batches": (),
    "judge list missing-tools": (),
    "profiles list calls": (),
    "scorecards list": JUNE_1,
    "scorecards list overrides": (),
    "scorecards list events": (),
    "digest": WEEK,
    "doctor": ("--offline",),
}
CHANGE = {
    *("ingest", "build", "publish", "expire", "forget", "demo", "serve", "reputation update"),
    *("reputation retract", "judge run", "judge validate", "judge session", "profiles set"),
    *("profiles switch", "scorecards override", "quarantine retry", "people import"),
    *("keys create", "keys revoke", "agent-config", "experiment create", "experiment assign"),
}
"""Commands that print what they did, not data."""

OF_OTHERS = {
    "gate": "measures of two arms",
    "mcp": "answers to a client, by the same rules (see test_mcp_server)",
    "experiment show": "numbers of units and measures of arms",
    "people list": "what the file of identities is kept with, and unknown ids",
    "quarantine list": "the bytes of a line that could not be read",
    "reputation list": "agents, in ClickHouse",
    "settings": "paths of this machine",
}
"""Commands without figures about people, and what they show."""


@dataclass(frozen=True)
class Seen:
    """What is seen with one setting."""

    view: PeopleView
    texts: dict[str, str]

    def traces(self) -> dict[str, list[str]]:
        """Return where which hidden names are; with ``person`` where any are."""
        hidden = (*NAMES, TEAM) if self.view == "off" else NAMES
        found = {
            name: [trace for trace in hidden if trace in text] for name, text in self.texts.items()
        }
        return {name: value for name, value in found.items() if value}


def of_ada(session: str, organization: str = "acme") -> bytes:
    """Return a further record of a session, with every attribute that says who that is."""
    of = {"session__id": session, "organization__id": organization, "agent__id": "scout"}
    return line(
        claude("user_prompt", 5, prompt="Go on", **of),
        user__email=NAMES[2],
        user__name=NAMES[1],
        enduser__id=NAMES[3],
        process__owner=NAMES[4],
        user__id=HASH,
        team__id=TEAM,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """Sessions of Ada, also of another organization."""
    with judging(tmp_path_factory.mktemp("shown")) as service:
        workplace = service.workplace
        workplace.settings.identities_path.write_text(IDENTITIES)
        sync_identities(workplace.stores, NOW)
        sent = [of_ada("a1"), of_ada("a2"), of_ada("same"), of_ada("same", "beta")]
        workplace.land("who.jsonl", b"".join(sent))
        build(workplace)
        export_agents(workplace)
        sample = AuditSample(DAY, "acme", SAME, "calls", "0", NOW)
        OverrideStore(workplace.ledger).add_samples([sample])
        yield workplace


def client_of(workplace: Workplace, view: PeopleView) -> TestClient:
    """Return a client that has no key, with a setting; it sees all organizations."""
    settings = workplace.settings.model_copy(update={"people_view": view})
    client = Service(replace(workplace, settings=settings)).client()
    client.headers["Accept"] = "text/html"
    return client


def of_acme(client: TestClient, example: Example) -> str:
    """Return the query that asks for acme, as far as the route takes one."""
    if example in PAGES:
        return "" if example.of_all else "organization=acme&of=acme"
    method, _, path = example.route.partition(" ")
    routes = cast(FastAPI, client.app).openapi()["paths"]
    taken = routes.get(path, {}).get(method.lower(), {}).get("parameters", ())
    return "organization=acme" if any(one["name"] == "organization" for one in taken) else ""


def answer(client: TestClient, example: Example) -> str:
    """Return what a route answers about acme, a download or an error page included."""
    url = example.url
    if query := of_acme(client, example):
        url += f"{'&' if '?' in url else '?'}{query}"
    response = client.request(example.route.partition(" ")[0], url, json=example.body)
    assert response.status_code == 200, (url, response.text)
    return str(response.text)


def reads(example: Example) -> bool:
    """Return True if a route changes nothing."""
    method = str((example.body or {}).get("method", ""))
    return example.body is None or method.rpartition(".")[2] in {
        "query",
        "list",
        "model_comparison",
        "tool_report",
    }


@pytest.mark.parametrize("view", VIEWS)
def test_no_page_or_answer_names_who_is_hidden(built: Workplace, view: PeopleView) -> None:
    client = client_of(built, view)
    walked = [page for page in (*PAGES, *EXAMPLES) if reads(page)]
    seen = Seen(
        view, {f"{example.url} {example.body or ''}": answer(client, example) for example in walked}
    )
    found = seen.traces()
    if view == "person":
        assert {"/sessions ", "/sessions.csv ", f"/sessions/{path_of(A1)} "} <= found.keys()
    else:
        assert found == {}


def settled(client: TestClient, url: str) -> Any:
    """Return the response of a page when models and agents are compared."""
    return wait_for(
        lambda: next(
            (
                response
                for response in [client.get(url)]
                if "data-reload-after" not in response.text
            ),
            None,
        )
    )


@pytest.mark.parametrize("filtered", ["person", "team"])
def test_no_page_chooses_by_who_is_hidden(built: Workplace, filtered: str) -> None:
    client, told = client_of(built, "off"), list[str]()
    for page in (example.url for example in PAGES if not example.of_all):
        url = f"{page}{'&' if '?' in page else '?'}of=acme&{filtered}="
        of_some, of_none = settled(client, f"{url}{PERSON}"), settled(client, f"{url}nosuch")
        if of_some.status_code != 400 and of_some.text != of_none.text.replace("nosuch", PERSON):
            told.append(page)
    assert told == []
    usual = client_of(built, "person").get(f"/sessions.csv?{filtered}=nosuch")
    assert (usual.status_code, usual.text.count("\n")) == (200, 1)


@pytest.mark.parametrize("view", VIEWS)
def test_no_event_names_who_is_hidden(built: Workplace, view: PeopleView) -> None:
    of = {"timestamp_us": 0, "organization_id": "acme", "session_key": A1}
    ServiceEvents(built.ledger).append([{"type": "scoring.started", **of}])
    with client_of(built, view) as client:
        texts = dict[str, str]()
        for channel in ("sessions", f"session:{path_of(A1)}"):
            url = f"ws://localhost:8400/api/v1/events?channel={channel}&after=0"
            with client.websocket_connect(url) as socket:
                texts[channel] = socket.receive_text()
    assert Seen(view, texts).traces() == {}


def shown(program: Program, view: PeopleView) -> Seen:
    """Return what every command that shows data prints, in every format."""
    texts = dict[str, str]()
    listed = COMMANDS.keys() - CHANGE - OF_OTHERS.keys()
    for name in sorted(listed | ARGUMENTS.keys()):
        (option,) = (
            param for param in COMMANDS[command_of(name)].params if "--format" in param.opts
        )
        for form in {*map(str, option.type.choices)} - {"parquet", "jsonl"}:  # type: ignore[attr-defined]
            leave_out = "--transcript" if form == "csv" else None  # it is no table
            arguments = [word for word in ARGUMENTS.get(name, ()) if word != leave_out]
            ran = program(*name.split(), *arguments, "--format", form)
            assert ran.code == (FAILED if name == "doctor" else 0), (name, form, ran.err)
            texts[f"{name} {form}"] = ran.out + ran.err
    return Seen(view, texts)


@pytest.mark.parametrize("view", VIEWS)
def test_no_command_names_who_is_hidden(
    built: Workplace, program: Program, view: PeopleView
) -> None:
    program.set("EVAL_DATA_DIR", str(built.settings.data_dir))
    program.set("EVAL_PEOPLE_VIEW", view)
    (program.folder / "who.jsonl").write_bytes(of_ada("a1"))
    found = shown(program, view).traces()
    if view == "person":
        assert {"sessions json", "show csv", "show table"} <= found.keys()
    else:
        assert found == {}


@pytest.mark.parametrize("view", VIEWS)
def test_no_report_or_table_names_who_is_hidden(built: Workplace, view: PeopleView) -> None:
    settings = built.settings.model_copy(update={"people_view": view, "publish_texts": True})
    stores = replace(built.stores, settings=settings)
    refresh_comparison(stores, NOW)
    published = publish_analytics(stores, NOW)
    files = filter(Path.is_file, Path(settings.reports_dir).rglob("*"))
    texts = {path.name: path.read_text() for path in files}
    with duckdb.connect(str(published.file), read_only=True) as database:
        for name in sorted({*published.rows, "agent_events", "event_texts", "sessions"}):
            rows = database.table(name)
            texts[f"table {name}"] = repr((rows.columns, rows.fetchall()))
    found = Seen(view, texts).traces()
    if view == "person":
        assert {"table sessions", "table agent_events"} <= found.keys()
    else:
        assert found == {}


@pytest.mark.parametrize("daily", DAILY_TABLES, ids=lambda asset: asset.table.name)
def test_no_preview_in_the_interface_names_people(daily: DailyTable) -> None:
    assert not hidden_columns("off").intersection(daily.preview)
