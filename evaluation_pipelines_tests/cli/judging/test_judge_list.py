"""``judge list`` and its lists, ``judge run --collect``, what other commands show of the judge."""

import csv
import io
import json
import re
from datetime import UTC, datetime

import pytest

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores, read_stores
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import prose_score, says, score_reply
from evaluation_pipelines_tests.program import Program

ODD = "Decent \x1b[31mwork\x1b[0m,\nI would say = 70."


def test_scores_and_failures_are_listed_with_flags_words_and_spending(
    program: Program, judge: JudgeEndpoint
) -> None:
    # The criteria add up to 64: 80 does not, and is flagged.
    judge.script_turn("score", says(score_reply(80)), says(ODD), says(score_reply(49)))
    judge.script_turn("reminder", says(ODD))
    program.set("EVAL_JUDGE_CONCURRENCY", "1")
    program.set("EVAL_JUDGE_MAX_COST_PER_DAY_USD", "5")
    ran = program("judge", "run")
    assert re.search(r"^inconsistent_total +2$", ran.out.partition("\nFlags\n")[2], re.MULTILINE)

    listed = program("judge", "list")
    of = ("claude-code", "-", "judge-1")
    assert [row[:7] for row in listed.table()[:3]] == [
        ["s1#baseline-1", "80", "green", *of, "inconsistent_total,"],
        ["s2#baseline-1", "Failed", *of, "-", listed.table()[1][6]],
        ["s3#baseline-1", "49", "red", *of, "inconsistent_total,"],
    ]
    assert (
        "1 failure, the latest with the model's last words:\n  s2#baseline-1: no ver" in listed.out
    )
    assert "Decent \N{REPLACEMENT CHARACTER}[31mwork" in listed.out
    assert "I would say = 70." in listed.out
    assert "\x1b" not in listed.out
    flags = "flags: inconsistent_total 2, short_analysis 2 (left out by EVAL_JUDGE_EXCLUDE_FLAGGED:"
    assert flags in listed.out
    assert listed.out.endswith(" spent or reserved today (UTC), limits: $5.00 a day\n")
    assert "judge: $0.0000" not in listed.out

    found = json.loads(program("judge", "list", "--format", "json").out)
    first, failed, _ = found["items"]
    assert (first["badge"], first["flags"]) == (
        "80 green",
        ["inconsistent_total", "short_analysis"],
    )
    assert [reply["text"] for reply in failed["replies"]] == [ODD, ODD]
    assert (found["scorings"], found["flags"]["inconsistent_total"]) == (3, 2)
    assert found["spent_today_usd"] > 0
    assert found["max_cost_per_day_usd"] == 5
    rows = list(csv.DictReader(io.StringIO(program("judge", "list", "--format", "csv").out)))
    assert [row["badge"] for row in rows] == ["80 green", "Failed", "49 red"]
    assert rows[1]["last_reply"].endswith("I would say = 70.")

    only = program("judge", "list", "--status", "failed", "--attribute", "squad=none")
    assert only.out.startswith("No matching judgments. Remove a filter.\n")
    flagged = program("judge", "list", "--flag", "inconsistent_total", "--limit", "1")
    assert [row[0] for row in flagged.table()[:1]] == ["s3#baseline-1"]
    assert "1 older judgment not shown" in flagged.out
    shown = program("show", "--judge", "s2")
    assert "Reply to score-1 (stop)\n\n    | Decent" in shown.out

    states = program("sessions", "--format", "json").items()
    assert [(row["judge_badge"], row["judge_total"], row["judge_model"]) for row in states] == [
        ("80 green", 80, "judge-1"),
        ("Failed", None, "judge-1"),
        ("49 red", 49, "judge-1"),
    ]
    assert "judge: by judge-1. " in program("sessions").out
    assert " spent or reserved today (UTC), limits: $5.00 a day\n" in program("status").out


def test_the_newest_scoring_of_a_session_is_listed_unless_all_are_asked_for(
    program: Program, judge: JudgeEndpoint
) -> None:
    judge.script_turn("score", prose_score(), says(score_reply(64)))
    judge.script_turn("reminder", prose_score())
    program("judge", "s1", "--wait")
    program("judge", "s1", "--wait", "--force")

    assert [row[1] for row in program("judge", "list").table()[:1]] == ["64"]
    every = program("judge", "list", "--all").table()
    assert [row[1] for row in every[:2]] == ["Failed", "64"]
    events = program("judge", "list", "events").table()
    assert [row[2] for row in events] == [
        *("scoring.started", "scoring.progress", "scoring.failed"),
        *("scoring.started", "scoring.progress", "scoring.progress", "scoring.completed"),
    ]
    assert [row[4:7] for row in events[-2:]] == [
        ["identifying_missing_tools", events[-2][5]],
        ["64", "of", "100"],
    ]
    newest = json.loads(program("judge", "list", "events", "--limit", "1", "--format", "json").out)
    assert [item["total_score"] for item in newest["items"]] == [64]
    none = program("judge", "list", "events", "--date", "2020-01-01")
    assert none.out == "There are no judgment events.\n"


