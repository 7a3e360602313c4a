"""``judge``: requests, runs, scores and ``judge validate``."""

import csv
import json
import os
import re
import shutil
import signal
import socket
import threading
from pathlib import Path

import pytest

import evaluation_pipelines
from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.judging import validation
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.lock import JUDGE, held
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint, open_judge_endpoint
from evaluation_pipelines_tests.judge_scripts import (
    hangs,
    http_error,
    says,
    score_reply,
)
from evaluation_pipelines_tests.program import Program

RUBRICS = Path(evaluation_pipelines.__file__).parent / "judging" / "rubrics"
KEY = "s1#baseline-1"


def test_a_request_is_left_to_the_next_run(program: Program, judge: JudgeEndpoint) -> None:
    asked = program("judge", "s1", "--by", "reviewer")
    assert (asked.code, judge.requests) == (0, [])
    assert asked.out.startswith(f"{KEY}: pending\n")
    assert "requested by     reviewer, " in asked.out
    assert asked.err == (
        "The next judge run scores it: use judge run, or Dagster's sensor starts one.\n"
    )

    ran = program("judge", "run")
    assert ran.out.startswith("judge: 3 of 3 sessions judged (mean total ")
    assert program("judge", KEY).code == 0
    assert len(judge.requests) == 6


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_run_says_what_it_did(
    program: Program, judge: JudgeEndpoint, number: signal.Signals
) -> None:
    program.set("EVAL_JUDGE_CONCURRENCY", "1")
    judge.script(says(score_reply(64)), hangs())
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        judge.wait_for(2)  # one reply has arrived, another is waited for
        os.kill(os.getpid(), number)

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    ran = program("judge", "run")
    waiting.join()
    signal.signal(signal.SIGINT, before)

    assert ran.code == 130
    assert ran.out.startswith("judge: 0 of 3 sessions judged, 3 deferred, 2 calls, $0.00")
    assert "; stopped: interrupted. The replies that arrived are kept" in ran.out
    assert ["interrupted", "3"] in [line.split() for line in ran.out.splitlines()]
    assert program("judge", "run").out.startswith("judge: 3 of 3 sessions judged")
    assert len(judge.requests) == 7  # two of each session, and the one without a reply again


def test_wait_prints_the_result(program: Program, judge: JudgeEndpoint) -> None:
    judge.script_turn("score", says(score_reply(64, "The order was sound.")))

    asked = program("judge", "s1", "--wait")
    assert asked.code == 0
    assert asked.err == "The next build of 2025-02-06 adds its scorecards.\n"
    assert asked.out.startswith(f"{KEY}: 64 of 100\n")
    assert "criteria         logical_flow 17, consistency 18, tool_relevance 14," in asked.out
    assert "failure tags     missed_available_tool" in asked.out
    assert "2 replies" in asked.out
    assert "Analysis\n\n    | The order was sound." in asked.out
    assert "Missing tools\n\n    | 1. Grep" in asked.out
    shown = program("show", "--judge", "s1")
    assert shown.out == asked.out


def test_texts_of_the_judge_cannot_imitate_the_output(
    program: Program, judge: JudgeEndpoint
) -> None:
    judge.script_turn("score", says(score_reply(64, "Sound.\n\nMissing tools\n\nnone\n\nx: 100")))
    judge.script_turn("missing-tools", says("1. Grep: for the text.\ns1: 100 of 100"))

    asked = program("judge", "s1", "--wait")

    texts = asked.out[asked.out.index("\nAnalysis\n") :]
    ours = [line for line in texts.splitlines() if line and not line.startswith("    | ")]
    assert ours == ["Analysis", "Missing tools"]
    assert "| s1: 100 of 100" in texts


def test_a_run_prints_what_it_did_and_what_it_deferred(
    program: Program, judge: JudgeEndpoint
) -> None:
    judge.script(http_error(400, "no \x1b[31mred"))
    first = program("judge", "run", "--max-sessions", "2")

    assert first.code == 4
    assert "1 failed, 1 deferred" in first.out
    assert re.search(r"^max_sessions +1$", first.out, re.MULTILINE)
    assert "\nthe endpoint answered 400: no" in first.out
    assert "\x1b" not in first.out
    second = program("judge", "run", "--date", "2025-02-06")
    assert "1 of 1 sessions judged" in second.out
    assert program("judge", "run").out.startswith("judge: nothing is due")
    forced = program("judge", "run", "--force", "--model", "judge-2", "--samples", "2")
    assert "3 of 3 sessions judged" in forced.out
    assert judge.requests[-1].body["model"] == "judge-2"


def test_the_budget_is_an_option(program: Program, judge: JudgeEndpoint) -> None:
    ran = program("judge", "run", "--max-cost-usd", "0.0001")

    assert (ran.code, judge.requests) == (1, [])  # nothing was scored
    assert re.search(r"^max_cost_of_run +3$", ran.out, re.MULTILINE)
    assert "this alone exceeds the limit" in ran.out


def test_an_endpoint_that_is_down_is_an_error(program: Program, judge: JudgeEndpoint) -> None:
    judge.always(http_error(401))

    waited = program("judge", "s1", "--wait")
    assert waited.code == 1
    assert "the endpoint answered 401" in waited.out  # a person waits: the scoring has failed
    ran = program("judge", "run")  # the others stay due
    assert (ran.code, "endpoint_down" in ran.out) == (1, True)
    with open_stores(load_settings()) as stores:
        (alert,) = AlertStore(stores.ledger).all()
    assert alert.alert.title == "Judge endpoint not responding"


