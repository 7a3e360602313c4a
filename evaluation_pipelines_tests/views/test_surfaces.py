"""Terminal, JSON, CSV, API, page and analysts' database show the same cells of a list."""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from html import unescape
from typing import Any, TypeAlias

import duckdb
import polars as pl
import pytest

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.cli.session_lines import waiting_of
from evaluation_pipelines.people.identity_store import hidden_columns
from evaluation_pipelines.reporting.books import settled_books
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.reputation.domain.signals import identity_id, unknown_identity
from evaluation_pipelines.reputation.submitted import SubmittedEvaluation, SubmittedEvaluations
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    AGENTS,
    EVALUATION_BOOKS,
    OVERRIDES,
    REPUTATION_SCORES,
    SCORECARDS,
    SESSION_KEY,
    SESSIONS,
    Table,
)
from evaluation_pipelines.scorecards.blind_reviews import calibration
from evaluation_pipelines.scorecards.domain.calibration import AGREEMENT_COLUMNS
from evaluation_pipelines.scorecards.domain.overrides import outdated
from evaluation_pipelines.scorecards.domain.withheld import WAITS, SessionKey, withhold
from evaluation_pipelines.scorecards.overrides import overrides_with_states
from evaluation_pipelines.scorecards.scorecard_queries import CardQuery, query_cards
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.views.agents import agents
from evaluation_pipelines.views.listing import AGENT_LISTING, SESSION_LISTING
from evaluation_pipelines.views.sessions import sessions, with_details
from evaluation_pipelines.views.tool_calls import tool_calls
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.service.answers import path_of, work
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.agent_evaluations import export_agents
from evaluation_pipelines_tests.service.pages.tables import tables_of
from evaluation_pipelines_tests.service.pages.test_review_lists import stale
from evaluation_pipelines_tests.views.test_sessions import judge
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S

Rows: TypeAlias = dict[tuple[Any, ...], dict[str, Any]]
"""Values or cells of rows, by their key."""

NO_SESSION: frozenset[SessionKey] = frozenset()
WAITING = frozenset({("beta", "waits#baseline-1")})
DAY = date(2026, 6, 2)
"""The day of the session that waits for its review."""

OWNER = "organization_id"
SHOWN = ("effective_100", "agent_id", "model", "composite", "source_cli", "started_at",
         "total_tools", "tools_failed", "outcome", "organization_id",
         "recommendation")  # fmt: skip
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
        return {pair["key"]: pair["value"] for pair in value}
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()} or None
    return value or None if isinstance(value, list) else value


