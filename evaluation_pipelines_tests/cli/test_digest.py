"""``digest`` as text, page, rows and message."""

import json

import pytest

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.receiver import open_receiver
from evaluation_pipelines_tests.world import DAY_S, claude, line, session

WEEK = ("--date", "2026-06-01..2026-06-07")
HOSTILE = "<img src=x>@all"


def built(program: Program) -> None:
    failed = line(
        claude("user_prompt", DAY_S, session__id="b"),
        claude("tool_result", DAY_S + 1, session__id="b", tool_name=HOSTILE, success="false"),
    )
    program.land("logs.jsonl", session("a") + failed + session("c", -DAY_S))
    program("ingest")
    program("build")


def test_a_week_is_told_in_every_format(program: Program) -> None:
    built(program)
    text = program("digest", *WEEK)
    assert (text.code, text.err) == (0, "")
    assert text.out.startswith("Agent sessions from 2026-06-01 to 2026-06-07\n\nIn short\n")
    assert "- 2 sessions (the 7 days before 1)\n" in text.out
    document = json.loads(program("digest", *WEEK, "--format", "json").out)
    assert (document["items"], document["last"]) == ([], "2026-06-07")
    assert program("digest", *WEEK, "--format", "csv").out.startswith("by,name,people,")
    page = program.folder / "week.html"
    assert program("digest", *WEEK, "--format", "html", "--output", str(page)).out == ""
    assert "<h2>Left out</h2>" in page.read_text()
    assert HOSTILE not in page.read_text()


def test_it_is_posted_once(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    built(program)
    refused = program("digest", *WEEK, "--send")
    assert (refused.code, "EVAL_ALERT_WEBHOOK_URL" in refused.err) == (1, True)
    with open_receiver() as receiver:
        monkeypatch.setenv("EVAL_ALERT_WEBHOOK_URL", receiver.url)
        assert program("digest", *WEEK, "--send").code == 0
        assert program("digest", *WEEK, "--send").code == 0
        (text,) = receiver.texts
    assert text.startswith("Agent sessions from 2026-06-01 to 2026-06-07\nIn short\n- 2 sessions")
    assert HOSTILE not in text
    assert "&lt;img src=x&gt;" in text
    seen = program("doctor", "--offline", "--format", "json").out
    assert "Agent sessions from" not in seen  # it asks for nothing


def test_what_the_webhook_refuses_is_an_error(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(program)
    with open_receiver(500) as receiver:
        monkeypatch.setenv("EVAL_ALERT_WEBHOOK_URL", receiver.url)
        ran = program("digest", *WEEK, "--send")
    assert (ran.code, "tried again" in ran.err) == (1, True)
