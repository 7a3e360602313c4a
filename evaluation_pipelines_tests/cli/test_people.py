"""``people``, and the options that choose sessions by who ran them and where."""

import csv
import io
import json
from collections.abc import Mapping

import pytest

from evaluation_pipelines.cli.people import unknown_cells
from evaluation_pipelines.people.identity_store import unknown_ids
from evaluation_pipelines_tests.program import Program, Ran
from evaluation_pipelines_tests.world import DAY_S, claude, line
from evaluation_pipelines_tests.world.built_before import build_by
from evaluation_pipelines_tests.world.rows import session as session_row
from evaluation_pipelines_tests.world.rows import sessions_frame

HASH = "ab" * 32
IDENTITIES = f"""\
people:
  ada:
    name: Ada Ash
    team: search
    ids:
      - email: ada@x
      - account_id: {HASH}
        agent: claude_code
        from: 2026-06-01
"""


def work(name: str, day: int, where: Mapping[str, object], **said: object) -> bytes:
    """A session of one prompt and one call, on a day of June (from 0)."""
    return line(
        claude("user_prompt", day * DAY_S, session__id=name, **said),
        claude("tool_result", day * DAY_S + 1, session__id=name, tool_name="Read", success="true"),
        **where,
    )


@pytest.fixture
def built(program: Program) -> Program:
    """Ada in two repositories by two ids, and a hash that belongs to no person."""
    engine = {"vcs.repository.name": "engine", "branch": "main"}
    shop = {"vcs.repository.name": "shop", "deployment.environment.name": "laptop"}
    build_by(
        program,
        work("a", 0, engine, user__id=HASH, user__email="ada@x")
        + work("b", 1, shop, user__id=HASH)
        + work("c", 2, {**shop, "team.id": "search"}, user__id="cd" * 32),
    )
    return program


def imported(program: Program, text: str = IDENTITIES) -> Ran:
    path = program.folder / "people.yaml"
    path.write_text(text, encoding="utf-8")
    return program("people", "import", str(path))


def ids(ran: Ran) -> list[str]:
    """Session ids of a JSON list."""
    return [row["session_id"] for row in ran.items()]


def test_an_imported_file_makes_dates_due_and_a_build_applies_it(built: Program) -> None:
    ran = imported(built)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "1 person with 2 ids registered. 2 dates to build again\n"
        "from 2026-06-01 to 2026-06-02: evaluation-pipelines build\n"
    )
    assert (built.folder / "data/identities.yaml").read_text("utf-8") == IDENTITIES
    assert "2026-06-01" in built("build").out
    again = built("people", "import", "data/identities.yaml")
    assert again.out == "1 person with 2 ids registered. 0 dates to build again\n"
    built.set("EVAL_PEOPLE_VIEW", "person")
    assert ids(built("sessions", "--person", "ada", "--format", "json")) == ["a", "b"]


def test_a_file_that_was_edited_by_hand_counts_with_the_next_build(built: Program) -> None:
    path = built.folder / "data/identities.yaml"
    path.write_text(IDENTITIES, encoding="utf-8")
    assert "2026-06-02" in built("build").out
    assert ids(built("sessions", "--team", "search", "--format", "json")) == ["a", "b", "c"]
    path.write_text("people: 1\n", encoding="utf-8")
    ran = built("build")
    assert (ran.code, ran.out) == (0, "build: nothing new\n")
    assert ran.err == (
        "warning: data/identities.yaml, line 1: people is not a mapping (key: value)\n"
    )


