"""The rank of a session among those of its class before its date: computed when it is read."""

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from evaluation_pipelines.as_of import as_of
from evaluation_pipelines.build import Build
from evaluation_pipelines.reporting.publish import publish_analytics
from evaluation_pipelines.schemas import RANKED_PERFORMANCE, SESSION_PERFORMANCE, UTC_TIME
from evaluation_pipelines.sessions.domain.ended import is_terminal
from evaluation_pipelines.sessions.percentiles import ranked_performance, with_percentiles
from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.views.sessions import Sessions
from evaluation_pipelines_tests.build.two_dates import FIRST, SECOND, build
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, session

DAY = date(2026, 6, 29)


def windows(*composites: float | None, before: int = 1, **columns: object) -> list[dict[str, Any]]:
    """Rows of windows with these composites, some days before DAY."""
    of_class = {"organization_id": "acme", "task_class": "code"}
    day = {"session_date": DAY - timedelta(days=before)}
    return [of_class | day | columns | {"composite": composite} for composite in composites]


def percentiles(new: list[dict[str, Any]], *others: list[dict[str, Any]]) -> list[float | None]:
    """The ranks of new windows among all."""
    rows = [*new, *(row for some in others for row in some)]
    named = [row | {"session_key": f"s{n}"} for n, row in enumerate(rows)]
    frame = pl.from_dicts(named, schema=SESSION_PERFORMANCE.schema)
    ranked = with_percentiles(frame[: len(new)], frame)
    assert ranked.schema == RANKED_PERFORMANCE.schema
    assert ranked.drop("percentile_in_class").equals(frame[: len(new)])
    return ranked["percentile_in_class"].to_list()


def test_the_percentile_is_the_mean_rank_among_the_sessions_before() -> None:
    new = windows(5.0, 5.1, 10.0, 0.0, before=0)
    # 5.0: ten lower, one equal: 100 * 10.5 / 20. 5.1: eleven lower. 10: all. 0.0: half of one.
    assert percentiles(new, windows(*(n / 2 for n in range(20)))) == [52.5, 55.0, 100.0, 2.5]
    # Five lower, fifteen equal of 25: 100 * (5 + 7.5) / 25
    equal = windows(*[5.0] * 15, *[1.0] * 5, *[9.0] * 5)
    assert percentiles(windows(5.0, 5.0, before=0), equal) == [50.0, 50.0]


def test_the_percentile_is_unknown_under_twenty_and_without_a_composite() -> None:
    new = windows(None, 5.0, before=0)
    assert percentiles(new, windows(*[1.0] * 19, None)) == [None, None]
    assert percentiles(new, windows(*[1.0] * 20)) == [None, 100.0]


def test_only_the_28_days_before_its_date_count() -> None:
    new = windows(5.0, before=0)
    others = [windows(*[9.0] * 20, before=days) for days in (29, 0, -1)]
    assert percentiles(new, *others) == [None]
    assert percentiles(new, *others, windows(*[1.0] * 20, before=28)) == [100.0]
    assert percentiles(new, *others, windows(*[1.0] * 20, before=1)) == [100.0]


def test_only_the_same_organization_and_class_count() -> None:
    others = [
        windows(*[1.0] * 20),
        windows(*[9.0] * 20, task_class="review"),
        windows(*[9.0] * 20, organization_id="beta"),
    ]
    assert percentiles(windows(5.0, before=0), *others) == [100.0]
    assert percentiles(windows(5.0, before=0, task_class="review"), *others) == [0.0]
    assert percentiles(windows(5.0, before=0, task_class="ops"), *others) == [None]


# -- of the lake ----------------------------------------------------------------------------------


@pytest.fixture(params=[1, 4])
def workplace(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Workplace]:
    """A workplace without and with shards: a session ranks among those of all shards."""
    with open_workplace(tmp_path, shards=request.param) as opened:
        yield opened


def land(workplace: Workplace, name: str, *sessions: bytes) -> None:
    workplace.land(f"{name}.jsonl", b"".join(sessions))
    workplace.ingest()


def failing(name: str, second: float = 0) -> bytes:
    """One line: a session whose only call fails, below one of ``session``, whose call is good."""
    return session(name, second, calls=["Read!"])


def _ended(now: datetime = NOW) -> pl.Expr:
    return is_terminal(pl.lit(now).cast(UTC_TIME), 30)


def stored(lake: Lake, day: date) -> list[float | None]:
    """The different ranks of the sessions of a date."""
    rows = ranked_performance(lake, [day], _ended())
    return rows["percentile_in_class"].unique(maintain_order=True).to_list()


