"""A session that has not ended: its score so far on every surface, and until when it is open."""

import re
import time
from datetime import UTC, datetime, timedelta

import duckdb

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import NOON_NS, session


def test_an_open_session_has_a_provisional_score_that_counts_nowhere(program: Program) -> None:
    second = (time.time_ns() - NOON_NS) // 1_000_000_000 - 60
    path = program.land("logs.jsonl", session("open", second, calls=("Read", "Edit")))
    ended_at = datetime.fromtimestamp(NOON_NS // 1_000_000_000 + second + 2, UTC)
    end = f"{ended_at + timedelta(minutes=30):%H:%M}"
    sentence = f"Still open. Counts as ended at {end} (30 minutes after its last event) or when "
    for command in ("ingest", "build", "publish"):
        assert program(command).code == 0

    (listed,) = program("sessions", "--format", "json").items()
    score = listed["provisional_100"]
    assert 0 < score <= 100
    assert (listed["effective_100"], listed["effective_source"]) == (None, "none")
    shown = f"{score:.1f}"
    assert f"{shown} provisional" in program("sessions").out
    told = program("show", "open").out
    assert sentence in told
    assert f"score: {shown} of 100, provisional" in told
    assert sentence in program("score", str(path)).err

    with open_workplace(program.folder / "data") as workplace:
        client = Service(workplace, datetime.now(UTC)).browser()
        (row,) = client.get("/api/v1/sessions").json()["sessions"]
        assert (row["effective_100"], row["provisional_100"]) == (None, score)
        found = client.get("/api/v1/sessions/open").json()["evaluation"]
        assert (found["provisional"], found["provisional_100"]) == (True, score)
        assert found["score_100"] is None
        page = client.get("/sessions/open").text
        assert sentence in page
        assert re.search(rf"Provisional score <strong[^>]*>{shown}<", page)
        assert f"Provisional score: {shown}</h2>" in client.get("/sessions/open/score").text
        assert re.search(rf">{shown} provisional</a>", client.get("/sessions").text)
        assert "Data built at" in page

    link = str(program.folder / "data/analytics.duckdb")
    with duckdb.connect(link, read_only=True) as database:
        query = "select effective_100, provisional_100, passed from session_evaluations"
        assert database.sql(query).fetchall() == [(None, score, None)]