def by_key(rows: Any, key: tuple[str, ...] = SESSION_KEY) -> Rows:
    return {
        tuple(f"{row[name]}" for name in key): {name: plain(row[name]) for name in row}
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
    merged = {"organization": "acme", "session_id": "same", "kind": "merged"}
    workplace.land("outcomes/ci.jsonl", json.dumps(merged).encode() + b"\n")
    workplace.ingest()
    workplace.build()
    judge(workplace, 43)
    said = {"score": 12.25, "annotator": "Ann", "reason": "it guessed"}
    path = f"/api/v1/sessions/{path_of('same#baseline-1')}/override?organization=acme"
    assert Service(workplace).client().post(path, json=said).status_code == 200
    names = ("session_date", "organization_id", "session_key", "profile_id", "content_hash")
    evaluated(workplace)
    (waits,) = expected(workplace).filter(session_id="waits").to_dicts()
    store = OverrideStore(workplace.ledger)
    profile = {name: waits[name] for name in ("profile_id", "profile_version")}
    for owner in ("acme", "beta"):
        store.add([replace(stale(owner, "same#baseline-1", "Zoe"), **profile)], NOW)
    store.add_samples([AuditSample(**{name: waits[name] for name in names}, drawn_at=NOW)])


def evaluated(workplace: Workplace) -> None:
    """An agent with reputation, and evaluations of another that no ClickHouse has yet."""
    export_agents(workplace)
    who = unknown_identity(str(identity_id("acme", "claude-code")), NOW)
    signals = {"overall_score": 0.4, "total_events": 1, "positive_events": 1}
    frame = pl.DataFrame([{**who, **signals}], schema=REPUTATION_SCORES.schema)
    workplace.lake.write(frame, REPUTATION_SCORES, None)
    for number in range(51):
        sent = SubmittedEvaluation("acme", "scout", passed=number > 0, latency_ms=40.0)
        then = datetime(2026, 6, 2, 12, number, tzinfo=UTC)
        SubmittedEvaluations(workplace.ledger).add(sent, "gate", then)


@pytest.fixture
def everywhere(program: Program) -> Program:
    with open_workplace(program.folder / "data") as workplace:
        filled(workplace)
    return program


def expected(workplace: Workplace, waiting: frozenset[SessionKey] = NO_SESSION) -> pl.DataFrame:
    days = workplace.lake.partitions(AGENT_SESSIONS)
    rows = sessions(workplace.stores, days, waiting=waiting, now=NOW)
    return with_details(workplace.stores, SESSION_LISTING.newest_first(rows))


def cards(workplace: Workplace, waiting: frozenset[SessionKey]) -> pl.DataFrame:
    days = workplace.lake.partitions(SCORECARDS)
    return withhold(query_cards(workplace.stores, CardQuery(days=days)), waiting)


def books(workplace: Workplace, waiting: frozenset[SessionKey]) -> pl.DataFrame:
    return settled_books(workplace.stores, DAY, NOW).seen(waiting).sessions


def lost_calls(workplace: Workplace, _waiting: frozenset[SessionKey]) -> pl.DataFrame:
    days = workplace.lake.partitions(AGENT_SESSIONS)
    rows = tool_calls(workplace.lake, days).lost_by("tool")
    return rows.rename({"tool": "name"}).with_columns(by=pl.lit("tool"))


def agreement(workplace: Workplace, waiting: frozenset[SessionKey]) -> pl.DataFrame:
    seen = withhold(overrides_with_states(workplace.stores), waiting).filter(~pl.col(WAITS))
    found = calibration(workplace.stores, seen)
    return pl.DataFrame([row.record() for row in found], AGREEMENT_COLUMNS)


def outdated_scores(workplace: Workplace, _waiting: frozenset[SessionKey]) -> pl.DataFrame:
    return outdated(overrides_with_states(workplace.stores))


def every_agent(workplace: Workplace, waiting: frozenset[SessionKey]) -> pl.DataFrame:
    """Without the time of reading."""
    rows = those_that_wait(workplace, waiting)
    return agents(workplace.stores, NOW, waiting=rows).drop("updated_at")


def those_that_wait(workplace: Workplace, waiting: frozenset[SessionKey]) -> pl.DataFrame:
    days = workplace.lake.partitions(AGENT_SESSIONS)
    return sessions(workplace.stores, days, waiting=waiting).filter(WAITS)


@dataclass(frozen=True, slots=True)
class List:
    """A list, its relation, and where it is shown.

    Attributes:
        table: The schema of its rows.
        rows: Its relation, as a reader sees it for whom some sessions wait.
        terminal: The command, which writes JSON and CSV.
        url: Path of the API, and the field of the answer with the rows.
        file: Path of the CSV of a page.
        is_published: Whether the analysts' database has it.
        keys: Columns that tell rows apart if there is no table.
    """

    table: Table | None
    rows: Callable[[Workplace, frozenset[SessionKey]], pl.DataFrame]
    terminal: tuple[str, ...]
    url: tuple[str, str] | None = None
    file: str | None = None
    is_published: bool = True
    keys: tuple[str, ...] = ("by", "name")

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that tell rows apart."""
        return self.keys if self.table is None else self.table.key

    def seen(self, workplace: Workplace, waiting: frozenset[SessionKey]) -> Rows:
        """Return the rows as a reader sees them, without columns of people."""
        rows = self.rows(workplace, waiting)
        known = rows.columns if self.table is None else [*self.table.schema, WAITS]
        shown = {*rows.columns} - hidden_columns("team")
        names = [column for column in dict.fromkeys(known) if column in shown]
        return by_key(rows.select(names).iter_rows(named=True), self.key)


LISTS = {
    "sessions": List(
        SESSIONS, expected, ("sessions",), ("/api/v1/sessions", "sessions"), "/sessions.csv"
    ),
    "scorecards": List(
        SCORECARDS,
        cards,
        ("scorecards", "list", "--from", "2026-06-01"),
        ("/api/v1/scorecards", "scorecards"),
    ),
    "books": List(
        EVALUATION_BOOKS,
        books,
        ("books", f"{DAY}"),
        (f"/api/v1/books/{DAY}", "sessions"),
        f"/operations/books.csv?day={DAY}",
    ),
    "agreement": List(
        None,
        agreement,
        ("scorecards", "calibration"),
        file="/operations/judge.csv",
        is_published=False,
        keys=("profile_id", "profile_version", "sample"),
    ),
    "outdated scores": List(
        OVERRIDES,
        outdated_scores,
        ("scorecards", "list", "overrides", "--stale"),
        file="/stale-scores.csv",
    ),
    "agents": List(
        AGENTS, every_agent, ("reputation", "list"), file="/agents.csv", is_published=False
    ),
    "tools": List(
        None,
        lost_calls,
        ("tools", "--fleet"),
        file="/tools.csv?from=2026-06-01&to=2026-06-03",
        is_published=False,
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_programs_and_files_get_the_values_of_the_relation(everywhere: Program, name: str) -> None:
    """Also a reviewer, for whom what is blind of a session that waits is null."""
    of = LISTS[name]
    terminal = by_key(everywhere(*of.terminal, "--format", "json").items(), of.key)
    written = by_key(
        csv.DictReader(io.StringIO(everywhere(*of.terminal, "--format", "csv").out)), of.key
    )
    with open_workplace(everywhere.folder / "data") as workplace:
        ours = of.seen(workplace, NO_SESSION)
        seen = of.seen(workplace, WAITING)
        service = Service(workplace)
        of_reader = service.client(service.key(Role.READER))
        of_reviewer = service.client(service.key(Role.REVIEWER))
        if of.url is not None:
            url, field = of.url
            assert by_key(of_reader.get(url).json()[field], of.key) == without_texts(ours, name)
            assert by_key(of_reviewer.get(url).json()[field], of.key) == seen
        if of.file is not None:
            assert_file(of_reader.get(of.file).text, ours, of.key)
            assert_file(of_reviewer.get(of.file).text, seen, of.key)
        if of.is_published and of.table is not None:
            assert_published(workplace, of.table, ours)
    for key, row in ours.items():
        assert terminal[key].keys() >= row.keys() - {WAITS}
        for column in terminal[key].keys() & row.keys():
            assert terminal[key][column] == row[column], column
        for column in written[key].keys() & row.keys():
            assert_csv(written[key][column], row[column])
    assert {*terminal} >= {*ours}
    assert {*written} >= {*ours}
    numbers = {"sessions": 5, "scorecards": 10, "books": 2, "agents": 4}
    assert len(ours) == numbers.get(name, 1)


def without_texts(rows: Rows, name: str) -> Rows:
    """Return the rows that a reader gets: no reasons of people and judges in scorecards."""
    if name != "scorecards":
        return rows
    hidden = {
        key: {**row, "reasoning": None, "human_override": row["human_override"]}
        for key, row in rows.items()
    }
    for row in hidden.values():
        if row["human_override"] is not None:
            row["human_override"] = {**row["human_override"], "reason": None}
    return hidden


def assert_published(workplace: Workplace, table: Table, ours: Rows) -> None:
    """Other lists than that of sessions are as of the last build, so without new overrides."""
    with duckdb.connect(publish_analytics(workplace.stores, NOW).link, read_only=True) as database:
        database.execute("set TimeZone = 'UTC'")
        rows = database.table(table.name).pl().iter_rows(named=True)
        published = by_key(rows, table.key)
    changes = {column.name for column in table.columns if column.blind and table is not SESSIONS}
    for key, row in ours.items():
        names = row.keys() - changes - {WAITS}
        assert {name: published[key][name] for name in names} == {name: row[name] for name in names}


def assert_file(text: str, ours: Rows, key: tuple[str, ...]) -> None:
    rows = list(csv.DictReader(io.StringIO(text.replace("tool,", "name,", 1))))
    assert len(rows) == len(ours)
    for row in rows:
        row.setdefault("by", "tool")
        known = ours[tuple(f"{row[name]}" for name in key)]
        for column in row.keys() & known.keys():
            assert_csv(row[column], known[column])


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
        rows = expected(workplace, WAITING).to_dicts()
        service = Service(workplace)
        page = service.browser(service.key(Role.REVIEWER)).get("/sessions").text
    (merged,) = everywhere("sessions", "--outcome", "merged", "--format", "json").items()
    assert (merged["organization_id"], merged["session_id"]) == ("acme", "same")
    assert "with --outcome reverted." in everywhere("sessions", "--outcome", "reverted").out
    cell: Callable[[Mapping[str, Any], str], str] = SESSION_LISTING.cell
    assert [line[0] for line in reversed(table)] == [row["session_key"] for row in rows]
    for line, row in zip(reversed(table), rows, strict=True):
        for name in SHOWN:
            assert any(text.startswith(cell(row, name)) for text in line), (name, line)
    (listed,) = (shown for shown in tables_of(page) if "Started" in shown[0])
    scores = re.findall(r'<td class="scored" data-name="Score">(.*?)</td>', page, re.DOTALL)
    for cells, row, score in zip(listed, rows, scores, strict=True):
        assert cells["Started"].split(" failed")[0] == cell(row, "started_at")
        assert cells["Organization"] == cell(row, "organization_id")
        assert cells["Label"] == cell(row, "classification_label")
        assert cells["Outcome"] == cell(row, "outcome")
        assert cells["Cost"] == cell(row, "cost_usd")
        failed = f"{cell(row, 'tools_failed')} of {cell(row, 'total_tools')}"
        assert cells["Failed calls"] == failed
        assert cells["Score, judge, composite"] == cell(row, "effective_100")
        text = " ".join(unescape(re.sub("<[^>]+>", "", score)).split())
        if row[WAITS]:
            assert text == "awaiting review"
            continue
        assert f"{cell(row, 'effective_100')} {cell(row, 'effective_source')}" in text
        advice = f", {row['recommendation']}" if row["recommendation"] else ""
        assert f"composite {cell(row, 'composite')}{advice}" in text
        assert ("judge" in text) == (row["judge_total"] is not None)
        if row["judge_total"] is not None:
            assert f"judge {cell(row, 'judge_total')}" in text


def agent_cells(row: dict[str, Any]) -> tuple[dict[str, str], str, str]:
    """Return the cells of an agent, its score or progress, and the interval of its share."""
    cell = {name: AGENT_LISTING.cell(row, name) for name in row if name != "by_model"}
    score = cell["score"] if row["score"] is not None else f"{row['eval_count']}/50"
    return cell, score, f"{cell['pass_rate_low']} to {cell['pass_rate_high']}"


def test_a_table_of_one_agent_leaves_out_a_session_that_waits(everywhere: Program) -> None:
    """JSON has it: of the three sessions of beta one waits."""
    asked = ("reputation", "list", "claude-code", "--organization", "beta")
    assert "  rating           2/50, calibrating\n" in everywhere(*asked).out
    assert json.loads(everywhere(*asked, "--format", "json").out)["eval_count"] == 3


def test_people_and_programs_see_the_same_agents(everywhere: Program) -> None:
    """The API has one agent at a time."""
    board = everywhere("reputation", "list").out
    alone = everywhere("reputation", "list", "claude-code", "--organization", "acme")
    assert "holds no reputation yet" in alone.err  # so there are no weeks
    assert "  overall          +0.400  ▆  (1 week, -1 to 1)\n" in alone.out
    table = [re.split(r"  +", line.rstrip()) for line in board.splitlines()]
    with open_workplace(everywhere.folder / "data") as workplace:
        rows = agents(workplace.stores, NOW).to_dicts()
        # A reader may see them, a table of the terminal not.
        waiting = those_that_wait(workplace, waiting_of(workplace.stores))
        in_terminal = agents(workplace.stores, NOW, waiting=waiting).to_dicts()
        service = Service(workplace)
        reader = service.client(service.key(Role.READER))
        page = reader.get("/agents").text
        (listed,) = tables_of(page)
        for row in rows:
            record = reader.get(f"/v1/reputation/{row['agent_id']}?organization={row[OWNER]}")
            names = record.json().keys() - {"updated_at", "progress"}
            assert {name: record.json()[name] for name in names} == {
                name: row[name] for name in names
            }
    # 400 * 50/51 + 250 * (1 - 40/100) + 200 + 150 * 51/500 = 392.2 + 150 + 200 + 15.3 = 757.5
    assert (rows[0]["agent_id"], rows[0]["score"]) == ("scout", 757)
    for line, row in zip(table[3 : table.index([""])], in_terminal, strict=True):
        cell, score, ends = agent_cells(row)
        assert line == [
            *(cell["agent_id"], cell[OWNER], score, cell["change"], cell["pass_rate"], ends),
            *(cell["overall_score"], cell["lifecycle"]),
        ]
    for cells, row in zip(listed, rows, strict=True):
        cell, score, ends = agent_cells(row)
        assert (cells["Agent"], cells["Organization"]) == (cell["agent_id"], cell[OWNER])
        assert (cells["Rating"], cells["Stage"]) == (score, cell["lifecycle"])
        assert cells["Passed"] == cell["pass_rate"]
        assert ends in page
        assert cells["Reputation"].split(" ")[0] == cell["overall_score"]
