"""Every command that a page prints is one that the program accepts as it is printed."""

import re
import shlex
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path

import click
import pytest
import typer

from evaluation_pipelines.access.domain.keys import Role
from evaluation_pipelines.attention.alert_store import AlertStore
from evaluation_pipelines.attention.domain.messages import (
    JUDGE_DOWN,
    OPEN_BOOKS,
    UNJUDGED,
    reported,
)
from evaluation_pipelines.cli.program import app
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines_tests.judged import JUNE_1, fill
from evaluation_pipelines_tests.service.clients import Service
from evaluation_pipelines_tests.workplace import NOW
from evaluation_pipelines_tests.world import session

_PAGES = (
    *("/", "/sessions", "/models", "/agents", "/trends", "/tools", "/reviews"),
    *("/operations/books", "/operations/judge"),
    *("/operations/quarantine", "/operations/doctor", "/login", "/sessions/s1%23baseline-1"),
    *("/operations/books/2026-06-01", "/sessions/s1%23baseline-1/technical"),
)
_COMMAND = re.compile(r"evaluation-pipelines ([a-z](?:[\w./:=-]+ ?)+)")
_TARGETS = set(re.findall(r"^([a-z-]+):", Path("Makefile").read_text(), re.MULTILINE))


def is_accepted(words: Sequence[str]) -> bool:
    """Return whether the parser accepts a command with all its words."""
    command: click.Command = typer.main.get_command(app)
    context = click.Context(click.Command("program"))
    while isinstance(command, click.Group) and words:
        name, *words = words
        command = command.get_command(context, name) or click.Group()
    try:
        command.make_context("program", [*words])
    except click.exceptions.Exit:  # of --help
        return True
    except click.ClickException:
        return False
    return True


def refused(page: str) -> Iterator[str]:
    """Yield the commands of a page that are not accepted; in prose, more words may follow."""
    for code in re.findall("<code>(.*?)</code>", page, re.DOTALL):
        first, *words = shlex.split(unescape(code)) or [""]
        if first == "evaluation-pipelines" and not is_accepted(words):
            yield code
        if first == "make" and words[0] not in _TARGETS:
            yield code
    prose = unescape(re.sub("<.*?>", " ", re.sub("<code>.*?</code>", "", page, flags=re.DOTALL)))
    for found in _COMMAND.findall(prose):
        words = found.rstrip(".,: ").split()
        if not any(is_accepted(words[:end]) for end in range(1, len(words) + 1)):
            yield found


@pytest.mark.parametrize("state", ["empty", "with keys", "unread", "built"])
def test_every_command_is_accepted(service: Service, state: str) -> None:
    workplace, key = service.workplace, None
    if state == "with keys":
        key = service.key(Role.OPERATOR)
    elif state == "unread":
        workplace.land("logs.jsonl", session("s1"))
    elif state == "built":
        fill(workplace, session("s1"), b"broken\n")
        put = AlertStore(workplace.ledger).put
        for alert in (reported(JUDGE_DOWN, "judge", "down"), reported(UNJUDGED, JUNE_1, "down")):
            put(alert, NOW)
        put(reported(OPEN_BOOKS, JUNE_1, "no balance"), NOW)
        RebuildQueue(workplace.ledger).touch({JUNE_1}, NOW)
        for _ in range(4):
            RebuildQueue(workplace.ledger).mark_failed(JUNE_1, 2, "broken", NOW)
    client = service.browser(key)
    seen = {page: list(refused(client.get(page).text)) for page in _PAGES}
    assert {page: commands for page, commands in seen.items() if commands} == {}


def test_what_cannot_run_is_noticed() -> None:
    assert list(refused("<code>evaluation-pipelines agent-config</code>")) != []
    assert list(refused("<p>evaluation-pipelines agent-config prints what agents need</p>")) != []
    assert list(refused("<code>make nothing</code>")) != []


def test_agents_are_sent_to_the_service_that_shows_the_page(service: Service) -> None:
    command = "evaluation-pipelines agent-config codex --endpoint http://localhost:8400"
    for page in ("/", "/operations/doctor"):
        assert f"<code>{command}</code>" in service.client().get(page).text
    assert f"{command} prints" in service.client().get("/operations/doctor").text
