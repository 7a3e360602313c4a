"""``lift``: comparison of sessions with and without a masque."""

import json

import pytest

from evaluation_pipelines_tests.otlp_builders import claude, line
from evaluation_pipelines_tests.program import Program


def session_of(name: str, masque: str | None, failed: int) -> bytes:
    """Return a session of one minute and one cent: a prompt and four calls, some failed."""
    calls = [
        claude("tool_result", 10 + n, session__id=name, success=str(n >= failed).lower())
        for n in range(4)
    ]
    request = claude(
        "api_request", 60, session__id=name, model="model-a", cost_usd=0.01, input_tokens=10
    )
    worn = {} if masque is None else {"masque__name": masque}
    return line(claude("user_prompt", 0, session__id=name), *calls, request, **worn)


@pytest.fixture
def lake(program: Program) -> Program:
    """Five sessions of Scout without a failure, five baselines with two failures, one Critic."""
    sessions = [session_of(f"scout-{n}", "Scout", 0) for n in range(5)]
    sessions += [session_of(f"none-{n}", None, 2) for n in range(5)]
    program.land("logs.jsonl", b"".join((*sessions, session_of("critic", "Critic", 0))))
    program("ingest")
    program("build")
    return program


def test_differences_have_intervals_and_a_note_on_observational_data(lake: Program) -> None:
    ran = lake("lift")

    assert (ran.code, ran.err) == (0, "")
    compared, few = ran.out.split("Too few to compare")
    (row,) = [each for each in compared.splitlines() if each.startswith("Scout")]
    # Failure rate 0 - 2 / 4; the same cost and time. Without any variance there is no margin.
    assert row.split()[:4] == ["Scout", "unclassified", "5", "5"]
    assert "-0.500 (-0.500 to -0.500)" in row
    assert "+0.000 (+0.000 to +0.000)" in row
    assert "Critic unclassified 1 5 not yet: 1 of 5 default".split() in [
        each.split() for each in few.splitlines()
    ]
    assert "Observational data: people choose the masque and the task" in ran.out
    assert "about 1 of the 4 here" in ran.out


def test_json_has_the_rows(lake: Program) -> None:
    critic, scout = json.loads(lake("lift", "--format", "json").out)

    assert critic["composite_state"] == "not yet: 1 of 5"
    assert scout["failure_rate_difference"] == -0.5


def test_the_minimum_number_of_sessions_is_a_setting(
    lake: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVAL_BASELINE_MIN", "6")
    ran = lake("lift")

    assert "not yet: 5 of 6" in ran.out
    assert "95%" not in ran.out


def test_dates_without_a_masque(lake: Program) -> None:
    ran = lake("lift", "--date", "2026-05-01")

    assert ran.out.startswith("No ended session of these dates had one masque")
