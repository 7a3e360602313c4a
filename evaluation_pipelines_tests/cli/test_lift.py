"""``lift``: comparison of sessions with and without a masque."""

from typing import Any

import pytest

from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import session
from evaluation_pipelines_tests.world.built_before import build_by


def session_of(name: str, masque: str | None, failed: int, person: str) -> bytes:
    """Return a session of one minute and one cent: a prompt and four calls, some failed."""
    calls = ["!"] * failed + [""] * (4 - failed)  # of no known tool
    request = {"model": "model-a", "cost_usd": 0.01, "input_tokens": 10}
    worn: dict[str, Any] = {"user__id": person} | (
        {} if masque is None else {"masque__name": masque}
    )
    return session(name, calls=calls, request=request, every_s=12, **worn)


@pytest.fixture
def lake(program: Program) -> Program:
    """Five people with one session of Scout and one without, and one Critic."""
    failures = [0, 1, 0, 0, 1]
    sessions = [session_of(f"scout-{n}", "Scout", failures[n], f"u{n}") for n in range(5)]
    sessions += [session_of(f"none-{n}", None, 2, f"u{n}") for n in range(5)]
    build_by(program, b"".join((*sessions, session_of("critic", "Critic", 0, "u0"))))
    return program


def test_differences_have_intervals_and_a_note_on_observational_data(lake: Program) -> None:
    ran = lake("lift")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Masque minus baseline from 2026-05-05 to 2026-06-01, with 95%")
    compared, few = ran.out.split("Too few to compare")
    (row,) = [line for line in compared.splitlines() if line.startswith("Scout")]
    # Failure rates 0 or 1 / 4, less 2 / 4: -0.5, -0.25, -0.5, -0.5, -0.25, mean -0.4, variance
    # (3 * 0.01 + 2 * 0.0225) / 4 = 0.01875; t(4) = 2.7764 times sqrt(0.01875 / 5) = 0.170.
    assert row.split()[:4] == ["Scout", "unclassified", "5", "5"]
    assert "-0.400 (-0.570 to -0.230)" in row
    assert "+0.000 (no spread)" in row
    assert "Critic unclassified 1 5 not yet: 1 of 5 default".split() in [
        line.split() for line in few.splitlines()
    ]
    assert "Observational data: people choose the masque and the task" in ran.out
    # Composite and failure rate; cost and time have no interval.
    assert "about 1 of the 2 here" in ran.out


def test_unknown_persons_are_said(program: Program) -> None:
    named = [(f"scout-{n}", "Scout") for n in range(5)] + [(f"none-{n}", None) for n in range(5)]
    sessions = [session_of(name, masque, n % 2, "") for n, (name, masque) in enumerate(named)]
    program.land("logs.jsonl", b"".join(sessions))
    program("ingest")
    program("build")

    assert "The people of many sessions are unknown in 1 row" in program("lift").out


def test_the_minimum_number_of_sessions_is_a_setting(lake: Program) -> None:
    lake.set("EVAL_BASELINE_MIN", "6")
    ran = lake("lift")

    assert "not yet: 5 of 6" in ran.out
    assert "95%" not in ran.out