def test_a_late_session_of_an_earlier_date_counts_at_once(workplace: Workplace) -> None:
    land(workplace, "a", *(failing(f"a{n}") for n in range(20)), session("b", DAY_S))
    build(workplace)
    before = workplace.lake.parts(SESSION_PERFORMANCE, [SECOND])
    assert (stored(workplace.lake, FIRST), stored(workplace.lake, SECOND)) == ([None], [100.0])

    land(workplace, "late", *(session(f"c{n}") for n in range(20)))
    assert build(workplace, FIRST)
    # 20 are lower, 20 are equal; nothing of the later date was built again, or is due.
    assert stored(workplace.lake, SECOND) == [75.0]
    assert workplace.lake.parts(SESSION_PERFORMANCE, [SECOND]) == before
    assert Build(workplace.stores, clock=lambda: NOW).pending_dates() == []


def test_an_open_session_has_no_rank_and_no_other_ranks_among_it(workplace: Workplace) -> None:
    # The twentieth of the day before is at work until 12:50, the new one until 12:00.
    twenty = [*(failing(f"a{n}") for n in range(19)), failing("open")]
    land(workplace, "a", *twenty, failing("open", DAY_S + 3000), session("b", DAY_S))
    build(workplace)
    noon = datetime(2026, 6, 2, 12, tzinfo=UTC)
    for minutes, rank in ((20, None), (60, None), (90, 100.0)):
        now = noon + timedelta(minutes=minutes)
        rows = ranked_performance(workplace.lake, [SECOND], _ended(now))
        assert rows["percentile_in_class"].to_list() == [rank]
        kept = Sessions(workplace.stores)
        in_memory = kept.with_ranks(kept.rows(now=now), now)
        assert in_memory["percentile_in_class"].drop_nulls().to_list() == [rank] * bool(rank)


def test_the_lake_is_read_28_days_back(workplace: Workplace) -> None:
    new = (session("b", 28 * DAY_S), session("c", 29 * DAY_S))
    land(workplace, "a", *(failing(f"a{n}") for n in range(20)), *new)
    build(workplace)
    assert stored(workplace.lake, FIRST + timedelta(28)) == [100.0]
    assert stored(workplace.lake, FIRST + timedelta(29)) == [None]


def test_sessions_rank_among_those_of_a_past_time(tmp_path: Path) -> None:
    with open_workplace(tmp_path) as workplace:
        early = [session(f"a{n}") for n in range(20)]
        later = [failing(f"a{n}", 2 * DAY_S) for n in range(20)]
        land(workplace, "a", *early, session("b", DAY_S), *later)
        build(workplace)
        assert stored(workplace.lake, SECOND) == [100.0]
        then = datetime(2026, 6, 2, 23, tzinfo=UTC)
        assert stored(as_of(workplace.stores, then).lake, SECOND) == [50.0]


def test_every_reader_tells_the_same_percentile(program: Program) -> None:
    """Of 20: four lower, six equal. One file still has the rank that a former build stored."""
    data = program.folder / "data"
    with open_workplace(data) as workplace:
        better = [session(f"c{n}", calls=["Read", "Read"]) for n in range(10)]
        before = [failing(f"a{n}") for n in range(4)] + [session(f"b{n}") for n in range(6)]
        land(workplace, "a", *before, *better, session("new", DAY_S))
        build(workplace)
        lake = workplace.lake
        old = ranked_performance(lake, [SECOND], _ended()).with_columns(percentile_in_class=1.5)
        lake.write(old, RANKED_PERFORMANCE, SECOND)

        assert stored(lake, SECOND) == [35.0]
        answer = Service(workplace).client().get("/api/v1/sessions/new")
        database = publish_analytics(workplace.stores, NOW).link
    assert answer.json()["performance"]["percentile_in_class"] == 35.0
    with duckdb.connect(str(database), read_only=True) as connection:
        for table in ("session_performance", "sessions"):
            query = f"select percentile_in_class from {table} where session_id = 'new'"  # noqa: S608
            assert connection.sql(query).fetchall() == [(35.0,)]

    shown = json.loads(program("show", "new", "--format", "json").out)
    assert shown["performance"]["percentile_in_class"] == 35.0
    listed = program("sessions", "--format", "json").items()
    assert [row["percentile_in_class"] for row in listed] == [*[None] * 20, 35.0]
    for command in (["show", "new"], ["sessions", "--date", str(SECOND)]):
        (values,) = csv.DictReader(io.StringIO(program(*command, "--format", "csv").out))
        assert values["percentile_in_class"] == "35.0"
