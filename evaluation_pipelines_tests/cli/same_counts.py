"""One number has one name: pages, terminal, API and the analysts' database say the same."""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time, timedelta

import duckdb
from starlette.testclient import TestClient

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.service.pages.tables import rows_of, tables_of
from evaluation_pipelines_tests.workplace import open_workplace

_COUNTS = """
    select count(*), count(effective_100), count(*) filter (state = 'scored'), sum(cost_usd),
        count(*) filter (cost_usd is null), sum(total_tools), sum(tools_failed), sum(lost_calls)
    from agent_sessions
    join evaluation_books using (organization_id, session_key, session_date)
    left join tool_reports using (organization_id, session_key, session_date)
    where session_date between ? and ?
"""


_SCORED_BANDS = ("75-100", "50-74", "0-49", "Awaiting review")


@dataclass(frozen=True)
class Counts:
    """What one page or command says of some days; ``None`` is not said."""

    sessions: int | None = None
    scored: int | None = None
    by_profile: int | None = None
    cost_usd: float | None = None
    cost_unknown: int | None = None
    calls: int | None = None
    failed_calls: int | None = None
    lost_calls: float | None = None

    def agrees_with(self, other: "Counts") -> bool:
        """Return True if both say the same, as far as both say it; money by the cent."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(Counts))
        return all(abs(one - two) < 0.005 for one, two in pairs if None not in {one, two})


def says_the_same_everywhere(program: Program) -> None:
    """Compare the last day of the demo and the seven days up to it with the database."""
    with duckdb.connect(str(program.folder / "data/analytics.duckdb"), read_only=True) as analysts:
        (newest,) = analysts.sql("select max(session_date) from agent_sessions").fetchall()[0]
        ranges = ((newest, newest), (newest - timedelta(days=6), newest))
        expected = [Counts(*analysts.execute(_COUNTS, days).fetchall()[0]) for days in ranges]
    with open_workplace(program.folder / "data") as workplace:
        now = datetime.combine(newest + timedelta(days=1), time(12), UTC)
        client = Service(workplace, now).client()
        for days, counts in zip(ranges, expected, strict=True):
            assert None not in {counts.sessions, counts.scored, counts.lost_calls}
            for name, found in _of_pages(client, *days).items():
                assert found.agrees_with(counts), (name, days, found, counts)
    for days, counts in zip(ranges, expected, strict=True):
        for name, found in _of_terminal(program, *days).items():
            assert found.agrees_with(counts), (name, days, found, counts)


def _of_pages(client: TestClient, first: date, last: date) -> dict[str, Counts]:
    """Return what the pages and the API say of some days, which end with the newest one."""
    query = f"from={first}&to={last}"
    overview, trends = client.get("/").text, client.get(f"/trends?step=all&{query}").text
    (total,) = next(rows for rows in tables_of(trends) if "Mean score" in rows[0])
    (whole,) = rows_of(client.get(f"/trends.csv?step=all&{query}").content).to_dicts()
    by_day = [row for row in _rows(overview, "Day") if f"{first}" <= row["Day"] <= f"{last}"]
    name = "yesterday" if first == last else "last 7 days"
    (cost,) = (row for row in _rows(overview, "Days") if row["Days"].startswith(name))
    if first == last:  # a week takes seconds
        client.get(f"/models.csv?{query}")  # waits for the comparison
    by_model = _all_rows(client.get(f"/tools?{query}").text, "Model")
    found = {
        "chart of the overview": Counts(_sum(by_day, "Sessions"), _sum(by_day, "Scored")),
        "sum of its bands": Counts(scored=sum(_sum(by_day, each) for each in _SCORED_BANDS)),
        "cost on the overview": Counts(
            sessions=int(cost["Sessions"]),
            cost_usd=_number(cost["Total"]),
            cost_unknown=int(cost["Unknown cost"]),
        ),
        "trends": Counts(
            int(total["Sessions"]),
            int(total["Scored"]),
            cost_usd=whole["cost_usd"],
            calls=whole["calls"],
            failed_calls=whole["failed_calls"],
        ),
        "tools": Counts(
            calls=_sum(by_model, "Calls"),
            failed_calls=_sum(by_model, "Failed"),
            lost_calls=sum(_number(row["Lost"]) for row in by_model),
        ),
        "models": _of_models(client.get(f"/models?{query}").text),
        "sessions": Counts(_first(r"([\d,]+) of [\d,]+ sessions", client, f"/sessions?{query}")),
    }
    if first == last:
        of_api = client.get(f"/api/v1/books/{first}?limit=1").json()
        of_state = of_api["states"]
        found["API"] = Counts(sum(of_state.values()), of_api["scored"], of_state["scored"])
        page = client.get(f"/operations/books/{first}").text
        (sessions, scored) = re.findall(r">([\d,]+) sessions?, ([\d,]+) scored</h2>", page)[0]
        (by_profile,) = (r for r in _rows(page, "State") if r["State"] == "scored by profile")
        found["books"] = Counts(_whole(sessions), _whole(scored), int(by_profile["Sessions"]))
    return found


def _of_models(page: str) -> Counts:
    """Return the counts of a comparison; each session is in one line of it.

    Where it has another number of sessions, since it goes by the time at which a window started,
    the page says both.
    """
    said = r"Total cost: \$([\d,.]+) \((?:known for ([\d,]+) of )?([\d,]+) sessions\)"
    if not (told := re.findall(said, page)):
        assert "data-reload-after" in page  # the models are still compared
        return Counts()
    ((cost, known, every),) = told
    sessions = _whole(every)
    unknown = sessions - _whole(known or every)
    both = re.findall(r"Compared: ([\d,]+) session windows .*other pages: ([\d,]+),", page)
    started, counted = map(_whole, both[0]) if both else (sessions, sessions)
    assert counted == sessions
    assert _sum(_rows(page, "Group"), "Sessions") == started
    return Counts(sessions, cost_usd=_number(cost), cost_unknown=unknown)


def _of_terminal(program: Program, first: date, last: date) -> dict[str, Counts]:
    if first == last:
        said = json.loads(program("books", f"{first}", "--format", "json").out)
        line = program("books", f"{first}").out.splitlines()[0]
        numbers = re.findall(r"(\d+) sessions, (\d+) scored, (\d+) scored by their profile", line)
        return {
            "books": Counts(*map(int, numbers[0])),
            "books as JSON": Counts(scored=said["scored"], by_profile=said["states"]["scored"]),
        }
    told = program("digest", "--date", f"{first}..{last}").out
    assert f"Agent sessions from {first} to {last}" in told
    return {
        "digest": Counts(
            _whole(re.findall(r"- ([\d,]+) sessions \(", told)[0]),
            _whole(re.findall(r"of ([\d,]+) scored sessions", told)[0]),
            cost_usd=_number(re.findall(r"cost \$([\d,.]+),", told)[0]),
            cost_unknown=_whole(re.findall(r"unknown for ([\d,]+) \(", told)[0]),
        )
    }


def _rows(page: str, heading: str) -> list[dict[str, str]]:
    """Return the rows of the first table whose first heading is this; without arrows of order."""
    return next(_tables(page, heading), [])


def _all_rows(page: str, heading: str) -> list[dict[str, str]]:
    """Return the rows of all such tables: those after the first ones are folded."""
    return [row for rows in _tables(page, heading) for row in rows]


def _tables(page: str, heading: str) -> Iterator[list[dict[str, str]]]:
    for rows in tables_of(html.unescape(page)):
        if next(iter(rows[0])) == heading:
            yield [{name.rstrip(" ▾▴"): cell for name, cell in row.items()} for row in rows]


def _first(pattern: str, client: TestClient, url: str) -> int:
    return _whole(re.findall(pattern, client.get(url).text)[0])


def _sum(rows: list[dict[str, str]], heading: str) -> int:
    return sum(_whole(row[heading]) for row in rows)


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


def _number(text: str) -> float:
    return float(text.replace(",", "").strip("$"))
