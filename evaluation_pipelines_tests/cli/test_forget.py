"""``forget`` and ``expire`` on the terminal."""

from contextlib import closing

import pytest

from evaluation_pipelines.cli.conventions import PARTLY
from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines.storage.lock import held
from evaluation_pipelines_tests.erasure.two_people import EMAIL, SESSION, two_people
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world.built_before import build_by


@pytest.fixture
def built(program: Program) -> Program:
    build_by(program, two_people())
    return program


def test_a_dry_run_lists_the_sessions_and_changes_nothing(built: Program) -> None:
    ran = built("forget", "--person", EMAIL, "--dry-run")

    assert ran.code == 0
    assert ran.out.splitlines() == [
        "would erase 2 sessions:",
        f"  {SESSION} of default",
        f"  {SESSION}-2 of default",
    ]
    assert SESSION in built("sessions", "--format", "csv").out


@pytest.mark.parametrize("option", ["--person", "--user", "--session", "--organization"])
def test_what_is_not_known_is_an_error_that_says_where_to_look(built: Program, option: str) -> None:
    for more in ([], ["--dry-run"]):
        ran = built("forget", option, "carol@x", *more)
        assert (ran.code, ran.out) == (1, "")
        assert "Nothing is known of the" in ran.err
        assert "ingest" in ran.err


def test_an_id_that_only_the_identities_have_says_what_to_type(built: Program) -> None:
    people = "people:\n  ada:\n    name: Ada\n    ids:\n      - email: ada@home.test\n"
    (built.folder / "data" / "identities.yaml").write_text(people)
    built("build")
    for option, value, what in (
        ("--user", "ada@home.test", "an id of ada"),
        ("--user", "ada", "a person"),
        ("--person", "ADA@home.test", "an id of ada"),
    ):
        ran = built("forget", option, value, "--dry-run")
        assert ran.code == 1
        assert f"'{value}' is {what} in the identities file. Nothing was erased." in ran.err
        assert "everything of ada: evaluation-pipelines forget --person ada" in ran.err
        only = "or only sessions with this id, if there are any: evaluation-pipelines forget --user"
        assert ran.err.endswith(f"{only} {value}\n") is (option == "--person")
    ran = built("forget", "--session", f"{SESSION}#baseline-1")
    assert f"use --session {SESSION}." in ran.err


def test_exactly_one_subject_is_named(built: Program) -> None:
    assert built("forget").code == 2
    assert built("forget", "--person", "a", "--session", "b").code == 2


def test_what_was_erased_and_what_is_exempt_is_printed(built: Program) -> None:
    ran = built("forget", "--session", SESSION)

    assert ran.code == PARTLY, ran.err
    assert "1 landing file still with traces: forget --rewrite-landing rewrites it" in ran.err
    assert "erased 1 session: erasure 1 by " in ran.out
    assert "  agent_events_landed: 4 rows erased" in ran.out
    assert "copies and exports" in ran.out
    again = built("forget", "--session", SESSION)
    assert again.code == PARTLY
    assert "erased 0 sessions: erasure 2" in again.out
    built.land("again.jsonl", two_people())
    assert "  erased events, left out: 4\n" in built("ingest").out
    assert "4 erased events left out\n" in built("status").out


def test_nothing_expires_unless_a_setting_says_so(program: Program) -> None:
    ran = program("expire")
    assert (ran.code, ran.err) == (0, "")
    assert "Nothing expires" in ran.out


def test_what_would_be_deleted_is_deleted(program: Program) -> None:
    build_by(program, two_people())
    program.set("EVAL_KEEP_TEXTS_DAYS", "30")

    planned, done = program("expire", "--dry-run"), program("expire")

    assert planned.out.startswith("would delete texts of 2 dates: 2026-06-01 to 2026-06-02\n")
    assert done.out.startswith("deleted texts of 2 dates: 2026-06-01 to 2026-06-02\n")
    assert "  event_texts_landed: 12 rows" in done.out
    assert "oldest events: 2026-06-01" in done.out
    built = program("build", "--date", "2026-06-01")
    assert built.code == 1
    assert "EVAL_KEEP_TEXTS_DAYS" in built.out + built.err


def test_a_date_that_is_being_built_is_partly_done(program: Program) -> None:
    build_by(program, two_people())
    program.set("EVAL_KEEP_TEXTS_DAYS", "30")
    program.set("EVAL_LOCK_TIMEOUT_SECONDS", "1")
    ledger = open_ledger("sqlite:///data/ledger.db")
    with closing(ledger), held(ledger, "build 2026-06-01"):
        ran = program("expire")
    assert ran.code == PARTLY, ran.err
    assert "not yet: " in ran.err
    assert program("expire").code == 0
