"""Spans in any order, in any files, on any days, and sent again: always the same tables."""

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from evaluation_pipelines.reporting.books import books_of
from evaluation_pipelines.schemas import AGENT_EVENTS_LANDED
from evaluation_pipelines.storage.ledger.manifest import Manifest
from evaluation_pipelines.telemetry.ledger.ingest_batches import SessionIndex
from evaluation_pipelines_tests.telemetry.placing.span_lines import (
    DAY_S,
    SpanSent,
    line,
    trace_session,
    turn,
)
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import claude
from evaluation_pipelines_tests.world import line as logs

SPANS = [
    *turn("t1", 0, "s1"),
    *turn("t2", 2 * DAY_S, "s1", named="all"),  # the second turn comes two days later
    *turn("t3", DAY_S // 2 - 20, None)[1:],  # over midnight: no root, only its sub-agent has an id
    *[sent for sent in turn("t4", DAY_S, None) if sent.session is None],  # no id at all
    *turn("t5", 3 * DAY_S, "sub-t3"),  # a session that is named as the sub-agent of t3, too
    SpanSent("t6", "t6a", None, "chat", 2 * DAY_S, 2 * DAY_S + 1, link="t4"),
    SpanSent("t7", "t7a", "t7gone", "chat", 0, 3 * DAY_S, None),  # over three days
    SpanSent("t7", "t7b", "t7a", "execute_tool", DAY_S, DAY_S + 1, "s7"),
    SpanSent("t7", "t7c", "t7b", "chat", 2 * DAY_S, 2 * DAY_S + 1, "other"),
    SpanSent("t8", "t8a", "t8b", "chat", 5, 6, "s8"),  # a circle of parents
    SpanSent("t8", "t8b", "t8a", "execute_tool", DAY_S, DAY_S + 1),
    SpanSent("t9", "t9a", None, "invoke_agent", 9, 20, "s9"),  # its clock is late
    SpanSent("t9", "t9b", "t9a", "chat", 5, 6, "sub-t9"),
    # So is that of this agent, whose caller names no session; a sub-agent is below its tool.
    SpanSent("ta", "taa", None, "invoke_workflow", DAY_S, DAY_S + 30),
    SpanSent("ta", "tab", "taa", "invoke_agent", DAY_S + 9, DAY_S + 20, "sa"),
    SpanSent("ta", "tac", "tab", "execute_tool", DAY_S + 6, DAY_S + 8),
    SpanSent("ta", "tad", "tac", "chat", DAY_S + 5, DAY_S + 6, "sub-ta"),
]
LOGS = [
    logs(claude("user_prompt", -DAY_S, session__id="s1", prompt="before"), organization__id="acme"),
    logs(claude("user_prompt", 2 * DAY_S, session__id="log", prompt="alone")),
]
PLACE = ("source_file_id", "source_offset")
DATE_OF = {
    "s1": "2026-05-31",
    "sub-t3": "2026-06-01",
    trace_session("t4"): "2026-06-02",
    "s7": "2026-06-02",  # a request has the time of its end
    "s8": "2026-06-01",
    "s9": "2026-06-01",
    "sa": "2026-06-02",
    "log": "2026-06-03",
}


def tables(workplace: Workplace) -> dict[str, pl.DataFrame]:
    """Return what is built, without the place of lines in files."""
    index = [
        (start.session_id, start.organization_id, start.session_date, start.parent_session_id)
        for name in (*DATE_OF, *(trace_session(f"t{number}") for number in "123456789a"))
        for start in SessionIndex(workplace.ledger).starts([name])
    ]
    return {
        "events": workplace.events().drop(PLACE),
        "sessions": workplace.sessions(),
        "performance": workplace.performance(),
        "index": pl.DataFrame(sorted(index), orient="row"),
    }


def run(folder: Path, requests: list[list[bytes]], **settings: Any) -> dict[str, pl.DataFrame]:
    """Ingest and build the files one after another; return what is built in the end."""
    with open_workplace(folder, **settings) as workplace:
        for number, content in enumerate(requests):
            workplace.land(f"{number}.jsonl", b"".join(content))
            workplace.ingest()
            if number % 3 == 1:
                workplace.build()
        workplace.build()
        assert SessionIndex(workplace.ledger).unfiled() == []
        days = [date.session_date for date in Manifest(workplace.ledger).dates("agent_events")]
        books = books_of(workplace.stores, days, NOW)
        assert [day for day in days if not books[day].is_balanced] == []
        for child in SessionIndex(workplace.ledger).children():  # nothing is left of a trace
            landed = workplace.lake.select(
                AGENT_EVENTS_LANDED, pl.col("session_id") == child.session_id
            )
            assert landed.is_empty()
        return tables(workplace)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    return run(tmp_path_factory.mktemp("at once"), [[line(*SPANS), *LOGS]])


def test_every_trace_is_in_the_session_of_its_outermost_id(
    expected: dict[str, pl.DataFrame],
) -> None:
    sessions = expected["sessions"]
    dates = sessions.select("session_id", pl.col("session_date").cast(pl.String))
    assert dict(dates.iter_rows()) == DATE_OF
    counted = sessions.select("session_id", "prompts", "total_tools", "api_requests").rows()
    assert set(counted) == {
        ("s1", 3, 2, 6),  # a prompt in a log, two turns with three requests each
        ("sub-t3", 1, 2, 6),  # the turn of t3 has no root
        (trace_session("t4"), 1, 1, 3),  # two requests, and the one of t6, which links to it
        ("s7", None, 1, 2),
        ("s8", None, 1, 1),
        ("s9", 1, 0, 1),
        ("sa", 1, 1, 1),
        ("log", 1, 0, 0),
    }


@pytest.mark.parametrize(
    "seed", [1, 2, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 60))]
)
def test_any_order_and_split_gives_the_same_tables(
    tmp_path: Path, expected: dict[str, pl.DataFrame], seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311
    spans = [*SPANS, *chance.sample(SPANS, 8)]
    chance.shuffle(spans)
    files: list[list[bytes]] = [[] for _ in range(chance.choice([2, 4, 9]))]
    while spans:
        some = [spans.pop() for _ in range(min(len(spans), chance.randint(1, 4)))]
        chance.choice(files).append(line(*some))
    for log in LOGS:
        chance.choice(files).append(log)
    found = run(tmp_path, files, compact_parts=2, shards=chance.choice([1, 3]))
    for name, table in found.items():
        assert_frame_equal(table, expected[name], check_row_order=False)  # shards differ
