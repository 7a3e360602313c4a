"""A service with scored sessions of two organizations, built once for all tests that only read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from evaluation_pipelines.access.domain.caller import Role
from evaluation_pipelines_tests.otlp_builders import DAY_S, claude, line
from evaluation_pipelines_tests.scorecards.calls_profile import build, profile_file
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import open_workplace

A1, A2, B1 = "a1#baseline-1", "a2#baseline-1", "b1#baseline-1"
SAME = "same#baseline-1"
"""Both organizations have a session of this key."""


LABEL = {"classification__label": "simple"}
COMMAND = '{"command": "cat secret-plan.txt"}'


@contextmanager
def answering(folder: Path) -> Iterator[Service]:
    """Open a service: acme has a1, a2 (a day later) and same; beta has b1 and same.

    Each made one shell call of ten, so that the profile ``calls`` gives 90.
    """
    with open_workplace(folder) as workplace:
        profile_file(workplace)
        parts = [
            _work("acme", "a1", 0, success="false", error="no such file"),
            _work("acme", "a2", DAY_S),
            _work("acme", "same", 60),
            _work("beta", "b1", 120),
            _work("beta", "same", 180),
        ]
        workplace.land("logs.jsonl", b"".join(parts))
        build(workplace)
        yield Service(workplace)


def keys_of(service: Service) -> dict[str, str]:
    """Make a key of every role for acme, and one of all organizations for operators."""
    keys = {str(role): service.key(role, "acme") for role in Role}
    return {**keys, "all": service.key(Role.OPERATOR)}


def _work(organization: str, session: str, second: float, **call: object) -> bytes:
    """Return a prompt, a shell call and an answered request."""
    of = {"session__id": session, "organization__id": organization}
    given = {"tool_name": "Bash", "success": "true", "tool_parameters": COMMAND, **call}
    return line(
        claude("user_prompt", second, prompt="Read the plan", **LABEL, **of),
        claude("tool_result", second + 10, **given, **LABEL, **of),
        claude("api_request", second + 20, input_tokens=100, output_tokens=200, cost_usd=0.01,
               model="model-a", **LABEL, **of),
    )  # fmt: skip


def path_of(session: str) -> str:
    """Return a session key as a part of a path."""
    return quote(session, safe="")
