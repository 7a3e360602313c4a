"""``docs/reputation.md`` says what the code does: examples are worked out, statements parsed."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evaluation_pipelines.reputation.domain.agent_rating import (
    CALIBRATED_AT,
    WINDOW_SIZE,
    agent_ratings,
    lifecycle,
)
from evaluation_pipelines.reputation.domain.signals import (
    EVENT_TYPES,
    evaluation_retraction,
    read_evaluation,
    read_signal,
    signal_retraction,
)
from evaluation_pipelines.reputation.store import ReputationStore
from evaluation_pipelines.schemas import AGENT_EVALUATIONS, REPUTATION_EVENTS
from evaluation_pipelines.storage.clickhouse import ClickHouse, open_clickhouse
from evaluation_pipelines.storage.sql_files import clickhouse_migrations
from evaluation_pipelines_tests.docs.documents import FOLDER, Block, blocks, named, table_rows
from evaluation_pipelines_tests.docs.worked_examples import worked_out

TEXT = named("reputation.md")
EXAMPLE = Path(__file__).with_name("reputation-example.md").read_text("utf-8")
NOW = datetime(2026, 11, 21, tzinfo=UTC)


def block(info: str) -> Block:
    (found,) = (block for block in blocks(TEXT) + blocks(EXAMPLE) if block.info == info)
    return found


def faults(info: str, row: dict[str, Any]) -> list[str]:
    """Lines of a ``values`` block of which a step is not what the row says."""
    wrong = []
    for line in block(info).body.splitlines():
        name, *steps = line.split(" = ")
        close = [worked_out(step, {}) == pytest.approx(row[name], abs=1e-6) for step in steps]
        if not all(close):
            wrong.append(f"{line}, but it is {row[name]}")
    return wrong


def test_the_worked_example_of_an_identity_is_what_clickhouse_makes_of_its_signals(
    reputation_store: ReputationStore,
) -> None:
    lines = block("json signals").body.splitlines()
    rows = [read_signal(line.encode(), NOW, {}) for line in lines]
    signals = pl.DataFrame(rows, schema=REPUTATION_EVENTS.schema)
    reputation_store.upsert(REPUTATION_EVENTS, signals, 1)
    (row,) = reputation_store.scores_as_of(NOW).to_dicts()

    assert faults("values reputation", row) == []
    shown = {line.split(" = ")[0] for line in block("values reputation").body.splitlines()}
    assert shown == row.keys() - {"identity_id", "computed_at", "categories_observed"}


def test_the_worked_example_of_an_agent_is_what_the_code_makes_of_it() -> None:
    # Newest first: 12 passes, 12 failures, 96 passes; each took 30 of 100 ms.
    passed = [True] * 12 + [False] * 12 + [True] * 96
    rows = [
        {
            "organization_id": "default",
            "agent_id": "scout",
            "evaluation_id": f"{number:03}",
            "evaluated_at": NOW - timedelta(minutes=number),
            "passed": line,
            "latency_ms": 30.0,
            "latency_budget_ms": 100.0,
            "model": None,
        }
        for number, line in enumerate(passed)
    ]
    schema = {name: AGENT_EVALUATIONS.schema[name] for name in rows[0]}
    window = pl.DataFrame(rows, schema=schema).with_columns(
        evaluations_in_all=pl.lit(len(rows), dtype=pl.Int64)
    )
    (row,) = agent_ratings(window, window.clear(), NOW).to_dicts()

    assert faults("values agent", row) == []


def test_the_table_of_event_types_is_that_of_the_code() -> None:
    text = TEXT[TEXT.index("| event type |") :]
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (-?[\d.]+) \|$", text, re.MULTILINE)

    assert {name: (category, float(delta)) for name, category, delta in rows} == EVENT_TYPES


def test_the_table_of_states_is_that_of_the_code() -> None:
    rows = table_rows(TEXT, "## Agent rating")
    numbers = {state: [int(digits) for digits in re.findall(r"\d+", of)] for state, of, _ in rows}

    assert {state: {lifecycle(part) for part in of} for state, of in numbers.items()} == {
        state: {state} for state in ("new", "calibrating", "active", "mature")
    }
    assert numbers["active"][0] == CALIBRATED_AT
    assert numbers["mature"] == [WINDOW_SIZE]


def test_the_examples_of_evaluations_can_be_loaded() -> None:
    lines = block("json evaluations").body.splitlines()
    rows = [read_evaluation(line.encode(), NOW) for line in lines]

    assert [row["latency_budget_ms"] for row in rows] == [100.0, 50.0]


def test_the_examples_of_retractions_are_some() -> None:
    signal, evaluation = block("json retractions").body.splitlines()
    assert signal_retraction(signal.encode(), NOW) is not None
    assert evaluation_retraction(evaluation.encode()) is not None


SERVER = block("sql server").body
CLUSTER = (FOLDER / "clickhouse-cluster.sql").read_text("utf-8")


def statements(text: str) -> list[str]:
    """The statements of a text, without the semicolons between them."""
    return [word for word in text.strip().split(";") if word.strip()]


def parse(clickhouse: ClickHouse, statement: str) -> None:
    """Let the engine parse a statement; it is not run."""
    clickhouse.run(f"explain ast {statement.strip()}")


@pytest.mark.parametrize("text", [SERVER, CLUSTER], ids=["server", "cluster"])
def test_the_statements_for_servers_and_clusters_are_understood_by_the_engine(
    one_clickhouse_dsn: str, text: str
) -> None:
    with open_clickhouse(one_clickhouse_dsn, patience_s=0) as clickhouse:
        for statement in statements(text):
            parse(clickhouse, statement)


def test_tables_of_a_cluster_have_the_columns_and_keys_of_the_migrations() -> None:
    migrations = [text for _, text in clickhouse_migrations()]
    compared = 0
    for statement in statements(CLUSTER):
        made = re.search(r"create table evaluation\.(\w+?)(?:_local)? on cluster", statement)
        if made is None or "Distributed(" in statement or made[1] == "schema_migrations":
            continue
        (migration,) = (text for text in migrations if f"table if not exists {made[1]}\n" in text)
        assert without_comments(columns(statement)) == without_comments(columns(migration))
        for clause in ("partition by", "order by", "ttl"):
            assert clause_of(statement, clause) == clause_of(migration, clause)
        compared += 1
    assert compared == 4


def columns(statement: str) -> str:
    return statement[statement.index("\n(\n") : statement.index("\n)\n")]


def without_comments(text: str) -> str:
    return re.sub(r" comment '[^']*'", "", text)


def clause_of(statement: str, clause: str) -> list[str]:
    return re.findall(rf"^{clause} .*", statement, re.MULTILINE)
