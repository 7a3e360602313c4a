"""``books``: summary, states, equations and counts of the books of a day."""

import csv
import io
import json

import pytest

from evaluation_pipelines.schemas import SESSION_EVALUATIONS
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.stores import open_stores
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import claude, line, session
from evaluation_pipelines_tests.world.built_before import build_by
from evaluation_pipelines_tests.world.lake_files import rewrite


@pytest.fixture
def closed(program: Program) -> Program:
    """Two scored sessions of June 1 and one without text that only a judge could score."""
    silent = line(claude("user_prompt", 5, session__id="=s3"), classification__label="incident")
    build_by(program, session("s1") + session("s2", 60) + silent)
    return program


def test_the_summary_comes_first_then_states_equations_and_the_rest(closed: Program) -> None:
    ran = closed("books", "2026-06-01")

    assert (ran.code, ran.err) == (0, "")
    summary, states, equations, others = ran.out.split("\n\n")[:4]
    assert (
        summary == "2026-06-01: the books balance: 3 sessions, 2 scored, 2 scored by their profile."
    )
    cells = [line.split() for line in states.splitlines()]
    assert not any(cell[:2] == ["still", "open"] for cell in cells)  # no row without sessions
    why = "no text of the session was logged"
    assert ["not", "enough", "text", "1", *why.split()] in cells
    assert ["scored", "by", "profile", "2", "scored", "by", "general-performance"] in cells
    # Two sessions of two events and one of one.
    assert "  = 5 events filed under the day = 5 kept" in equations.splitlines()
    assert equations.count("\n  = ") == 10
    assert others == "Judge cost for this day: $0.0000.\n"
    assert closed("books", "2026-06-03").out == "2026-06-03: no data on this day.\n"


def test_sessions_of_a_state_are_listed(closed: Program) -> None:
    ran = closed("books", "2026-06-01", "--sessions", "scored")
    assert [row[0] for row in ran.table()[:2]] == ["s1#baseline-1", "s2#baseline-1"]
    assert "To change the state: " in ran.out
    none = closed("books", "2026-06-01", "--sessions", "failed")
    assert none.out.endswith("\n0 sessions in the state: judgment failed\n")


def test_json_has_everything_and_csv_has_the_sessions(closed: Program) -> None:
    found = json.loads(closed("books", "2026-06-01", "--format", "json").out)
    assert (found["is_balanced"], found["states"]["scored"]) == (True, 2)
    assert [equation["difference"] for equation in found["equations"]] == [0] * 10
    assert found["equations"][0]["whole"]["number"] == 5
    assert {item["session_id"]: item["state"] for item in found["items"]} == {
        "=s3": "too_thin",
        "s1": "scored",
        "s2": "scored",
    }
    thin = closed("books", "2026-06-01", "--format", "csv", "--sessions", "too_thin").out
    (row,) = csv.DictReader(io.StringIO(thin))
    assert (row["session_id"], row["state"]) == ("'=s3", "too_thin")  # no formula


def test_books_that_do_not_balance_exit_with_1(closed: Program) -> None:
    with open_stores(Settings(data_dir=closed.folder / "data")) as stores:
        rewrite(stores, SESSION_EVALUATIONS, lambda rows: rows[1:])
    ran = closed("books", "2026-06-01")

    assert ran.code == 1
    first = ran.out.splitlines()[0]
    assert first == "2026-06-01: the books do NOT balance: 1 of 10 equations do not add up."
    lines = ran.out.splitlines()
    at = lines.index("  ! 3 session windows, but 2 scored by profile: 1 not accounted for")
    assert lines[at + 1] == "      default, =s3#baseline-1"
    found = closed("books", "2026-06-01", "--format", "json")
    assert (found.code, json.loads(found.out)["is_balanced"]) == (1, False)
