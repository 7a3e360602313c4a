"""``--as-of`` of every command that reports scores."""

import pytest

from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.program import Program
from evaluation_pipelines_tests.world import DAY_S, claude, line
from evaluation_pipelines_tests.world.built_before import build_by

LONG_AGO_S = -480 * DAY_S
BETWEEN = "2025-02-06T13:00"
"""An hour after the session started at noon, and a day before it was resumed."""

REPORTS = {
    ("sessions",): "s1#baseline-1",
    ("tools", "s1"): "2 calls lost",
    ("tools", "--fleet"): "1 session with tool calls",
    ("lift",): "No ended session had one masque",
    ("scorecards", "list", "--session", "s1"): "No matching scorecards.",
    ("scorecards", "list", "overrides"): "There are no overrides yet.",
    ("scorecards", "calibration"): "No score is overridden or confirmed yet",
    ("compare", "--from", "2025-02-01", "--to", "2025-03-01"): "as of 2025-02-06 13:00",
    (*("judge", "list", "missing-tools", "--date", "2025-02-01..2025-02-28"),): "No judge named a",
    ("reputation", "list"): "Agents, 0 to 1000",
    ("reputation", "list", "claude-code"): "1/50, calibrating",
}


@pytest.fixture
def resumed(program: Program) -> Program:
    """A session of 2025-02-06 that was resumed a day later; all of it is scored today."""
    second = LONG_AGO_S + DAY_S
    more = line(claude("tool_result", second, session__id="s1", tool_name="Bash", success="true"))
    build_by(program, session_with_texts("s1", LONG_AGO_S) + more)
    return program


def test_every_report_accepts_a_past_time(resumed: Program) -> None:
    for command, expected in REPORTS.items():
        ran = resumed(*command, "--as-of", BETWEEN)
        assert (ran.code, command) == (0, command), ran.err
        assert expected in ran.out, command
    shown = resumed("show", "--judge", "s1", "--as-of", BETWEEN)
    assert (shown.code, shown.err) == (1, "error: s1#baseline-1 has no judge score yet\n")


def test_a_session_is_shown_with_its_events_up_to_the_time(resumed: Program) -> None:
    """Three calls by now, two by then, and no session before it started."""
    tools = {
        when: [row[-6] for row in resumed("sessions", *when).table()]
        for when in ((), ("--as-of", BETWEEN), ("--as-of", "2025-02-06"))
    }
    assert tools == {(): ["3"], ("--as-of", BETWEEN): ["2"], ("--as-of", "2025-02-06"): []}


def test_a_future_time_is_refused(resumed: Program) -> None:
    for command in REPORTS:
        ran = resumed(*command, "--as-of", "2999-01-01")
        assert ran.code == 2
        assert "the time is in the future" in " ".join(ran.err.replace("\u2502", " ").split())
