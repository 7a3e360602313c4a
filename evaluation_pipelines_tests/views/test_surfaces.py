"""Terminal, JSON, CSV, API, page and analysts' database show the same cells of a session."""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from html import unescape
from typing import Any, TypeAlias

import duckdb
import polars as pl
import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.people.view import hidden_columns
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.schemas import AGENT_SESSIONS, SESSIONS
from evaluation_pipelines.scorecards.domain.withheld import WAITS, SessionKey
from evaluation_pipelines.scorecards.ledger.override_store import AuditSample, OverrideStore
from evaluation_pipelines.service.pages.domain.session_lines import CSV_COLUMNS
from evaluation_pipelines.views.listing import SESSION_LISTING
from evaluation_pipelines.views.sessions import sessions, with_details
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.service.answers import path_of, work
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.tables import tables_of
from evaluation_pipelines_tests.views.test_sessions import judge
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S

Rows: TypeAlias = dict[SessionKey, dict[str, Any]]
"""Values or cells of sessions, by organization and key."""

NAMES = [each for each in SESSIONS.schema if each not in hidden_columns("team")]
SHOWN = ("effective_100", "agent_id", "model", "composite", "source_cli", "started_at",
         "total_tools", "tools_failed", "organization_id", "recommendation")  # fmt: skip
"""Columns of the terminal's table whose cells are of one word."""


def plain(value: Any) -> Any:
    """Return a value as all formats say it: times in ISO 8601 and UTC, pairs as an object."""
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:?00)", value):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list) and value and isinstance(value[0], Mapping) and "key" in value[0]:
        return {each["key"]: each["value"] for each in value}
    return value or None if isinstance(value, list | dict) else value


def by_key(rows: Any) -> Rows:
    return {
        (row["organization_id"], row["session_key"]): {name: plain(row[name]) for name in row}
        for row in rows
    }


def filled(workplace: Workplace) -> None:
    """Sessions that are judged, overridden, failed, costless, alike in two organizations, late."""
    workplace.land(
        "logs.jsonl",
        b"".join(
            (
                work("default", "one", 0),
                work("acme", "same", 60, success="false", error="no such file"),
                work("beta", "same", 120),
                work("beta", "costless", DAY_S).replace(b'"cost_usd"', b'"other"'),
                work("beta", "waits", DAY_S + 60),
            )
        ),
    )
    workplace.ingest()
    workplace.build()
    judge(workplace, 43)
    said = {"score": 12.25, "annotator": "Ann", "reason": "it guessed"}
    path = f"/api/v1/sessions/{path_of('same#baseline-1')}/override?organization=acme"
    assert Service(workplace).client().post(path, json=said).status_code == 200
    names = ("session_date", "organization_id", "session_key", "profile_id", "content_hash")
    (waits,) = expected(workplace).filter(session_id="waits").select(names).iter_rows(named=True)
    OverrideStore(workplace.ledger).add_samples([AuditSample(**waits, drawn_at=NOW)])


@pytest.fixture
def everywhere(program: Program) -> Program:
    with open_workplace(program.folder / "data") as workplace:
        filled(workplace)
    return program


def expected(workplace: Workplace, waiting: frozenset[SessionKey] = frozenset()) -> pl.DataFrame:
    days = workplace.lake.partitions(AGENT_SESSIONS)
    rows = sessions(workplace.stores, days, waiting=waiting, now=NOW)
    return with_details(workplace.stores, SESSION_LISTING.newest_first(rows))


def analysts(workplace: Workplace) -> Rows:
    with duckdb.connect(publish_analytics(workplace.stores, NOW).link, read_only=True) as database:
        database.execute("set TimeZone = 'UTC'")
        return by_key(database.sql("select * from sessions").pl().iter_rows(named=True))


def test_programs_get_the_same_values_everywhere(everywhere: Program) -> None:
    terminal = by_key(everywhere("sessions", "--format", "json").items())
    with open_workplace(everywhere.folder / "data") as workplace:
        ours = by_key(expected(workplace).select(NAMES).iter_rows(named=True))
        service = Service(workplace)
        client = service.client(service.key(Role.READER))
        api = by_key(client.get("/api/v1/sessions").json()["sessions"])
        published = analysts(workplace)
    assert len(ours) == 5
    assert api == ours
    assert terminal == ours
    shown = {key: {n: v for n, v in row.items() if n != WAITS} for key, row in ours.items()}
    assert {key: {n: row[n] for n in shown[key]} for key, row in published.items()} == shown


