"""A service whose telemetry, judge and people write what a browser must never obey."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import polars as pl

from evaluation_pipelines.schemas import MISSING_TOOLS
from evaluation_pipelines_tests.judge_scripts import says, score_reply
from evaluation_pipelines_tests.judged import JUNE_1
from evaluation_pipelines_tests.service.pages.agent_evaluations import evaluate
from evaluation_pipelines_tests.service.scoring_service import (
    ScoringService,
    open_service,
    wait_for,
)
from evaluation_pipelines_tests.world import claude, line

SCRIPT = "<script>window.obeyed=1</script>"
IMAGE = "\"'><img src=x onerror=window.obeyed=1>"
ORGANIZATION = f"or{IMAGE}"
SESSION = f"s{IMAGE}"
KEY = f"{SESSION}#baseline-1"


def payload(name: str) -> str:
    """Return a text of markup that names the field it was put into."""
    return f"{name}{SCRIPT}{IMAGE}"


def hostile_session(session: str = SESSION, organization: str = ORGANIZATION) -> bytes:
    """Return a session with markup in every field that is shown."""
    of = {
        "session__id": session,
        "organization__id": organization,
        "classification__label": payload("label"),
        "agent__id": payload("agent"),
        "team__id": payload("team"),
        "user__email": payload("email"),
        "repository": payload("repository"),
        "branch": payload("branch"),
        "deployment__environment__name": payload("environment"),
    }
    call = {
        "tool_name": payload("tool"),
        "tool_parameters": json.dumps({payload("name"): "value<b>bold</b>"}),
        "success": "false",
        "error": payload("error"),
        "error_type": payload("type"),
    }
    tokens = {"input_tokens": 1, "output_tokens": 2, "cost_usd": 1}
    return line(
        claude("user_prompt", 0, prompt=payload("prompt"), **of),
        claude("tool_result", 1, **call, **of),
        claude("tool_result", 2, **call, **of),
        claude("api_request", 3, model=payload("model"), **tokens, **of),
        claude("assistant_response", 4, response=payload("reply"), **of),
        service__version=payload("version"),
    )


def missed_tools() -> pl.DataFrame:
    """Return a tool that judges missed, with markup in every text."""
    row = {
        "organization_id": ORGANIZATION,
        "period_start": JUNE_1,
        "period_end": JUNE_1,
        "tool": payload("missed"),
        "sessions": 1,
        "asked_sessions": 1,
        "mentions": 1,
        "agent_models": [payload("lacking")],
        "examples": [{"session_key": KEY, "rationale": payload("rationale")}],
    }
    return pl.DataFrame([row], schema=MISSING_TOOLS.schema)


@contextmanager
def hostile_service(folder: Path) -> Iterator[ScoringService]:
    """Open a service with hostile sessions, whose judge fails once, then scores."""
    sessions = (hostile_session(name) for name in (SESSION, "s2", "s3"))  # enough for a chart
    with open_service(folder, *sessions, people_view="person") as service:
        evaluate(service.workplace, ORGANIZATION, payload("agent"), 60)
        service.workplace.land(f"{payload('file').replace('/', '')}.jsonl", b"<img src=x>\n")
        service.workplace.ingest()
        service.workplace.lake.write(missed_tools(), MISSING_TOOLS, None)
        judge = service.judge
        judge.script_turn("score", says("no verdict"), says(score_reply(64, payload("analysis"))))
        judge.script_turn("reminder", says(payload("no reminder")))
        judge.script_turn("missing-tools", says(payload("missing")))
        yield service


def score(service: ScoringService, number: int) -> None:
    """Request a score and wait until there are ``number`` that have ended."""

    def has_ended() -> bool:
        scorings = service.scores.by_session(ORGANIZATION, KEY)
        return sum(not scoring.is_open for scoring in scorings) == number

    path = f"/api/v1/scoring/sessions/{quote(KEY, safe='')}/score"
    with service.client() as client:
        assert client.post(path, json={"force_rescore": True}).status_code == 202
        wait_for(has_ended)


def correct(service: ScoringService) -> None:
    """Record a score by a person whose name and reason are hostile, too."""
    client, path = service.client(), f"/sessions/{quote(KEY, safe='')}"
    token = re.search(r'form_token" value="(\w+)"', client.get(f"{path}/score").text)
    assert token
    person = {"annotator": payload("annotator"), "reason": payload("why"), "score": "41.5"}
    answer = client.post(f"{path}/override", data={"form_token": token[1], **person})
    assert answer.status_code == 200, answer.text