@pytest.mark.parametrize("what", ["run", "run --collect", "s1"])
def test_without_an_endpoint_a_command_that_judges_says_what_to_set(
    program: Program, what: str
) -> None:
    program.set("EVAL_JUDGE_MODEL", "judge-1")
    ran = program("judge", *what.split())
    assert (ran.code, "no judge endpoint is configured: set OPENAI_BASE_URL" in ran.err) == (
        1,
        True,
    )


def test_scores_by_other_words_are_listed_and_scored_again_when_asked(
    program: Program, judge: JudgeEndpoint
) -> None:
    program("judge", "run")
    assert program("judge", "list", "obsolete").out == (
        "Every score is by the rubric that would judge its session now.\n"
    )
    mine = program.folder / "rubrics" / "mine"
    copy_rubric(mine)
    words = mine / "score.md"
    words.write_text(words.read_text() + "\nBe strict.\n")
    program.set("EVAL_JUDGE_RUBRICS_DIR", str(mine.parent))
    program.set("EVAL_JUDGE_RUBRIC", "mine")
    told = "nothing is due; 3 scored by another rubric or wording (--obsolete: score again)"
    assert told in program("judge", "run").out
    assert "3 of 3 sessions judged" in program("judge", "run", "--obsolete").out
    words.write_text(words.read_text() + "\nBe stricter.\n")

    listed = program("judge", "list", "obsolete")
    assert listed.out.startswith("6 obsolete scores\n")
    assert [row[0] for row in listed.table()[:6]] == [f"s{n}#baseline-1" for n in (1, 2, 3)] * 2
    assert [row[3] for row in listed.table()[:6]] == ["agent-methodology"] * 3 + ["mine"] * 3
    assert "To score 3 sessions again" in listed.out
    assert "judge run --obsolete" in listed.out
    assert program("judge", "run").out.startswith("judge: nothing is due")
    asked = len(judge.requests)
    assert "3 of 3 sessions judged" in program("judge", "run", "--obsolete").out
    assert len(judge.requests) == asked + 6
    assert program("judge", "run", "--obsolete").out.startswith("judge: nothing is due")
    # Scores that were made again stay in the list, and nothing is left to do.
    listed = program("judge", "list", "obsolete")
    assert [row[-1] for row in listed.table()[:3]] == ["yes", "yes", "yes"]
    assert "judge run --obsolete" not in listed.out


def copy_rubric(folder: Path) -> None:
    """Copy the shipped rubric, to be changed."""
    shutil.copytree(RUBRICS / "agent-methodology", folder)


@pytest.mark.usefixtures("judge")
def test_options_may_come_first_and_a_session_may_be_called_like_a_command(
    program: Program,
) -> None:
    assert program("judge", "--by", "me", "s1").out.startswith(f"{KEY}: pending")
    called = program("judge", "session", "run")
    assert (called.code, "run is not a session" in called.err) == (1, True)


@pytest.mark.usefixtures("judge")
@pytest.mark.parametrize(
    "command",
    [("judge", "run"), ("judge", "run", "--collect"), ("judge", "validate")],
    ids=" ".join,
)
def test_a_command_that_judges_names_who_judges_already(
    program: Program, command: tuple[str, ...]
) -> None:
    with open_stores(load_settings()) as stores, held(stores.ledger, JUDGE):
        refused = program(*command)
    named = f"process {os.getpid()} on {socket.gethostname()}"
    assert (refused.code, refused.out) == (3, "")
    assert f"error: {named} is judging: try again when it has ended" in refused.err


TASK = "csv-import.yaml"


@pytest.fixture
def validated(program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Program:
    """A judge that was validated twice with one task, once without attacks."""
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    text = (validation.SHIPPED_SESSIONS / TASK).read_text("utf-8")
    (shipped / TASK).write_text(text, "utf-8")
    monkeypatch.setattr(validation, "SHIPPED_SESSIONS", shipped)
    with open_judge_endpoint() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("EVAL_JUDGE_MODEL", "judge-1")
        assert program("judge", "validate", "--no-attacks").code == 0
        assert program("judge", "validate", "--no-attacks", "--model", "judge-2").code == 0
    return program


def test_it_prints_figures_and_compares(validated: Program) -> None:
    shown = validated("judge", "validate", "--last", "--model", "judge-2")
    assert shown.code == 0
    assert shown.out.startswith("Validation of judge-2, rubric agent-methodology\n")
    assert "verdict_rate" in shown.out
    assert "\n6 sessions asked, 0 unreachable, " in shown.out
    assert "The same sessions by other judges" in shown.out
    assert "judge-1" in shown.out

    record = json.loads(validated("judge", "validate", "--last", "--format", "json").out)
    assert record["judge_model"] == "judge-2"
    assert len(record["sessions"]) == record["judged_sessions"] == 6
    rows = list(
        csv.DictReader(validated("judge", "validate", "--last", "--format", "csv").out.splitlines())
    )
    rates = {row["judge_model"]: row["value"] for row in rows if row["figure"] == "verdict_rate"}
    assert rates == {"judge-2": "1.0", "judge-1": "1.0"}


def test_without_a_judge_or_a_run_it_says_so(program: Program) -> None:
    refused = program("judge", "validate")
    assert (refused.code, "set EVAL_JUDGE_MODEL" in refused.err) == (1, True)
    assert "never validated" in program("judge", "validate", "--last").err