def test_files_have_the_values_of_json(everywhere: Program) -> None:
    ran = everywhere("sessions", "--format", "csv")
    terminal = by_key(csv.DictReader(io.StringIO(ran.out)))
    with open_workplace(everywhere.folder / "data") as workplace:
        rows = expected(workplace)
        ours = by_key(rows.select(NAMES).iter_rows(named=True))
        service = Service(workplace)
        client = service.client(service.key(Role.READER))
        page = by_key(csv.DictReader(io.StringIO(client.get("/sessions.csv").text)))
    for key, row in ours.items():
        for name in NAMES:
            assert_csv(terminal[key][name], row[name])
        for name in (each for each in CSV_COLUMNS if each in NAMES):
            assert_csv(page[key][name], row[name])


def assert_csv(text: str, value: Any) -> None:
    """A number may be written in several ways, null is empty, what is nested is JSON."""
    if isinstance(value, bool):
        assert text == f"{value}".lower()
    elif isinstance(value, float | int):
        assert float(text) == value
    elif isinstance(value, list | dict):
        assert plain(json.loads(text)) == value
    else:
        assert plain(text.removeprefix("'")) in {value, "" if value is None else value, "[]"}


def test_people_see_the_same_cells_in_the_terminal_and_on_the_page(everywhere: Program) -> None:
    table = [re.split(r"  +", line) for line in everywhere("sessions").out.splitlines()[3:8]]
    with open_workplace(everywhere.folder / "data") as workplace:
        waiting = frozenset({("beta", "waits#baseline-1")})
        rows = expected(workplace, waiting).to_dicts()
        service = Service(workplace)
        page = service.browser(service.key(Role.REVIEWER)).get("/sessions").text
    cell: Callable[[Mapping[str, Any], str], str] = SESSION_LISTING.cell
    assert [each[0] for each in reversed(table)] == [row["session_key"] for row in rows]
    for line, row in zip(reversed(table), rows, strict=True):
        for name in SHOWN:
            assert any(each.startswith(cell(row, name)) for each in line), (name, line)
    (listed,) = (each for each in tables_of(page) if "Started" in each[0])
    scores = re.findall(r'<td class="scored" data-name="Score">(.*?)</td>', page, re.DOTALL)
    for cells, row, score in zip(listed, rows, scores, strict=True):
        assert cells["Started"].split(" failed")[0] == cell(row, "started_at")
        assert cells["Organization"] == cell(row, "organization_id")
        assert cells["Label"] == cell(row, "classification_label")
        assert cells["Cost"] == cell(row, "cost_usd")
        failed = f"{cell(row, 'tools_failed')} of {cell(row, 'total_tools')}"
        assert cells["Failed calls"] == failed
        assert cells["Score, judge, composite"] == cell(row, "effective_100")
        text = " ".join(unescape(re.sub("<[^>]+>", "", score)).split())
        if row[WAITS]:
            assert text == "awaiting review"
            continue
        assert f"{cell(row, 'effective_100')} {cell(row, 'effective_source')}" in text
        assert f"composite {cell(row, 'composite')}, {cell(row, 'recommendation')}" in text
        assert ("judge" in text) == (row["judge_total"] is not None)
        if row["judge_total"] is not None:
            assert f"judge {cell(row, 'judge_total')}" in text


def test_a_reviewer_gets_nulls_for_what_is_blind(everywhere: Program) -> None:
    with open_workplace(everywhere.folder / "data") as workplace:
        service = Service(workplace)
        client = service.client(service.key(Role.REVIEWER))
        api = by_key(client.get("/api/v1/sessions").json()["sessions"])
        page = by_key(csv.DictReader(io.StringIO(client.get("/sessions.csv").text)))
    waits = ("beta", "waits#baseline-1")
    blind = [each.name for each in SESSIONS.columns if each.blind]
    assert {name: api[waits][name] for name in blind} == dict.fromkeys(blind)
    assert {page[waits][name] for name in blind if name in CSV_COLUMNS} == {""}
    assert [key for key, row in api.items() if row[WAITS]] == [waits]
