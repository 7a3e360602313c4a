"""``scorecards``: queries, their formats and events."""

import json
import subprocess
from io import BytesIO

import polars as pl
import pytest

from evaluation_pipelines.schemas import SCORECARDS
from evaluation_pipelines_tests.cli.scorecards.labeled_work import work
from evaluation_pipelines_tests.program import SCRIPT, Program

NOON = "2026-06-01T12:00"


def found(program: Program, *options: str) -> list[tuple[str, str]]:
    ran = program("scorecards", "list", "--format", "json", *options)
    assert ran.code == 0, ran.err
    return [(item["session_id"], item["profile_id"]) for item in ran.items()]


@pytest.mark.parametrize(
    ("options", "sessions"),
    [
        (["--session", "a#baseline-1"], "aa"),
        (["--from", "2026-06-01"], "aabbc"),
        (["--to", "2026-06-02"], "aabb"),
        # Half-open: what started at noon is in from noon on, and not up to noon.
        (["--from", NOON, "--to", "2026-06-01T12:10"], "aa"),
        (["--to", NOON], ""),
        (["--from", "2026-06-01T14:00+02:00", "--to", "2026-06-01T12:10Z"], "aa"),
        (["--agent", "claude-code", "--label", "research"], "c"),
        (["--agent", "claude-code", "--model", "model-b"], "bb"),
        (["--agent", "claude-code", "--profile", "general-performance"], "abc"),
        (["--agent", "claude-code", "--limit", "1"], "c"),
    ],
)
def test_every_filter(scored: Program, options: list[str], sessions: str) -> None:
    assert "".join(name for name, _ in found(scored, *options)) == sessions


def test_a_query_needs_a_session_an_agent_or_a_time(scored: Program) -> None:
    ran = scored("scorecards", "list", "--model", "model-a", "--limit", "3")
    assert ran.code == 1
    assert "Name a session, an agent or a time range" in ran.err


def test_the_table_shows_score_source_and_profile(scored: Program) -> None:
    ran = scored("scorecards", "list", "--session", "a")
    first = ran.table()[0]

    # No call failed or was wasted: 100 x 60; 6 s a prompt, up to 60 are perfect: 100 x 25; one
    # call, up to 8 are perfect: 100 x 15. Of 100: 60 + 25 + 15 = 100.
    assert first[:4] == ["a#baseline-1", "100.0", "claude-code", "model-a"]
    assert first[4:8] == ["efficiency-simple", "v2", "card", "100.0"]
    assert ran.err == ""


def test_parquet_can_be_piped(scored: Program) -> None:
    command = (str(SCRIPT), "scorecards", "list", "--session", "a", "--format", "parquet")
    piped = subprocess.run(command, cwd=scored.folder, capture_output=True, check=True)

    rows = pl.read_parquet(BytesIO(piped.stdout))
    assert (rows.height, rows.schema) == (2, SCORECARDS.schema)


def test_events_can_be_followed_from_a_position(scored: Program) -> None:
    follow = ("scorecards", "list", "events", "--format", "jsonl")
    lines = [json.loads(line) for line in scored(*follow).out.splitlines()]
    assert [(line["session_id"], line["event"]) for line in lines] == [
        (name, "evaluation.model_feedback") for name in "abc"
    ]
    scored("scorecards", "override", "b", "--score", "1", "--annotator", "Ada", "--reason", "r")
    scored("build")

    after = str(lines[-1]["position"])
    newer = [json.loads(line) for line in scored(*follow, "--after", after).out.splitlines()]
    assert [(row["session_id"], row["event"], row["effective_100"]) for row in newer] == [
        ("b", "evaluation.model_feedback", 1.0),
        ("b", "evaluation.quality_risk", 1.0),
    ]


def test_a_session_without_a_card_has_a_reason(program: Program) -> None:
    program("profiles", "switch", "general-performance", "off")
    program.land("logs.jsonl", work("d", 0, "incident"))
    program("ingest")
    program("build")
    ran = program("scorecards", "list", "--session", "d")

    assert "no scorecard of the best match: d#baseline-1: no judge has scored this" in ran.err
    assert "last build" not in ran.err
    program("profiles", "switch", "general-performance", "on")
    program("profiles", "switch", "general-performance", "off")
    outdated = program("scorecards", "list", "--session", "d").err
    assert "Last build shown. 2026-06-01 changed since: run `evaluation-" in outdated
    program("build", "--date", "2026-06-01", "--allow-fallback")
    shown = program("scorecards", "list", "--session", "d", "--profile", "best").table()
    assert shown[0][1:7] == ["50.0", "claude-code", "model-a", "incident-llm", "v1", "placeholder"]


def test_a_misspelled_name_is_an_error(scored: Program) -> None:
    for options, message in (
        (("--session", "nosuch"), "There is no session nosuch among the 3 of the lake"),
        (("--session", "a", "--profile", "nosuch"), "no profile nosuch. Registered profiles"),
    ):
        ran = scored("scorecards", "list", *options)
        assert (ran.code, message in ran.err) == (1, True)


def test_reading_writes_nothing(program: Program) -> None:
    for command in ("list overrides", "calibration", "list events", "list --agent x"):
        ran = program("scorecards", *command.split())
        assert (ran.code, "evaluation-pipelines ingest" in ran.err) == (1, True)
    assert list(program.folder.iterdir()) == []
