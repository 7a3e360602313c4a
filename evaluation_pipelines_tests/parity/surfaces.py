"""What is dumped of a data folder: rows of tables, answers of the service, outputs of commands.

A surface is a name and its rows; a row is a key and columns.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any
from urllib.parse import quote

import duckdb
import sqlalchemy as sa

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.schemas import AGENT_SCORES, AGENT_SESSIONS, TABLES
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.tables import METADATA
from evaluation_pipelines.storage.stores import Stores, open_stores
from evaluation_pipelines_tests.cli.test_every_command import SAY_ONE_LINE
from evaluation_pipelines_tests.cli.test_filters import COMMANDS
from evaluation_pipelines_tests.parity.folders import Steps
from evaluation_pipelines_tests.parity.normal import VOLATILE
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.examples import routes_of
from evaluation_pipelines_tests.workplace import NOW, Workplace

Row = tuple[str, Mapping[str, Any]]
Surface = tuple[str, Iterable[Row]]

MOST_ANSWERS, MOST_LINES = 30, 4
"""Sessions, or agents, that service and terminal are asked for one by one, evenly drawn."""

LEDGER = (
    *("session_scores", "anchor_scores", "judge_bridges", "judge_anchors"),
    *("judge_profiles", "overrides", "audit_samples", "audit_steps", "retractions"),
    *("submitted_evaluations", "identities", "alerts", "service_events", "session_index"),
    *("forgotten", "erased_events", "erased_rows", "expired_dates"),
)
"""Tables of the ledger that hold what cannot be made again."""

PAST = "--as-of 2026-11-22T12:00:00Z"

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "books": ("{session_date}",),
    "compare": ("", "--runs runs.csv"),
    "doctor": ("--offline",),
    "expire": ("--dry-run",),
    "forget": ("--session {session_id} --dry-run", "--organization {organization} --dry-run"),
    "judge session": ("{session}",),
    "judge list": ("", "obsolete", "batches", "missing-tools"),
    "people list": ("", "unknown"),
    "profiles list": ("", "{profile}"),
    "publish": ("--files {table}",),
    "quarantine list": ("", "--entries", "{entry}"),
    "reputation list": (
        *("", "--identities", "--tables", "{agent_id} --organization {organization}"),
    ),
    "score": ("{file}",),
    "scorecards list": (*("--from 2020-01-01", "--session {session}", "overrides", "events"),),
    "sessions": (
        "",
        *(
            f"--by {group}"
            for group in (
                *("person", "team", "repository", "label", "masque", "model", "agent", "skill"),
            )
        ),
    ),
    "show": ("{session}", "{session} --transcript", "{session} --judge"),
    "tools": ("--fleet", "{session}"),
}
"""Arguments of commands; a name in braces stands for each of its values."""

NO_LIMIT = ("{profile}", "{entry}", "{agent_id}", "--tables")
NO_PAST = ("obsolete", "batches", "events", "--tables", "--by")
"""What else some commands list, which has no `--limit`, or no state of a past time."""

AS_SETS = frozenset({"judge list", "keys list", "status", "doctor"})
"""Commands whose rows have no order where their times are equal."""

OF_MACHINE = frozenset({"disk", "permissions", "versions", "clock"})
"""Areas of the doctor that are of the machine."""
SPAN = {"from": "2025-01-01T00:00:00Z", "to": "2026-12-01T00:00:00Z"}
QUERY = {**SPAN, "limit": "200"}
NOT_RUN = {
    "judge validate": "hundreds of calls to a judge",
    "settings": "the folder and the address of the judge differ each time",
}


def surfaces(steps: Steps) -> Iterator[Surface]:
    """Yield all surfaces of a data folder: what is stored, then answers, some of which write."""
    with open_stores(load_settings()) as stores:
        names = _names(steps, stores)
        yield from _lake(stores)
        yield from _published(stores)
        yield from _ledger(stores)
        yield from _service(stores, names)
    yield from _terminal(steps.program, names)


def _lake(stores: Stores) -> Iterator[Surface]:
    for table in TABLES:
        yield f"lake.{table.name}", _keyed(stores.lake.select(table).to_dicts(), table.key)


def _published(stores: Stores) -> Iterator[Surface]:
    keys = {table.name: table.key for table in TABLES}
    with duckdb.connect(stores.settings.analytics_path, read_only=True) as database:
        database.execute("set TimeZone = 'UTC'")
        found = database.sql("select table_name from information_schema.tables order by 1")
        for (name,) in found.fetchall():
            frame = database.sql(f'from "{name}"').pl()
            yield f"published.{name}", _keyed(frame.to_dicts(), keys.get(name, ()))


def _ledger(stores: Stores) -> Iterator[Surface]:
    for name in LEDGER:
        table = METADATA.tables[name]
        with reading(stores.ledger.engine) as connection:
            kept = [
                each for each in table.c if each is not METADATA.tables["service_events"].c.event_id
            ]
            rows = [dict(each) for each in connection.execute(sa.select(*kept)).mappings()]
        yield f"ledger.{name}", _keyed(rows, ())


_USUAL_KEY = (
    *("organization_id", "session_id", "session_key", "session_date", "type", "change_id"),
    *("judge_profile_id", "profile_id", "version", "annotator", "attempt", "kind", "name"),
    *("judge_model", "scored_at_us", "timestamp_us", "phase"),
)
"""Columns that tell rows apart where a table has no key, or one that is made anew each time."""


def _keyed(rows: Iterable[Mapping[str, Any]], key: Sequence[str]) -> Iterator[Row]:
    names = _USUAL_KEY if not key or VOLATILE & set(key) else key
    for row in rows:
        values = [row[name] for name in names if name in row]
        yield " ".join(v.hex() if isinstance(v, bytes) else str(v) for v in values), row


def _names(steps: Steps, stores: Stores) -> dict[str, list[str]]:
    """Return the values of the names in arguments and paths."""
    sessions = stores.lake.select(AGENT_SESSIONS).sort("organization_id", "session_key")
    drawn = sessions.gather_every(-(-sessions.height // MOST_ANSWERS))
    scores = stores.lake.select(AGENT_SCORES)
    landing = sorted(steps.program.folder.glob("data/landing/**/*.jsonl"), key=str)
    profiles = steps.program("profiles", "list", "--format", "json").items()
    lines = steps.program("quarantine", "list", "--entries", "--format", "json").items()
    return {
        "session": drawn["session_key"].to_list(),
        "session_id": drawn["session_id"].unique().sort().to_list(),
        "session_date": [str(day) for day in stores.lake.partitions(AGENT_SESSIONS)],
        "organization": sessions["organization_id"].unique().sort().to_list(),
        "agent_id": scores["agent_id"].unique().sort().to_list(),
        "table": [table.name for table in TABLES],
        "entry": [each["entry"] for each in lines[:5]],
        "profile": sorted({each["profile_id"] for each in profiles}),
        "file": [str(path) for path in landing[:4]],
    }


def _filled(template: str, names: Mapping[str, list[str]], most: int) -> Iterator[str]:
    """Yield a template with the values of the names in its braces; ``most`` sessions."""
    fields = re.findall(r"\{(\w+)\}", template)
    values = [
        _some(names[each], most if "session" in each or "agent" in each else 100) for each in fields
    ]
    for chosen in product(*values):
        yield template.format(**dict(zip(fields, chosen, strict=True)))


def _some(values: list[str], most: int) -> list[str]:
    return values[:: max(1, -(-len(values) // most))]


def _service(stores: Stores, names: dict[str, list[str]]) -> Iterator[Surface]:
    """Yield the answers of each route and method, as those see them who may see most and least."""
    service = Service(Workplace(stores.settings, stores.landing, stores.lake, stores.ledger), NOW)  # type: ignore[arg-type]
    most, least = (Role.OPERATOR, None), (Role.REVIEWER, names["organization"][-1])
    clients = {str(who[0]): service.client(service.key(*who)) for who in (most, least)}
    for route, operation in sorted(routes_of(service.app.openapi()).items()):
        method, _, path = route.partition(" ")
        if method == "GET" and path != "/metrics":
            queries = {each["name"] for each in operation.get("parameters", ())}
            yield (
                f"api.{path.strip('/').replace('/', '.') or 'root'}",
                [
                    (f"{url} {who}", answer)
                    for who, client in clients.items()
                    for url in _urls(path, queries, names)
                    for answer in _pages(client, url)
                ],
            )
    yield from _gateway(service, clients, names)


def _urls(path: str, queries: set[str], names: dict[str, list[str]]) -> Iterator[str]:
    query = "&".join(f"{name}={value}" for name, value in QUERY.items() if name in queries)
    quoted = {name: [quote(each, safe="") for each in values] for name, values in names.items()}
    for filled in _filled(path, quoted, MOST_ANSWERS):
        yield f"{filled}?{query}" if query else filled


def _pages(client: Any, url: str) -> Iterator[dict[str, Any]]:
    """Yield the answer, and those of its further pages."""
    cursor: str | None = ""
    while cursor is not None:
        yield (found := _answer(client.get(f"{url}&cursor={cursor}" if cursor else url)))
        is_page = isinstance(found["answer"], dict) and found["answer"].get("next_cursor")
        cursor = quote(found["answer"]["next_cursor"], safe="") if is_page else None


def _answer(response: Any) -> dict[str, Any]:
    is_json = response.headers.get("content-type", "").startswith("application/json")
    answer = response.json() if is_json else response.text.splitlines()
    return {"status": response.status_code, "answer": answer}


def _gateway(
    service: Service, clients: Mapping[str, Any], names: dict[str, list[str]]
) -> Iterator[Surface]:
    sessions = _some(names["session"], MOST_ANSWERS)
    calls: dict[str, list[dict[str, Any]]] = {
        "judges.list": [{}],
        "model_comparison": [{}, SPAN],
        "scorecards.query": [{**SPAN, "limit": 1000}, *({"runId": each} for each in sessions)],
        "tool_report": [{"runId": each} for each in sessions],
        "judges.set": [{"id": "few", "name": "Few", "criteria": [{"id": "tool_count"}]}],
        "scorecards.override": [
            {"runId": each, "overrideScore": 40, "annotator": "ann", "reason": "seen"}
            for each in sessions[:3]
        ],
    }
    told = set(re.findall(r'"const": "evaluation\.([^"]+)"', json.dumps(service.app.openapi())))
    assert told == calls.keys(), told ^ calls.keys()
    for method, params in calls.items():
        rows = dict[str, Any]()
        for (who, client), given in product(clients.items(), params):
            body = {"method": f"evaluation.{method}", "params": given}
            sent = client.post("/api/v1/gateway", json=body)
            rows[f"{json.dumps(given)} {who}"] = _answer(sent)
        yield f"gateway.{method}", rows.items()


def _terminal(program: Program, names: dict[str, list[str]]) -> Iterator[Surface]:
    for name in sorted(COMMANDS.keys() - SAY_ONE_LINE - NOT_RUN.keys()):
        options = {option for each in COMMANDS[name].params for option in each.opts}
        templates = ARGUMENTS.get(name, ("",))
        past = tuple(each for each in templates if not each.startswith(NO_PAST))
        if "--limit" in options:
            templates, past = _limited(templates), _limited(past)
        if "--as-of" in options:
            templates = (*templates, *(f"{each} {PAST}" for each in past))
        rows = {
            line: _printed(program, f"{name} {line}", is_set=name in AS_SETS)
            for each in templates
            for line in _filled(each, names, MOST_LINES)
        }
        yield f"terminal.{name.replace(' ', '-')}", rows.items()


def _limited(templates: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        each if each.startswith(NO_LIMIT) else f"{each} --limit 1000" for each in templates
    )


def _printed(program: Program, line: str, *, is_set: bool) -> dict[str, Any]:
    ran = program(*line.split(), "--format", "json")
    try:
        out = json.loads(ran.out)
    except ValueError:
        out = ran.out.splitlines()
    if is_set and isinstance(out, dict):
        out |= {key: _as_set(each) for key, each in out.items() if isinstance(each, list)}
    return {"code": ran.code, "out": out, "err": ran.err.splitlines()}


def _as_set(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort rows by what does not change from run to run, and drop the rest."""
    anew = VOLATILE | {"event_id"}
    ours = [row for row in rows if row.get("area") not in OF_MACHINE]
    kept = [{name: each for name, each in row.items() if name not in anew} for row in ours]
    return sorted(kept, key=json.dumps)
