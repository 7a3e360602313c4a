"""Sessions with logged texts, and judge runs over them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Self

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import PlanOverrides, load_plans
from evaluation_pipelines.judging.report import JudgeReport
from evaluation_pipelines.judging.run import JudgeRun, RunRequest
from evaluation_pipelines.judging.score_requests import RequestResult, request_score
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines_tests.workplace import NOW, Workplace, open_workplace
from evaluation_pipelines_tests.world import DAY_S, NOON_NS, claude, line
from evaluation_pipelines_tests.world.built_before import build_from

JUNE_1 = date(2026, 6, 1)


def session_with_texts(name: str, second: float = 0, text: str = "", **resource: object) -> bytes:
    """Return one landing line: a session of a prompt, a search, a failed edit and a reply."""
    return line(
        claude("user_prompt", second, session__id=name, prompt=f"Fix the parser of {name}. {text}"),
        claude(
            "tool_result",
            second + 1,
            session__id=name,
            tool_name="Grep",
            success="true",
            tool_parameters='{"pattern": "parse"}',
        ),
        claude(
            "tool_result",
            second + 2,
            session__id=name,
            tool_name="Edit",
            success="false",
            error="string not found",
            tool_parameters='{"file_path": "src/parser.py"}',
        ),
        claude("assistant_response", second + 3, session__id=name, response="It is fixed."),
        **resource,
    )


def old_session(name: str, number: int = 0) -> bytes:
    """Return a session of the day with this number, as counted by the code location's tests."""
    return session_with_texts(name, (number - 480) * DAY_S)


def fresh_session(name: str, hours: float = 2) -> bytes:
    """Return a session that ended ``hours`` ago."""
    return session_with_texts(name, time.time() - hours * 3600 - NOON_NS / 1e9)


def fill(workplace: Workplace, *lines: bytes) -> None:
    """Land ``lines``, ingest them and build all dates."""
    build_from(workplace, b"".join(lines))


@dataclass
class Judged:
    """A workplace with a judge endpoint and a simulated time."""

    workplace: Workplace
    now: datetime = NOW

    def run(self, *, overrides: PlanOverrides | None = None, **request: Any) -> JudgeReport:
        """Run the judge over all dates; ``request`` has fields of ``RunRequest``."""
        stores = self.workplace.stores
        plans = load_plans(stores, self.now, overrides)
        run_request = RunRequest(**{"triggered_by": "tests", **request})
        judge_run = JudgeRun(stores, plans, run_request, lambda: self.now)
        return judge_run.run(stores.lake.partitions(AGENT_SESSIONS))

    def with_settings(self, **changes: object) -> Self:
        """Return the same stores with other settings."""
        return replace(self, workplace=self.workplace.with_settings(**changes))

    def request(
        self, session: str = "s1", *, organization: str | None = None, force: bool = False
    ) -> RequestResult:
        """Request a score of a session, as Ada."""
        stores, query = self.workplace.stores, SessionName(session, organization)
        plans = load_plans(stores, self.now)
        return request_score(stores, plans, query, "ada", self.now, force=force)

    def scores(self, session_key: str) -> list[Score]:
        """Return all scorings of a session, oldest first."""
        return ScoreStore(self.workplace.ledger).by_session("default", session_key)

    def all_scores(self) -> list[Score]:
        """Return all scorings, by session."""
        scores = ScoreStore(self.workplace.ledger)
        found = [score for day in scores.dates() for score in scores.on_date(day)]
        return sorted(found, key=lambda score: (score.session_key, score.scored_at_us))

    def score(self, session_key: str) -> Score:
        """Return the only scoring of a session."""
        (found,) = self.scores(session_key)
        return found


@contextmanager
def open_judged(folder: Path, base_url: str, **settings: Any) -> Iterator[Judged]:
    """Open a workplace whose judge is at ``base_url``; ``settings`` as in ``Settings``."""
    given = {
        "OPENAI_BASE_URL": base_url,
        "judge_model": "judge-1",
        "judge_input_usd_per_mtok": 1.0,
        "judge_output_usd_per_mtok": 10.0,
        "judge_max_output_tokens": 1000,
    }
    with open_workplace(folder, **{**given, **settings}) as workplace:
        yield Judged(workplace)
