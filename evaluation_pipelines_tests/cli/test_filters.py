"""The same options choose sessions in every command that lists; exceptions have a reason."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime

import click
import pytest
import typer

from evaluation_pipelines.cli.program import app
from evaluation_pipelines.scorecards.store import AuditSample, OverrideStore
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import DAY_S, claude, line

CONDITIONS = {
    "--organization": "default",
    "--person": "ada@x",
    "--team": "search",
    "--repository": "shop",
    "--branch": "main",
    "--environment": "laptop",
    "--agent": "claude-code",
    "--program": "claude_code",
    "--model": "aspen-4",
    "--variant": "effort high",
    "--label": "general",
    "--date": "2026-06-01",
    "--to": "2026-06-02",
    "--attribute": "epic=A-7",
}
FILTERS = frozenset({*CONDITIONS, "--from", "--masque", "--limit"})
NEITHER = ("--team", "search", "--branch", "next")
"""Conditions that two sessions meet, one each."""

FIGURES = "rows are figures over the chosen sessions: fewer rows would not be fewer sessions"
NO_SESSION = "a line that cannot be read names no session"
AGENTS = "rows are agents or identities, over all of their sessions and signals"


@dataclass(frozen=True)
class Listing:
    """Arguments that list something, and the filters that there are not, with the reason."""

    arguments: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()
    why: str = ""
    needs: tuple[str, ...] = ()


LISTS = {
    "sessions": Listing(),
    "sessions --by model": Listing(("--format", "json")),
    "tools": Listing(("--fleet",), frozenset({"--limit"}), FIGURES),
    "lift": Listing(without=frozenset({"--limit"}), why=FIGURES),
    "compare": Listing(without=frozenset({"--limit"}), why=FIGURES),
    "books": Listing(
        ("2026-06-01", "--format", "json"),
        frozenset({"--date", "--limit"}),
        "the books are those of a whole day, which is named",
    ),
    "judge list": Listing(),
    "judge list obsolete": Listing(),
    "judge list missing-tools": Listing(),
    "judge list events": Listing(),
    "people list unknown": Listing(),
    "scorecards list": Listing(needs=("--from", "2026-06-01")),
    "scorecards list overrides": Listing(),
    "scorecards list events": Listing(),
    "scorecards calibration": Listing(without=frozenset({"--limit"}), why=FIGURES),
    "quarantine list": Listing(without=FILTERS - {"--limit"}, why=NO_SESSION),
    "reputation list": Listing(without=FILTERS - {"--limit", "--organization"}, why=AGENTS),
    "judge changes": Listing(
        without=FILTERS,
        why="a judge changes for all sessions, and its anchors are of all",
    ),
    "profiles list": Listing(without=FILTERS, why="rows are judge profiles"),
    "keys list": Listing(without=FILTERS, why="rows are keys"),
    "settings": Listing(without=FILTERS, why="rows are settings"),
    "status": Listing(without=FILTERS, why="rows are files and dates"),
    "publish": Listing(without=FILTERS - {"--date"}, why="rows are files of whole dates"),
    "score": Listing(
        without=FILTERS - {"--organization"}, why="rows are those of the files that it is given"
    ),
}

OTHERS = {
    *("ingest", "build", "demo", "reputation update", "reputation retract", "digest", "doctor"),
    *("judge session", "judge run", "judge validate", "show", "profiles set", "profiles switch"),
    *("scorecards override", "quarantine retry", "people import", "forget", "expire", "serve"),
    *("keys create", "keys revoke", "agent-config", "gate"),
    *("experiment create", "experiment assign", "experiment show", "evaluations", "mcp"),
}
"""Commands that do something, or show one thing."""


def commands() -> dict[str, click.Command]:
    def walk(group: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
        if not isinstance(group, click.Group):
            yield " ".join(path), group
            return
        context = click.Context(group)
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None
            yield from walk(found, (*path, name))

    return dict(walk(typer.main.get_command(app), ()))


COMMANDS = commands()


def command_of(name: str) -> str:
    """The command that a list is of, which may have several."""
    return max((command for command in COMMANDS if name.startswith(command)), key=len)


def options(name: str) -> set[str]:
    return {option for param in COMMANDS[command_of(name)].params for option in param.opts}


def test_every_command_lists_with_filters_or_is_known_to_list_nothing() -> None:
    listing = {command_of(name) for name in LISTS}
    assert listing | OTHERS == set(COMMANDS)
    assert not listing & OTHERS


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_all_filters_but_those_that_cannot_be(name: str) -> None:
    assert FILTERS - options(name) == LISTS[name].without
    assert bool(LISTS[name].why) is bool(LISTS[name].without)


def work(name: str, day: int, **where: object) -> bytes:
    """A session of one call and one answer of a model, on a day of June (from 0)."""
    said = {"session__id": name, "user__email": f"{where.pop('by')}@x"}
    model = where.pop("model")
    effort = "high" if model == "aspen-4" else "low"
    return line(
        claude("user_prompt", day * DAY_S, **said),
        claude("tool_result", day * DAY_S + 1, tool_name="Read", success="true", **said),
        claude("api_request", day * DAY_S + 2, model=model, effort=effort, output_tokens=9, **said),
        **where,
    )


def built(program: Program) -> None:
    """Two sessions that have nothing in common but their label; both are to be audited."""
    where = {
        "vcs.repository.name": "shop",
        "vcs.ref.head.name": "main",
        "deployment.environment.name": "laptop",
        "team.id": "search",
        "epic": "A-7",
    }
    elsewhere = {
        "organization.id": "elsewhere",
        "agent.id": "scout",
        "vcs.ref.head.name": "next",
        "vcs.repository.name": "https://git.example/web/engine.git",
    }
    program.land(
        "logs.jsonl",
        work("a", 0, by="ada", model="aspen-4", **where)
        + work("b", 1, by="ben", model="birch-4", **elsewhere),
    )
    assert program("ingest").code == 0
    assert program("build").code == 0
    said = ("--score", "50", "--annotator", "eve", "--reason", "seen")
    for name in "ab":
        assert program("scorecards", "override", name, *said).code == 0
    with open_stores(load_settings()) as stores:
        drawn_at = datetime(2026, 6, 3, tzinfo=UTC)
        samples = [
            AuditSample(
                date(2026, 6, 1 + at), organization, f"{name}#baseline-1", "p", "", drawn_at
            )
            for at, (organization, name) in enumerate((("default", "a"), ("elsewhere", "b")))
        ]
        OverrideStore(stores.ledger).add_samples(samples)


def sessions_of(program: Program, name: str, *arguments: str) -> set[str]:
    """Ids of the sessions that a list shows, or of those that its figures are of."""
    ran = program(*name.split(), *LISTS[name].arguments, *LISTS[name].needs, *arguments)
    assert ran.code == 0, ran.err
    return {letter for letter in "ab" if f"{letter}#baseline" in ran.out}


def test_filters_choose_sessions(program: Program) -> None:
    program.set("EVAL_SESSION_ATTRIBUTES", "epic")
    program.set("EVAL_PEOPLE_VIEW", "person")
    built(program)
    for option, value in CONDITIONS.items():
        is_of_both = option in {"--label", "--program"}
        expected = {"a", "b"} if is_of_both else {"a"}
        assert sessions_of(program, "sessions", option, value) == expected, option
    for name in (
        *("books", "scorecards list", "scorecards list overrides", "scorecards list events"),
    ):
        assert sessions_of(program, name, "--team", "search") == {"a"}, name
        assert sessions_of(program, name, *NEITHER) == set(), name
    assert sessions_of(program, "scorecards list events", "--limit", "1", "--model", "birch-4") == {
        "b"
    }
    assert sessions_of(program, "scorecards list overrides", "--limit", "1") == {"b"}
    for name in ("people list unknown", "tools", "compare"):
        span = ("--date", "2026-06-01..2026-06-09") if name == "compare" else ()
        found = program(
            *name.split(), *LISTS[name].arguments, *span, "--agent", "scout", "--format", "json"
        )
        assert (found.code, "birch-4" in found.out, "aspen-4" in found.out) == (
            *(0, name != "people list unknown"),
            False,
        ), name
        assert "ada@x" not in found.out
    for name in (
        "scorecards calibration",
        "judge list obsolete",
        "judge list",
        "judge list events",
        "lift",
        "judge list missing-tools",
    ):
        assert sessions_of(program, name, *NEITHER) == set(), name
    assert sessions_of(program, "sessions", "--repository", "engine") == {"b"}
    assert sessions_of(program, "sessions", "--person", "ADA@x") == {"a"}
    for name, said in (
        ("sessions --model aspen", "--model aspen: no session has it, did you mean 'aspen-4'?"),
        ("judge list --team zzz", "--team zzz: no session has it, known: 'search'"),
        ("compare --label genral", "--label genral: no session has it, did you mean 'general'?"),
        ("tools --fleet --person adda@x", "did you mean 'ada@x'"),
    ):
        ran = program(*name.split())
        assert (ran.code, ran.out) == (2, ""), name
        assert said in " ".join(ran.err.replace("│", " ").split()), name
    assert "2" in program("scorecards", "calibration").out