def test_a_score_that_waits_for_a_blind_review_is_in_no_table_of_the_judge(
    program: Program, judge: JudgeEndpoint
) -> None:
    judge.script_turn("score", *[says(score_reply(64))] * 3)
    program("judge", "run")
    with read_stores(load_settings()) as stores:
        (score, *_) = ScoreStore(stores.ledger).listed()
    with open_stores(load_settings()) as stores:
        sample = AuditSample(
            score.session_date,
            score.organization_id,
            "s1#baseline-1",
            "general-performance",
            score.content_hash,
            datetime.now(UTC),
        )
        OverrideStore(stores.ledger).add_samples([sample])
    due = program("show", "--judge", "s1").out
    assert due.startswith("s1#baseline-1: awaiting review (judged by judge-1. ")
    assert program("show", "--judge", "s2").out.startswith("s2#baseline-1: 64 of 100\n")
    events = [
        row for row in program("judge", "list", "events").table() if "scoring.completed" in row
    ]
    assert [row[4:6] for row in events if row[3] == "s1#baseline-1"] == [["awaiting", "review"]]
    assert [row[4] for row in events if row[3] != "s1#baseline-1"] == ["64", "64"]


@pytest.mark.usefixtures("judge")
def test_states_without_a_total_have_the_words_of_the_pages_for_people_only(
    program: Program,
) -> None:
    assert re.search(r"^ *judge +Not judged", program("show", "s1").out, re.MULTILINE)
    program.set("EVAL_JUDGE_MODE", "batch")
    assert program("judge", "run").code == 0
    listed = program("judge", "list").table()[:3]
    assert [" ".join(row[1:3]) for row in listed] == ["Being judged"] * 3
    assert re.search(r"^ *judge +Being judged by judge-1", program("show", "s1").out, re.MULTILINE)
    found = json.loads(program("judge", "list", "--format", "json").out)["items"]
    rows = csv.DictReader(io.StringIO(program("judge", "list", "--format", "csv").out))
    assert [row["badge"] for row in (*found, *rows)] == ["Scoring"] * 6


def test_a_night_in_the_terminal(program: Program, judge: JudgeEndpoint) -> None:
    program.set("EVAL_JUDGE_MODE", "batch")
    assert program("judge", "list", "batches").out == "No open batches.\n"
    sent = program("judge", "run")
    assert (sent.code, "3 sent in 1 batches" in sent.out) == (0, True)

    (record,) = program("judge", "list", "batches", "--format", "json").items()
    assert (record["state"], record["requests"]) == ("submitted", 3)
    assert record["reserved_usd"] > 0
    assert "in_progress" in program("judge", "list", "batches").out

    waiting = json.loads(program("judge", "s1", "--format", "json").out)
    assert waiting["mode"] == "batch"
    assert waiting["expected_by"].startswith("2026-05-29")  # a day after its creation
    asked = program("judge", "s1", "--wait")
    assert (asked.code, "it waits in a batch" in asked.err) == (1, True)
    assert "expected by 2026-05-29" in asked.out
    assert judge.requests == []

    for _ in range(2):
        judge.batches.finish()
        assert program("judge", "run", "--collect").code == 0
    assert program("judge", "list", "batches").out == "No open batches.\n"
    assert "closed" in program("judge", "list", "batches", "--all").out
    shown = json.loads(program("show", "--judge", "s1", "--format", "json").out)
    assert (shown["status"], "mode" in shown) == ("completed", False)


SPAN = ("--date", "2025-02-01..2025-02-28")
ANSWERS = ("1. Grep: a\x1b[31mred\n2. make: b", "1. **Grep**: c", "What a day.")


def test_it_prints_counts_and_answers_that_were_not_counted(
    program: Program, judge: JudgeEndpoint
) -> None:
    program.set("EVAL_JUDGE_CONCURRENCY", "1")
    judge.script_turn("missing-tools", *map(says, ANSWERS))
    program("judge", "run")
    listed = ("judge", "list", "missing-tools", *SPAN)
    shown = program(*listed)
    assert shown.code == 0
    assert shown.out.startswith("Missing tools, sessions of 2025-02-01 until 2025-03-01\n")
    assert [row[:5] for row in shown.table()[:2]] == [
        ["grep", "2", "2", "2", "2025-02-06"],
        ["make", "1", "2", "1", "2025-02-06"],
    ]
    assert shown.out.endswith(
        "2 lists of missing tools\n"
        "1 answers that are no list, not counted\n"
        "1 unparsed: neither a list nor a statement that no tool is missing\n"
    )
    assert "\x1b" not in shown.out
    assert "1 more: use --limit, or --format csv" in program(*listed, "--limit", "1").out

    record = json.loads(program(*listed, "--format", "json").out)
    assert [item["tool"] for item in record["items"]] == ["grep", "make"]
    assert record["period_end"] == "2025-03-01"
    assert record["answers"]["answers that are no list, not counted"] == 1
    rows = list(csv.DictReader(program(*listed, "--format", "csv").out.splitlines()))
    assert [(row["tool"], row["sessions"]) for row in rows] == [("grep", "2"), ("make", "1")]
    assert json.loads(rows[0]["masques"]) == ["baseline"]

    # The sessions were judged today, so there was no answer on that date.
    past = program(*listed, "--as-of", "2026-01-01")
    assert past.out == "No judge named a missing tool in sessions of 2025-02-01 until 2025-03-01.\n"