def test_people_are_listed(built: Program) -> None:
    none = built("people", "list")
    assert none.out == ("No people are registered: see docs/people.md and data/identities.yaml.\n")
    imported(built)
    table = built("people", "list").out
    assert "ada" in table
    assert f"email ada@x, account_id {HASH} of claude_code from 2026-06-01" in table
    (item,) = json.loads(built("people", "list", "--format", "json").out)["items"]
    assert item == {
        "person_id": "ada",
        "name": "Ada Ash",
        "teams": [{"team": "search", "from": None, "to": None}],
        "ids": [
            {"email": "ada@x", "agent": None, "from": None, "to": None},
            {"account_id": HASH, "agent": "claude_code", "from": "2026-06-01", "to": None},
        ],
    }
    (row,) = csv.DictReader(io.StringIO(built("people", "list", "--format", "csv").out))
    assert (row["person_id"], row["name"], row["team"]) == ("ada", "Ada Ash", "search")


def test_unknown_ids_are_listed_with_where_they_were_seen(built: Program) -> None:
    imported(built)
    due = built("people", "list", "unknown")
    assert due.err == "Last build shown. Dates are due: run `evaluation-pipelines build`.\n"
    built("build")
    ran = built("people", "list", "unknown", "--format", "json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["items"] == [
        {
            "source_cli": "claude_code",
            "user_email": None,
            "user_id": None,
            "account_id": "cd" * 32,
            "host_user": None,
            "organizations": ["default"],
            "teams": ["search"],
            "repositories": ["shop"],
            "organization_sessions": [1],
            "team_sessions": [1],
            "repository_sessions": [1],
            "sessions": 1,
            "first_date": "2026-06-03",
            "last_date": "2026-06-03",
        }
    ]
    assert "cd" * 32 in built("people", "list", "unknown").out
    (row,) = csv.DictReader(io.StringIO(built("people", "list", "unknown", "--format", "csv").out))
    assert (row["account_id"], row["repositories"]) == ("cd" * 32, "shop")
    none = built("people", "list", "unknown", "--date", "2026-06-01")
    assert none.out == "Every session belongs to a person.\n"
    limited = built("people", "list", "unknown", "--limit", "1")
    assert "more" not in limited.out


def test_where_some_sessions_of_an_id_were_seen_says_of_how_many() -> None:
    """The team of one session is not that of all."""
    rows = [
        session_row(organization_id=owner, team_id=team, repository=None, person_id=None)
        for owner, team in (("b", "platform"), ("a", None), ("b", None))
    ]
    found = unknown_ids(sessions_frame(rows), [])
    (row,) = found.to_dicts()
    assert (row["teams"], row["team_sessions"]) == (["platform"], [1])
    assert (row["organizations"], row["organization_sessions"]) == (["a", "b"], [1, 2])
    assert (row["repositories"], row["repository_sessions"]) == ([], [])
    (cells,) = unknown_cells(found)
    assert cells[-3:] == ("a (1 of 3), b (2 of 3)", None, "platform (1 of 3)")


PEOPLE = {"person_id", "user_id", "user_email", "account_id", "host_user"}


@pytest.mark.parametrize(
    ("view", "hidden", "refused"),
    [
        ("off", PEOPLE | {"team", "team_id"}, {"--person", "--team"}),
        ("team", PEOPLE, {"--person"}),
        ("person", set(), set()),
    ],
)
def test_people_are_shown_only_where_that_was_switched_on(
    built: Program, view: str, hidden: set[str], refused: set[str]
) -> None:
    built.set("EVAL_PEOPLE_VIEW", view)
    shown = built("sessions", "--format", "json").out
    columns = set(json.loads(shown)["items"][0])
    assert columns & (PEOPLE | {"team", "team_id"}) == (PEOPLE | {"team", "team_id"}) - hidden
    rows = built("sessions", "--format", "csv").out
    assert set(next(csv.reader(io.StringIO(rows)))) == columns
    assert ("ada@x" in shown, HASH in rows) == (view == "person", view == "person")
    assert ("\n  who        person ada@x, " in built("show", "a").out) == (view == "person")
    for option in ("--person", "--team"):
        ran = built("sessions", option, "x")
        assert ran.code == 2  # no session has it, or it must not be asked
        assert ("not shown" in " ".join(ran.err.split())) == (option in refused)
