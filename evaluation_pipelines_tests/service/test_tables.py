"""Tables over HTTP as Arrow: rows as in lists, with the same columns withheld."""

import io
from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.people.identity_store import hidden_columns
from evaluation_pipelines.schemas import AGENTS, SESSIONS, TABLES
from evaluation_pipelines.scorecards.domain.withheld import WAITS
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.service.routes.tables import _SOURCES
from evaluation_pipelines_tests.scorecards.calls_profile import DAY
from evaluation_pipelines_tests.service.answers import A1, SAME, judging
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with judging(tmp_path_factory.mktemp("service")) as service:
        yield service


def rows(client: TestClient, name: str, **query: str) -> pl.DataFrame:
    answer = client.get(f"/api/v1/tables/{name}.arrow", params=query)
    assert answer.status_code == 200, answer.text
    return pl.read_ipc_stream(io.BytesIO(answer.content))


@pytest.mark.parametrize("name", _SOURCES)
def test_a_table_has_its_columns_and_the_rows_of_one_organization(
    name: str, answered: Service
) -> None:
    found = rows(answered.client(answered.key(Role.OPERATOR, name)), name)
    (table,) = {table for table in (*TABLES, SESSIONS, AGENTS) if table.name == name}
    types = {column: dtype for column, dtype in found.schema.items() if column != WAITS}
    hidden = hidden_columns(answered.workplace.settings.people_view) | {WAITS}
    assert types == {
        column: dtype for column, dtype in table.schema.items() if column not in hidden
    }
    assert found.is_empty()  # the key is of another organization


def test_sessions_are_those_of_the_list(answered: Service) -> None:
    client = answered.client(answered.key(Role.READER, "acme"))
    found = rows(client, "sessions", to=f"{DAY}")
    listed = client.get("/api/v1/sessions").json()["sessions"]

    columns = ("session_key", "effective_100", "why", "composite", "percentile_in_class")
    assert sorted(found.select(columns).rows()) == sorted(
        tuple(row[name] for name in columns) for row in listed if row["session_date"] == f"{DAY}"
    )
    assert A1 in found["session_key"]


@pytest.mark.parametrize(("role", "has_texts"), [(Role.READER, False), (Role.OPERATOR, True)])
def test_a_reader_gets_null_for_text(role: Role, has_texts: bool, answered: Service) -> None:
    client = answered.client(answered.key(role))
    (failure,) = rows(client, "tool_reports").filter(session_key=A1)["failures"].to_list()[0]
    cards = rows(client, "scorecards").filter(is_best_match=True)

    assert failure["tool"] == "Bash"
    assert (failure["error"] is not None) == has_texts
    assert (failure["parameters"] is not None) == has_texts
    assert (cards["reasoning"].null_count() == 0) == has_texts
    assert cards.filter(session_key=A1)["overall_score"].to_list() == [90.0]


def test_scores_that_await_a_blind_review_are_withheld_from_a_reviewer(answered: Service) -> None:
    sample = AuditSample(DAY, "acme", SAME, "calls", "0", NOW)
    OverrideStore(answered.workplace.ledger).add_samples([sample])
    client = answered.client(answered.key(Role.REVIEWER, "acme"))
    for name, column in (("sessions", "effective_100"), ("scorecards", "overall_score")):
        found = rows(client, name)
        assert {*found.filter(WAITS)["session_key"]} == {SAME}
        assert {*found.filter(WAITS)[column]} == {None}
        assert None not in {*found.filter(~pl.col(WAITS), session_key=A1)[column]}


def test_duckdb_reads_a_stream_and_an_unknown_table_is_404(answered: Service) -> None:
    client = answered.client(answered.key(Role.REVIEWER))
    answer = client.get("/api/v1/tables/sessions.arrow")
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    sessions: Any = pa.ipc.open_stream(answer.content).read_all()
    assert sessions.num_rows == 6  # a1, a2, same and c1 of acme; b1 and same of beta

    query = "select count(*), max(effective_100) from sessions where organization_id = 'beta'"
    assert duckdb.execute(query).fetchall() == [(2, 90.0)]

    unknown = client.get("/api/v1/tables/people.arrow")
    assert unknown.status_code == 404
    assert "sessions, agents" in unknown.json()["error"]["help"]
