"""Every command that reports on scores takes a past time, and shows nothing of what came later."""

import pytest

from evaluation_pipelines_tests.judged import told_session
from evaluation_pipelines_tests.otlp_builders import DAY_S, claude, line
from evaluation_pipelines_tests.program import Program

LONG_AGO_S = -480 * DAY_S
BETWEEN = "2025-02-06T13:00"
"""An hour after the session began at noon, a day before it went on."""

REPORTS = {
    ("sessions",): "s1#baseline-1",
    ("tools", "s1"): "2 calls lost",
    ("tools", "--fleet"): "1 session with tool calls",
    ("lift",): "No session of these dates that has ended",
    ("scorecards", "query", "--session", "s1"): "There are no scorecards like that.",
    ("scorecards", "overrides"): "Nobody has said anything yet.",
    ("scorecards", "calibration"): "Nobody has corrected or confirmed a score yet",
    ("compare", "--from", "2025-02-01", "--to", "2025-03-01"): "as of 2025-02-06 13:00",
    ("judge", "missing-tools", "--from", "2025-02-01", "--to", "2025-03-01"): "No judge missed",
    ("reputation", "leaderboard"): "Agents, 0 to 1000",
    ("reputation", "show", "claude-code"): "1/50, calibrating",
}


@pytest.fixture
def resumed(program: Program) -> Program:
    """A session of 6 February 2025 that went on a day later, all of it scored today."""
    second = LONG_AGO_S + DAY_S
    more = line(claude("tool_result", second, session__id="s1", tool_name="Bash", success="true"))
    program.land("logs.jsonl", told_session("s1", LONG_AGO_S) + more)
    program("ingest")
    program("build")
    return program


def test_every_report_takes_a_past_time(resumed: Program) -> None:
    for command, expected in REPORTS.items():
        ran = resumed(*command, "--as-of", BETWEEN)
        assert (ran.code, command) == (0, command), ran.err
        assert expected in ran.out, command
    shown = resumed("judge", "show", "s1", "--as-of", BETWEEN)
    assert (shown.code, shown.err) == (1, "error: s1#baseline-1 is not scored (HTTP 404)\n")


def test_a_session_is_shown_with_what_had_happened(resumed: Program) -> None:
    """Three calls by now, two by then; and before it began there is no session."""
    tools = {
        when: [row[-2] for row in resumed("sessions", *when).table()]
        for when in ((), ("--as-of", BETWEEN), ("--as-of", "2025-02-06"))
    }
    assert tools == {(): ["3"], ("--as-of", BETWEEN): ["2"], ("--as-of", "2025-02-06"): []}


def test_a_time_to_come_is_refused(resumed: Program) -> None:
    for command in REPORTS:
        ran = resumed(*command, "--as-of", "2999-01-01")
        assert ran.code == 2
        assert "this is still to come" in " ".join(ran.err.replace("\u2502", " ").split())
