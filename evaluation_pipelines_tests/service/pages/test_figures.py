"""Every number on a page is that of the analysts' database."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

import duckdb
import pytest
from starlette.testclient import TestClient

from evaluation_pipelines.comparison.compare_models import write_comparison
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.service.kept import Asked, compared
from evaluation_pipelines_tests.scorecards.calls_profile import build, profile_file
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.agent_evaluations import export_agents
from evaluation_pipelines_tests.service.pages.tables import Row, tables_of
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line

TIME = datetime(2026, 6, 5, 12, tzinfo=UTC)
SESSION = "s5#baseline-1"

_VIEWS, *_QUERIES = (
    Path(__file__).with_name("figures.sql").read_text(encoding="utf-8").split("--: ")
)
QUERIES = {name: query for name, _, query in (query.partition("\n") for query in _QUERIES)}
"""Page and first heading of its table, or ``facts`` -> query."""

FACTS = "facts"
Told: TypeAlias = tuple[TestClient, duckdb.DuckDBPyConnection]
"""The pages, and the analysts' database of the same."""
TEXTS = {
    "Reasons: score x weight, then the judge's",
    "Criteria",
    "Days",
    "What it means, and why",
    "What would change it",
}
"""Headings of texts, whose numbers are not those of the row."""


def work(number: int) -> bytes:
    """Return a session of one to three calls, of which the first may fail; no two are alike."""
    of = {
        "session__id": f"s{number}",
        "organization__id": "acme",
        "classification__label": "simple",
        "agent__id": f"agent-{number % 2}",
    }
    second = number // 4 * DAY_S + number * 100
    calls = [
        claude(
            "tool_result", second + 10 + place, tool_name="Bash" if place else "Read",
            success="false" if not place and number % 3 == 0 else "true",
            tool_parameters=f'{{"command": "cat {number}-{place}"}}', **of,
        )
        for place in range(number % 3 + 1)
    ]  # fmt: skip
    used = {"input_tokens": 1000 * (number + 1), "output_tokens": 10, "cost_usd": 0.02 * number}
    return line(
        claude("user_prompt", second, prompt="Read the plan", **of),
        *calls,
        claude("api_request", second + 30 + number, model=f"model-{number // 2 % 2}", **used, **of),
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """The pages of eight sessions on two days, and the analysts' database of the same."""
    with open_workplace(tmp_path_factory.mktemp("told")) as workplace:
        profile_file(workplace)
        workplace.land("logs.jsonl", b"".join(map(work, range(8))))
        build(workplace, TIME)
        export_agents(workplace, TIME)
        stores = workplace.stores
        write_comparison(stores, compared(stores, Asked(), TIME))
        publish_analytics(stores, TIME)
        client = Service(workplace, TIME).client()
        client.get("/models.csv")  # waits for the comparison
        with duckdb.connect() as database:
            database.execute(f"attach '{stores.settings.analytics_path}' as told (read_only)")
            database.execute(_VIEWS)
            yield client, database


def numbers_of(cells: Sequence[str]) -> list[tuple[float, float]]:
    """Return the numbers of cells, each with the unit of its last digit; no times and names."""
    found = []
    for cell in cells:
        if cell == "-" or re.search(r"[A-Za-z]{2,}-|[a-z]\d|\d{4}-\d\d|ago$", cell):
            continue
        for number, thousands in re.findall(r"(-?[\d,]*\d(?:\.\d+)?)(k?)", cell):
            scale = 1000.0 if thousands else 1.0
            decimals = len(number.partition(".")[2])
            found.append((float(number.replace(",", "")) * scale, scale * 10.0**-decimals))
    return found


def shown_rows(page: str, heading: str) -> list[Row]:
    (rows,) = (rows for rows in tables_of(page) if next(iter(rows[0])) == heading)
    return rows


@pytest.mark.parametrize("name", [query for query in QUERIES if query != FACTS])
def test_numbers_of_a_page_are_those_of_the_database(told: Told, name: str) -> None:
    client, database = told
    url, _, heading = name.partition(" | ")
    page = client.get(url)
    assert page.status_code == 200
    theirs = database.sql(QUERIES[name]).fetchall()
    rows = shown_rows(page.text, heading)
    ours = [numbers_of([row[cell] for cell in row if cell not in TEXTS]) for row in rows]
    if heading in {"Day", "State"}:  # the overview and the books have lines of zeros, too
        ours = [row for row in ours if sum(value for value, _ in row)]
    assert len(ours) == len(theirs) > 0
    for shown, row in zip(ours, theirs, strict=True):
        known = [float(cell) for cell in row if isinstance(cell, int | float | Decimal)]
        assert len(shown) == len(known), (shown, row)
        for (value, unit), expected in zip(shown, known, strict=True):
            assert value == pytest.approx(expected, abs=unit * 0.5001), (shown, row)


def test_states_of_the_last_days_are_those_of_the_database(told: Told) -> None:
    client, database = told
    page = client.get("/").text
    shown = re.findall(r'href="(/sessions\?[^"]+state=(\w+))">(\d+) [^<]+</a>', page)
    query = "select state, count(*) from told.evaluation_books group by 1"
    theirs = database.sql(query).fetchall()
    assert sorted((state, number) for _, state, number in shown) == sorted(
        (state, f"{number}") for state, number in theirs
    )
    for url, _, number in shown:
        assert re.search(rf"\b{number}(?: of \d+)? sessions\.", client.get(unescape(url)).text)


def test_the_numbers_of_the_week_are_those_of_the_database(told: Told) -> None:
    client, database = told
    query = """
        select count(*), avg(effective_100), count(*) filter (status = 'failed'), sum(cost_usd)
        from windows where session_date between date '2026-05-29' and date '2026-06-04'
    """
    ((number, score, failed, cost),) = database.sql(query).fetchall()
    shown = re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", client.get("/").text)
    assert shown == [
        ("Sessions", f"{number}"),
        ("Mean score", f"{score + 1e-9:.1f}"),  # half up
        ("Failed", f"{failed}"),
        ("Cost", f"${cost:.2f}"),
    ]


def test_sentences_have_the_figures_of_the_database(told: Told) -> None:
    client, database = told
    (cost,) = database.sql("select sum(cost_usd), count(*) from windows").fetchall()
    for url in ("/trends", "/models"):
        assert f"Total cost: ${cost[0]:.2f} ({cost[1]} sessions)." in client.get(url).text
    query = "select tool, sum(failed), sum(calls) from calls group by 1 order by 2 desc limit 1"
    (fails,) = database.sql(query).fetchall()
    answer = f"<strong>{fails[0]}</strong>, {100 * fails[1] / fails[2]:.0f}%."
    assert answer in client.get("/tools").text


def test_facts_of_a_session_are_those_of_the_database(told: Told) -> None:
    client, database = told
    page = client.get(f"/sessions/{quote(SESSION)}/technical").text
    facts = {
        re.sub(r" \(\d+%\)", "", name): float(value.replace(",", "").strip("$k"))
        for name, value in re.findall(r"<dt>([^<]+)</dt><dd>(\$?[\d,.]+k?)(?![\d-])", page)
    }
    found = database.sql(QUERIES[FACTS])
    (row,) = found.fetchall()
    known = {
        name: value for name, value in zip(found.columns, row, strict=True) if value is not None
    }
    assert len(known) > 8
    for name, value in known.items():
        step = 0.5001 if name == "Tokens" else 0.0501
        assert facts[name] == pytest.approx(float(value), abs=step), name
