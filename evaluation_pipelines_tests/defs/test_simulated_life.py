"""Two days and two nights of an installation, simulated with the daemon: the books balance.

Telemetry arrives all day, with a broken line, lines that are sent twice, an event without a session
and a session that goes on a day later. The judge is down for hours, a person corrects a score, and
the process of a build is killed. The expected tables follow from ``PLAN``, independently of the
program.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest
import time_machine

from evaluation_pipelines.cli.program import main
from evaluation_pipelines.schemas import (
    AGENT_EVENTS,
    EVALUATION_BOOKS,
    JUDGE_SCORES,
    SESSION_EVALUATIONS,
)
from evaluation_pipelines_tests.defs.code_location import CodeLocation, range_tags
from evaluation_pipelines_tests.defs.simulated_daemon import Daemon
from evaluation_pipelines_tests.judge_endpoint import JudgeEndpoint
from evaluation_pipelines_tests.judge_scripts import Scripted, http_error
from evaluation_pipelines_tests.judged import session_with_texts
from evaluation_pipelines_tests.receiver import Receiver
from evaluation_pipelines_tests.world import claude, line

MONDAY, TUESDAY = date(2026, 6, 1), date(2026, 6, 2)
MIDNIGHT = datetime(2026, 6, 1, tzinfo=UTC)
STEP_HOURS = 4
EVENTS = 4
"""Events of a session."""


@dataclass(frozen=True)
class Planned:
    """A session that begins ``hour`` hours after the midnight before Monday."""

    name: str
    hour: float

    def line(self, hours_later: float = 0, text: str = "") -> bytes:
        """Return the line of the session, or of its continuation some hours later."""
        return session_with_texts(self.name, (self.hour + hours_later - 12) * 3600, text)


PLAN = [
    Planned(f"{weekday}-{hour}", 24 * number + hour + 0.1)
    for number, weekday in enumerate(("monday", "tuesday"))
    for hour in range(6, 22, 2)
]
"""Eight sessions a day, each of a few seconds."""

SENT_TWICE, CORRECTED, RESUMED = PLAN[0], PLAN[1], PLAN[3]


@dataclass
class Life:
    """Outside events of the installation."""

    location: CodeLocation
    judge: JudgeEndpoint
    monkeypatch: pytest.MonkeyPatch

    def happen(self, hour: int) -> None:
        """Cause the events of the hours before ``hour``."""
        self._land(
            *(planned.line() for planned in PLAN if hour - STEP_HOURS <= planned.hour < hour)
        )
        match hour:
            case 12:  # one line is cut, one sent twice, one without a session; the judge is down
                no_session = claude("user_prompt", -2 * 3600, session__id="")
                self._land(b'{"resourceLogs": [}\n', SENT_TWICE.line(), line(no_session))
                self.judge.always(http_error(500))
            case 16:
                self.judge.always(Scripted())
            case 20:
                self._correct()
            case 36:  # the machine goes down during a build
                tags = range_tags(TUESDAY, TUESDAY)
                self.location.kill(tags)
            case 40:
                self._land(RESUMED.line(26, "Once more, please."))

    def _land(self, *lines: bytes) -> None:
        if lines:
            self.location.workplace.land("agents.jsonl", b"".join(lines), "ab")

    def _correct(self) -> None:
        command = ["scorecards", "override", CORRECTED.name, "--score", "95"]
        details = ["--annotator", "ada", "--reason", "the outcome was what we wanted"]
        self.monkeypatch.setattr(sys, "argv", ["evaluation-pipelines", *command, *details])
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == 0


@pytest.mark.slow
def test_after_two_nights_every_session_is_accounted_for(
    settled_location: CodeLocation,
    judge: JudgeEndpoint,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    location = settled_location
    life = Life(location, judge, monkeypatch)
    with time_machine.travel(MIDNIGHT, tick=True) as time:
        daemon = Daemon(location, time, MIDNIGHT)
        for hour in range(STEP_HOURS, 56 + 1, STEP_HOURS):
            life.happen(hour)
            daemon.live_until(MIDNIGHT + timedelta(hours=hour))
        assert_tables_match_plan(location, daemon)
    assert [text for text in receiver.texts if "books" in text] == []


def assert_tables_match_plan(location: CodeLocation, daemon: Daemon) -> None:
    """Assert that the tables contain what the plan says."""
    lake = location.workplace.lake
    events = lake.read(AGENT_EVENTS, [MONDAY, TUESDAY])
    # 8 sessions of 4 events a day; one of Monday goes on. The event without a session is missing.
    assert Counter(events["session_date"]) == {MONDAY: 9 * EVENTS, TUESDAY: 8 * EVENTS}

    evaluated = lake.read(SESSION_EVALUATIONS, [MONDAY, TUESDAY])
    sources = dict(evaluated.select("session_id", "effective_source").iter_rows())
    assert {planned.name for planned in PLAN} <= sources.keys()
    assert sources[CORRECTED.name] == "override"

    scores = lake.read(JUDGE_SCORES, [MONDAY, TUESDAY]).filter(pl.col("status") == "completed")
    times = Counter(scores["session_id"])
    assert times == {planned.name: 2 if planned is RESUMED else 1 for planned in PLAN}
    current = scores.filter("is_current")
    assert sorted(current["session_id"]) == sorted(planned.name for planned in PLAN)

    books = lake.read(EVALUATION_BOOKS, [MONDAY, TUESDAY])
    assert Counter(books.select("session_date", "state").iter_rows()) == {
        (MONDAY, "scored"): 8,
        (TUESDAY, "scored"): 8,
    }
    assert location.check("evaluation_books", "books_balance").passed

    nightly = [run for run in daemon.runs if run.requested_by == "nightly_evaluation"]
    assert [run.at.date() for run in nightly] == [TUESDAY, date(2026, 6, 3)]
    assert {run.job for run in daemon.failed()} <= {"judge_due"}  # while the judge was down
    assert all(run.at.date() == MONDAY for run in daemon.failed())
