"""``expire`` on the terminal."""

from contextlib import closing

import pytest

from evaluation_pipelines.cli.conventions import PARTLY
from evaluation_pipelines.storage.ledger.ledger import open_ledger
from evaluation_pipelines.storage.lock import held
from evaluation_pipelines_tests.erasure.two_people import two_people
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world.built_before import build_by


def test_nothing_expires_unless_a_setting_says_so(program: Program) -> None:
    ran = program("expire")
    assert (ran.code, ran.err) == (0, "")
    assert "Nothing expires" in ran.out


def test_what_would_be_deleted_is_deleted(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_by(program, two_people())
    monkeypatch.setenv("EVAL_KEEP_TEXTS_DAYS", "30")

    planned, done = program("expire", "--dry-run"), program("expire")

    assert planned.out.startswith("would delete texts of 2 dates: 2026-06-01 to 2026-06-02\n")
    assert done.out.startswith("deleted texts of 2 dates: 2026-06-01 to 2026-06-02\n")
    assert "  event_texts_landed: 12 rows" in done.out
    assert "oldest events: 2026-06-01" in done.out
    built = program("build", "--date", "2026-06-01")
    assert built.code == 1
    assert "EVAL_KEEP_TEXTS_DAYS" in built.out + built.err


def test_a_date_that_is_being_built_is_partly_done(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_by(program, two_people())
    monkeypatch.setenv("EVAL_KEEP_TEXTS_DAYS", "30")
    monkeypatch.setenv("EVAL_LOCK_TIMEOUT_SECONDS", "1")
    ledger = open_ledger("sqlite:///data/ledger.db")
    with closing(ledger), held(ledger, "build 2026-06-01"):
        ran = program("expire")
    assert ran.code == PARTLY, ran.err
    assert "not yet: " in ran.err
    assert program("expire").code == 0
