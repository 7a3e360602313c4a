"""A service with scored sessions of two organizations, built once for all tests that only read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evaluation_pipelines_tests.scorecards.calls_profile import build, profile_file
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import open_workplace
from evaluation_pipelines_tests.world import DAY_S, claude, line

A1, A2, B1 = "a1#baseline-1", "a2#baseline-1", "b1#baseline-1"
C1, SAME = "c1#baseline-1", "same#baseline-1"
"""c1 waits for its score; both organizations have a session ``same``."""


COMMAND = '{"command": "cat secret-plan.txt"}'


@contextmanager
def answering(folder: Path, **settings: Any) -> Iterator[Service]:
    """Open a service: acme has a1, a2 (a day later) and same; beta has b1 and same.

    Each made one shell call of ten, so that the profile ``calls`` gives 90.
    """
    with open_workplace(folder, **settings) as workplace:
        profile_file(workplace)
        parts = [
            work("acme", "a1", 0, success="false", error="no such file"),
            work("acme", "a2", DAY_S),
            work("acme", "same", 60),
            work("beta", "b1", 120),
            work("beta", "same", 180),
        ]
        workplace.land("logs.jsonl", b"".join(parts))
        build(workplace)
        yield Service(workplace)


@contextmanager
def judging(folder: Path) -> Iterator[Service]:
    """Open the same service with a judge, and a session c1 of acme that waits for its score."""
    judge = {"judge_model": "judge-1", "openai_base_url": "http://127.0.0.1:9/v1"}
    with answering(folder, **judge) as service:
        service.workplace.land("more.jsonl", work("acme", "c1", 240, "code"))
        build(service.workplace)
        path = f"/api/v1/scoring/sessions/{path_of(C1)}/score"
        assert service.client().post(path).status_code == 202
        yield service


def work(
    organization: str,
    session: str,
    second: float,
    label: str = "simple",
    *,
    calls: int = 1,
    agent: str | None = None,
    model: str = "model-a",
    **call: object,
) -> bytes:
    """Return a prompt, shell calls a second apart and an answered request; ``call`` is of each."""
    of: dict[str, object] = {
        "session__id": session,
        "organization__id": organization,
        "classification__label": label,
        "agent__id": agent,
    }
    given = {"tool_name": "Bash", "success": "true", "tool_parameters": COMMAND, **call}
    used: dict[str, object] = {"input_tokens": 100, "output_tokens": 200, "cost_usd": 0.01}
    return line(
        claude("user_prompt", second, prompt="Read the plan", **of),
        *(claude("tool_result", second + 10 + place, **given, **of) for place in range(calls)),
        claude("api_request", second + 20, model=model, **used, **of),
    )


def path_of(session: str) -> str:
    """Return a session key as a part of a path."""
    return quote(session, safe="")
