"""``judge list missing-tools``."""

import csv
import json

import pytest

from evaluation_pipelines_tests.judge_endpoint import open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import says
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import DAY_S

SPAN = ("--date", "2025-02-01..2025-02-28")
ANSWERS = ("1. Grep: a\x1b[31mred\n2. make: b", "1. **Grep**: c", "What a day.")


@pytest.fixture
def asked(program: Program, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Three judged sessions of 2025-02-06."""
    lines = [session_with_texts(f"s{n}", -480 * DAY_S + 60 * n) for n in range(1, 4)]
    program.land("logs.jsonl", b"".join(lines))
    program("ingest")
    program("build")
    with open_judge_endpoint() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("EVAL_JUDGE_MODEL", "judge-1")
        monkeypatch.setenv("EVAL_JUDGE_CONCURRENCY", "1")
        endpoint.script_turn("missing-tools", *map(says, ANSWERS))
        program("judge", "run")
    return program


def test_it_prints_counts_and_answers_that_were_not_counted(asked: Program) -> None:
    shown = asked("judge", "list", "missing-tools", *SPAN)
    assert shown.code == 0
    assert shown.out.startswith("Missing tools, sessions of 2025-02-01 until 2025-03-01\n")
    assert [row[:5] for row in shown.table()[:2]] == [
        ["grep", "2", "2", "2", "2025-02-06"],
        ["make", "1", "2", "1", "2025-02-06"],
    ]
    assert shown.out.endswith(
        "2 lists of missing tools\n"
        "1 answers that are no list, not counted\n"
        "1 unparsed: no list, and no plain word that none is missing\n"
    )
    assert "\x1b" not in shown.out
    one = asked("judge", "list", "missing-tools", *SPAN, "--limit", "1")
    assert "1 more: use --limit, or --format csv" in one.out

    record = json.loads(asked("judge", "list", "missing-tools", *SPAN, "--format", "json").out)
    assert [item["tool"] for item in record["items"]] == ["grep", "make"]
    assert record["period_end"] == "2025-03-01"
    assert record["answers"]["answers that are no list, not counted"] == 1
    rows = list(
        csv.DictReader(
            asked("judge", "list", "missing-tools", *SPAN, "--format", "csv").out.splitlines()
        )
    )
    assert [(row["tool"], row["sessions"]) for row in rows] == [("grep", "2"), ("make", "1")]
    assert json.loads(rows[0]["masques"]) == ["baseline"]

    # The sessions were judged today, so there was no answer on that date.
    past = asked("judge", "list", "missing-tools", *SPAN, "--as-of", "2026-01-01")
    assert past.out == "No judge named a missing tool in sessions of 2025-02-01 until 2025-03-01.\n"
